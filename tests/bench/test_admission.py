"""What is measured of the webhooks, and how it is told."""

from bench import page
from bench.admission import CONTEST, plan
from bench.page import GOVERNED, STARTED, STRANGE
from bench.scoring import Entry, Side

REQUESTS = {"cpu": 0.2, "seconds": 0.5, "p50": 0.002, "p99": 0.02}
PROCESS = {"seconds": 1.0, "cpu": 0.5, "peak": 80e6}


def entries_of(size: int, *, ours_cpu: float = 0.2, resident: float = 50e6) -> list[Entry]:
    return [
        Entry(group, size, 1, side, values | ({"cpu": ours_cpu} if side is Side.OURS else {}))
        for side in Side
        for group, values in (
            (STRANGE, REQUESTS),
            (GOVERNED, REQUESTS),
            (STARTED, {**PROCESS, "resident": resident}),
        )
    ]


def test_the_sides_take_turns_and_so_does_who_is_first() -> None:
    order = [(case.round, case.side) for case in plan([1], rounds=2)]

    assert order == [(1, Side.OURS), (1, Side.ORIGINAL), (2, Side.ORIGINAL), (2, Side.OURS)]


def test_latencies_are_told_in_milliseconds() -> None:
    assert "| 20.00 ms | 20.00 ms | **1** |" in page.format_admission(entries_of(1))


def test_memory_is_told_by_what_each_further_autoscaler_takes() -> None:
    measured = entries_of(1) + entries_of(1001, resident=50e6 + 1000 * 2048)

    assert "| 2.0 KiB | 2.0 KiB |" in page.format_admission(measured)


def test_more_cpu_than_was_recorded_is_a_regress() -> None:
    recorded = entries_of(1)

    worse = CONTEST.find_regresses(entries_of(1, ours_cpu=0.3), recorded)

    assert [text.partition(":")[0] for text in worse] == [
        f"1, {group}" for group in (STRANGE, GOVERNED, STARTED)
    ]
    assert not CONTEST.find_regresses(recorded, recorded)
