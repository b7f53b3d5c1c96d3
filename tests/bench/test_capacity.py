"""What is written down of one recommender for many containers."""

import asyncio
import json
from pathlib import Path

from bench import capacity, capacity_tables
from trimtab.core.model.estimation import Estimator


def test_runs_replace_only_those_of_their_size(tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    capacity.write_runs(path, [{"containers": 100, "peak": 1}, {"containers": 10, "peak": 2}])
    capacity.write_runs(path, [{"containers": 10, "peak": 3}])

    assert json.loads(path.read_text(encoding="utf-8"))["runs"] == [
        {"containers": 10, "peak": 3},
        {"containers": 100, "peak": 1},
    ]


def test_growth_is_told_of_memory_and_of_all_cpu() -> None:
    costs = (
        "peak_bytes",
        "cpu_seconds_to_list",
        "cpu_seconds_of_first_tick",
        "cpu_seconds_per_tick",
    )
    runs = [{"containers": size, **dict.fromkeys(costs, size)} for size in (10, 100)]

    assert [round(each.ours, 2) for each in capacity_tables.list_growths({"runs": runs})] == [
        1.0
    ] * 4
    assert not list(capacity_tables.list_growths({"runs": runs[:1]}))


def test_every_tick_has_usage_of_its_own_however_fast_it_is() -> None:
    """A tenth of the checkpoints is saved in each, of containers whose usage was counted."""
    found = asyncio.run(capacity.live(400))

    statuses, checkpoints = 100, 200
    assert found["restored_checkpoints"] == checkpoints
    assert found["writes"] >= statuses + (1 + capacity.TICKS) * checkpoints / 10


def test_targets_that_are_held_are_measured_in_the_same_way() -> None:
    found = asyncio.run(capacity.live(400, Estimator.COST))

    assert found["restored_checkpoints"] == 200
    assert found["cpu_seconds_to_save_all"] > 0


def test_an_empty_page_says_that_nothing_follows() -> None:
    """As a server does; a list that says otherwise is refused, and its kind is never listed."""
    assert b"continue" in capacity.make_page([b"{}"], end=250, count=300)
    assert b"continue" not in capacity.make_page([b"{}"], end=500, count=300)
    assert b"continue" not in capacity.make_page([], end=250, count=300)
