import json
from collections.abc import Callable

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from trimtab.cli.output import documents

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
RECORDS = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(RECORDS)
def test_json_is_read_as_it_was_written(record: object) -> None:
    assert json.loads(documents.format_json(record)) == record


@pytest.mark.parametrize(
    ("write", "read"),
    [
        pytest.param(documents.format_json, json.loads, id="JSON"),
        pytest.param(documents.format_yaml, yaml.safe_load, id="YAML"),
    ],
)
@given(st.text())
@example("\x7f")
@example("\x9b2J")
def test_text_is_ascii_and_no_terminal_obeys_it(
    write: Callable[[object], str], read: Callable[[str], object], text: str
) -> None:
    written = write({"name": text})

    assert written.isascii()
    assert written.replace("\n", "").isprintable()
    assert read(written) == {"name": text}


def test_fields_of_yaml_keep_their_order() -> None:
    assert documents.format_yaml({"b": 1, "a": [2]}) == "b: 1\na:\n- 2\n"
