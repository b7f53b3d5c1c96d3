"""What is measured of the updaters, and how it is told."""

import pytest

from bench import updater_tables, updaters
from bench.scoring import Entry, Side
from bench.updater import plan
from bench.updater_tables import SECTION, Task

VALUES = {
    Task.ALL: {
        "eviction_seconds": 2.0,
        "seconds": 20.0,
        "cpu": 0.3,
        "server_cpu": 1.5,
        "writes": 300.0,
        "reads": 12.0,
        "planning_cpu": 1.0,
        "peak": 60e6,
        "in_first_minute": 1000.0,
        "urgent_share": 0.97,
    },
    Task.ALL_CONTROLLED: {"seconds": 30.0, "cpu": 0.3},
    Task.ALL_BY_DEFAULT: {"in_first_minute": 7.0, "urgent_share": 1.0},
    Task.NOTHING: {"cpu": 0.1, "reads": 0.0, "writes": 0.0, "resident": 50e6, "peak": 60e6},
}
PLANNING = {
    "rounds": 5,
    "lines": [
        {
            "autoscalers": size,
            "to_be_changed": "all",
            "what": "plan",
            "costs": {"first": size / 10, "again": size / 20, "rewritten": size / 20},
        }
        for size in (100, 1000)
    ],
}


def entries_of(size: int) -> list[Entry]:
    return [Entry(task, size, 1, side, values) for task, values in VALUES.items() for side in Side]


def test_default_limits_are_not_measured_where_the_end_is_too_far_away() -> None:
    tasks = {(turn.size, turn.group) for turn in plan([100, 3000], rounds=1, tasks=list(Task))}

    assert (100, Task.ALL_BY_DEFAULT) in tasks
    assert (3000, Task.ALL_BY_DEFAULT) not in tasks
    assert (3000, Task.ALL) in tasks


def test_every_measure_of_every_task_is_told() -> None:
    told = "".join(updater_tables.tell(entries_of(100) + entries_of(1000), PLANNING))

    for table in SECTION.tables:
        for measure in table.measures:
            assert f"| {measure.title} | 100 |" in told


def test_more_evictions_and_a_larger_share_are_told_without_a_ratio() -> None:
    told = updater_tables.PACE.format(entries_of(100))

    assert told.splitlines()[-1] == f"|  | 100 | {Task.ALL_BY_DEFAULT} | 100% | 100% |"


def test_what_has_no_ratio_cannot_get_worse() -> None:
    now = [Entry(Task.ALL_BY_DEFAULT, 100, 1, side, {"in_first_minute": 1.0}) for side in Side]

    assert not list(SECTION.find_regresses(now, entries_of(100)))


def test_planning_is_told_with_its_growth() -> None:
    told = "".join(updater_tables.tell(entries_of(100) + entries_of(1000), PLANNING))

    assert "| plan | 1000 | all | 100 ms | 50 ms | 50 ms |" in told
    assert "| Planning: plan, first | all | 100 … 1000 | 1.00 |  |" in told


@pytest.mark.parametrize(
    ("metrics", "ticks"),
    [
        pytest.param("", 0, id="before the first tick"),
        pytest.param(
            'vpa_updater_execution_latency_seconds_count{step="FilterPods"} 9\n'
            'vpa_updater_execution_latency_seconds_count{step="total"} 7.0\n',
            7,
            id="only whole ticks count",
        ),
    ],
)
def test_ticks_are_read_from_the_metrics(metrics: str, ticks: int) -> None:
    assert updaters.parse_ticks(metrics) == ticks
