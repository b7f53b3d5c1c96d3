"""The first table of the page: the least flattering line first, and what is missing below it."""

from collections.abc import Sequence

from bench import __main__ as everything
from bench import recommender, summary, updater
from bench.contestants import Limits
from bench.findings import SECTIONS, Findings
from bench.scoring import Entry, Side
from bench.summary import SIZE
from bench.updater_tables import Task
from bench.workloads import Swing


def told_of(**entries: Sequence[Entry]) -> str:
    known = {section.name: entries.get(section.name, []) for section in SECTIONS}
    return "".join(summary.tell(Findings(known, {}, {}, {})))


def both(group: str, name: str, ours: float, original: float, size: int = SIZE) -> list[Entry]:
    return [
        Entry(group, size, 1, side, {name: value})
        for side, value in zip(Side, (ours, original), strict=True)
    ]


def test_the_least_flattering_line_stands_first() -> None:
    told = told_of(
        recommender=both("lifted", "settled_cpu", 1.0, 20.0),
        updater=both(Task.ALL, "planning_cpu", 2.0, 1.0),
    )
    lines = [line for line in told.splitlines() if line.startswith("| ") and "**" in line]

    assert [line.rpartition("| **")[2] for line in lines] == ["0.5** |", "20** |"]


def test_where_more_is_better_the_ratio_is_turned_round() -> None:
    told = told_of(updater=both(Task.ALL_BY_DEFAULT, "in_first_minute", 6, 600))

    assert "| 6 | 600 | **0.01** |" in told


def test_lines_that_were_not_measured_are_named_and_have_no_figure() -> None:
    told = told_of(recommender=both("lifted", "settled_cpu", 1.0, 20.0, size=100))

    assert "**" not in told
    assert told.count("\n- ") == len(summary.POINTS)


def test_every_line_is_measured_by_some_contest() -> None:
    turns = recommender.plan([SIZE], 1, [Limits.LIFTED], list(Swing))
    recommenders = {turn.group for turn in turns}
    updaters = {turn.group for turn in updater.plan([SIZE], 1, list(Task))}

    for point in summary.POINTS:
        if point.section == "recommender":
            assert point.group in recommenders
        if point.section == "updater":
            assert point.group in updaters


def test_one_command_measures_the_first_table_in_less_than_twenty_minutes() -> None:
    assert sum(everything.IN_SHORT_MINUTES.values()) < 20
    assert everything.IN_SHORT.keys() == everything.IN_SHORT_MINUTES.keys()
    assert everything.IN_SHORT.keys() < everything.CONTESTS.keys()
