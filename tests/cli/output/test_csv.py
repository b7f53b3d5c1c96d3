import csv
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.cli.output.csv import format_csv


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("web", "web", id="a name"),
        pytest.param("a,b", '"a,b"', id="what separates cells"),
        pytest.param(-5, "-5", id="a number below zero is no formula"),
        pytest.param(0.25, "0.25", id="a fraction"),
        pytest.param(None, "", id="nothing"),
        pytest.param("=1+1", "'=1+1", id="a formula"),
        pytest.param("+1", "'+1", id="one with a plus"),
        pytest.param("-1", "'-1", id="text that begins with a minus"),
        pytest.param("@sum(a1)", "'@sum(a1)", id="one with an at sign"),
        pytest.param("\uff1d1", "'\uff1d1", id="a wide equals sign"),
        pytest.param("a=1", "a=1", id="an equals sign further on"),
        pytest.param("\t=1", "\\t=1", id="a formula behind a tab"),
        pytest.param("a\x1b[2Jb", "a\\x1b[2Jb", id="what a terminal would obey"),
        pytest.param("a\r\nb", "a\\r\\nb", id="another line"),
    ],
)
def test_text_stays_text_and_numbers_stay_numbers(value: object, written: str) -> None:
    assert format_csv([["x", value]]) == f"x,{written}\n"


@given(st.lists(st.tuples(st.text(), st.text()), max_size=4))
def test_every_row_is_one_line_without_anything_to_obey(rows: list[tuple[str, str]]) -> None:
    text = format_csv(rows)
    cells = [cell for row in csv.reader(StringIO(text)) for cell in row]

    assert len(cells) == 2 * len(rows)
    assert all(line.isprintable() for line in text.split("\n"))
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
