import pytest

from trimtab.cli.output.markdown import format_table


def test_numbers_are_aligned_right_below_the_titles() -> None:
    table = format_table([["name", "cores"], ["web", "0.5"]], numbers=(1,))

    assert table == "| name | cores |\n| --- | ---: |\n| web | 0.5 |\n"


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        pytest.param("a|b", "a\\|b", id="what separates cells"),
        pytest.param("a\nb", "a\\nb", id="another line"),
        pytest.param("a\x1b[2Jb", "a\\x1b[2Jb", id="what a terminal would obey"),
    ],
)
def test_text_stays_in_its_cell(cell: str, written: str) -> None:
    assert format_table([["name"], [cell]]).splitlines()[2] == f"| {written} |"
