"""What stands in a part of the page."""

from dataclasses import replace

import pytest
from support.makers.scores import SECTION, rounds

from bench import sections
from bench.findings import SECTIONS
from bench.sections import Section


def test_a_section_tells_how_it_was_measured_its_tables_rounds_growth_and_bounds() -> None:
    entries = rounds((1, 10), (1, 12)) + rounds((10, 100), size=1000)

    told = "".join(SECTION.tell(entries, ["\nMore.\n"]))

    parts = [
        "## Made up",
        "How it was made.",
        "| CPU per tick | 100 |",
        "Rounds recorded",
        "0.96 |",
    ]
    found = [told.index(part) for part in [*parts, "More.", "*Imports.*"]]
    assert found == sorted(found)


def test_a_section_of_which_nothing_was_measured_is_left_out() -> None:
    assert not list(SECTION.tell([], ["more"]))


def test_rounds_are_counted_where_they_differ() -> None:
    same = rounds((1, 10), (1, 12))
    other = rounds((1, 10), size=1000)

    assert sections.format_rounds(same) == "2 of everything"
    assert sections.format_rounds(same + other) == "1 of 1000 lifted; 2 of 100 lifted"


def test_a_section_tells_at_which_commits_it_was_measured() -> None:
    old = [replace(entry, commit="0123456") for entry in rounds((1, 10))]
    new = [replace(entry, commit="789abcd") for entry in rounds((1, 10), size=1000)]

    assert " At commit `0123456`.\n" in "".join(SECTION.tell(old))
    assert " At commit `0123456` (100 lifted); `789abcd` (1000 lifted).\n" in "".join(
        SECTION.tell(old + new)
    )
    assert "At commit" not in "".join(SECTION.tell(rounds((1, 10))))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_what_bounds_a_measure_stands_under_the_head_that_it_names(section: Section) -> None:
    named = {measure.bound for table in section.tables for measure in table.measures} - {""}

    assert [head for head in named if f"*{head}.*" not in section.bounds] == []
