import json
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model.json_patch import Add, Operation, Remove, pointer


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param((), "", id="the whole document"),
        pytest.param(("spec", "containers", 0), "/spec/containers/0", id="names and places"),
        pytest.param(("example.com/gpu",), "/example.com~1gpu", id="a slash"),
        pytest.param(("a~b",), "/a~0b", id="a tilde"),
        pytest.param(("~1",), "/~01", id="what looks escaped already"),
        pytest.param(("",), "/", id="an empty name"),
    ],
)
def test_a_pointer_leads_through_any_keys(keys: tuple[str | int, ...], expected: str) -> None:
    assert pointer(*keys) == expected


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param(Add("/a", "1"), {"op": "add", "path": "/a", "value": "1"}, id="add"),
        pytest.param(Add("/a", {}), {"op": "add", "path": "/a", "value": {}}, id="an empty map"),
        pytest.param(Remove("/a"), {"op": "remove", "path": "/a"}, id="remove"),
    ],
)
def test_an_operation_encodes_to_what_the_api_server_reads(
    operation: Operation, expected: dict[str, Any]
) -> None:
    assert json.loads(msgspec.json.encode(operation)) == expected


@given(key=st.text(), value=st.text())
def test_f31_any_key_is_added_and_removed_again(key: str, value: str) -> None:
    add = msgspec.json.encode([Add(pointer("map", key), value)]).decode()
    remove = msgspec.json.encode([Remove(pointer("map", key))]).decode()

    added = jsonpatch.JsonPatch.from_string(add).apply({"map": {}})

    assert added == {"map": {key: value}}
    assert jsonpatch.JsonPatch.from_string(remove).apply(added) == {"map": {}}
