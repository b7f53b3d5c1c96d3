"""What a recommender writes in the long run is counted by kind."""

import asyncio

from bench import writes, writes_tables
from bench.workloads import Swing


def test_writes_are_counted_by_kind() -> None:
    ticks = asyncio.run(writes.count(Swing.WIDE, 10, 12))

    assert len(ticks) == 12
    assert all(tick["checkpoints"] <= 20 for tick in ticks)
    assert sum(tick["statuses"] for tick in ticks) > 0
    assert all(tick["bytes"] > 0 for tick in ticks if tick["statuses"] or tick["checkpoints"])


def test_f34_usage_that_swings_costs_no_more_than_usage_that_is_steady() -> None:
    """Once memory windows have begun long ago; the original writes 60 in every tick."""
    found = {swing: asyncio.run(writes.count(swing, 20, 60))[40:] for swing in Swing}
    sums = {
        swing: sum(tick["statuses"] + tick["checkpoints"] for tick in ticks)
        for swing, ticks in found.items()
    }

    assert sums[Swing.WIDE] <= 2 * sums[Swing.NARROW]
    assert all(total / 20 <= 60 / 15 for total in sums.values())


def test_averages_are_told_beside_what_the_original_writes() -> None:
    ticks = [{"statuses": 20, "checkpoints": 80, "bytes": 102_400}] * 120
    runs = list(writes.summarize(Swing.WIDE, ticks))
    document = {"autoscalers": 1000, "of_the_original": 3000, "commit": "0123456", "runs": runs}
    told = "".join(writes_tables.tell(document))

    assert "| wide | ticks 61 to 120 | 20 | 80 | 100 | 100 | **30** |" in told
    assert not list(writes_tables.tell({}))
