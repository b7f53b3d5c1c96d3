import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.cli.output.columns import disarm, lay_out


def test_columns_are_as_wide_as_what_stands_in_them() -> None:
    lines = lay_out([["NAME", "CPU"], ["web", "100m"], ["longer", "1"]])

    assert lines == ["NAME    CPU", "web     100m", "longer  1"]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(None, ["NAMESPACE  NAME", "shop       frontend"], id="no screen"),
        pytest.param(19, ["NAMESPACE  NAME", "shop       frontend"], id="wide enough"),
        pytest.param(17, ["NAMESP…  NAME", "shop     frontend"], id="titles are cut first"),
        pytest.param(15, ["NAMES…  NAME", "shop    fronte…"], id="then names"),
    ],
)
def test_names_are_cut_where_the_screen_is_narrow(width: int | None, expected: list[str]) -> None:
    rows = [["NAMESPACE", "NAME"], ["shop", "frontend"]]

    assert lay_out(rows, names=(0, 1), width=width) == expected


def test_numbers_stand_at_the_right_where_asked() -> None:
    lines = lay_out([["", "today"], ["CPU slack %", "50.0"]], right=(1,))

    assert lines == ["             today", "CPU slack %   50.0"]


@given(st.text("abc", max_size=60), st.integers(30, 90))
def test_numbers_are_never_cut_and_lines_fit_whatever_the_name(name: str, width: int) -> None:
    lines = lay_out([["NAME", "REQUEST"], [name, "1024Mi -> 363Mi"]], names=(0,), width=width)

    assert lines[1].endswith("1024Mi -> 363Mi")
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("Größe … 1Gi", "Größe … 1Gi", id="what can be seen stays"),
        pytest.param("a\x1b[2Jb", "a\\x1b[2Jb", id="an escape sequence"),
        pytest.param("a\x9b2Jb", "a\\x9b2Jb", id="its short form"),
        pytest.param("a\r\nb", "a\\r\\nb", id="another line"),
        pytest.param("a\u202eb", "a\\u202eb", id="text that runs backwards"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_by_its_code(text: str, shown: str) -> None:
    assert disarm(text) == shown


@given(st.lists(st.text(), min_size=1))
def test_columns_hold_nothing_that_cannot_be_seen(names: list[str]) -> None:
    lines = lay_out([["NAME"], *([name] for name in names)], names=(0,), width=40)

    assert all(line.isprintable() for line in lines)
