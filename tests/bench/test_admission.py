"""What is measured of the webhooks, and how it is told."""

from bench.admission import plan
from bench.admission_tables import COLD, FULL, GOVERNED, SECTION, STARTED, STRANGE, WARM, WORST
from bench.scoring import Entry, Side

REQUESTS = {"cpu": 0.2, "seconds": 0.5, "p50": 0.002, "p99": 0.02}
PROCESS = {"seconds": 1.0, "cpu": 0.5, "resident": 50e6, "peak": 80e6}


def entries_of(size: int, *, ours_cpu: float = 0.2) -> list[Entry]:
    return [
        Entry(group, size, 1, side, values | ({"cpu": ours_cpu} if side is Side.OURS else {}))
        for side in Side
        for group, values in (
            (STRANGE, REQUESTS),
            (GOVERNED, REQUESTS),
            (WORST, REQUESTS),
            (STARTED, PROCESS),
        )
    ]


def test_the_sides_take_turns_and_so_does_who_is_first() -> None:
    order = [(case.round, case.side) for case in plan([1], rounds=2)]

    assert order == [(1, Side.OURS), (1, Side.ORIGINAL), (2, Side.ORIGINAL), (2, Side.OURS)]


def test_latencies_are_told_in_milliseconds() -> None:
    assert "| 20.00 ms | 20.00 ms | **1** |" in SECTION.format_tables(entries_of(1))


def test_seconds_for_a_thousand_requests_are_told_as_requests_per_second() -> None:
    assert "| Requests per second | 1 | others | 2000/s | 2000/s | **1** |" in (
        SECTION.format_tables(entries_of(1))
    )


def test_random_order_is_told_beside_the_other_pods() -> None:
    made = [
        Entry(group, 1000, 1, side, values)
        for side in Side
        for group, values in ((COLD, REQUESTS), (WARM, REQUESTS), (FULL, {"peak": 80e6}))
    ]

    told = SECTION.format_tables(made)

    assert "| CPU per 1 000 requests | 1000 | all in random order, cold | 0.20 s |" in told
    assert "|  | 1000 | all in random order, warm | 0.20 s |" in told
    assert "| The most memory | 1000 | process that was asked about all | 76 MiB |" in told


def test_growth_is_told_of_requests_of_all_kinds_and_of_the_process() -> None:
    found = list(SECTION.list_growths(entries_of(1) + entries_of(1000)))

    assert {growth.group for growth in found} == {GOVERNED, STRANGE, WORST, STARTED}
    assert {growth.title for growth in found} >= {"CPU per 1 000 requests", "Resident memory"}


def test_more_cpu_than_was_recorded_is_a_regress() -> None:
    recorded = entries_of(1)

    worse = SECTION.find_regresses(entries_of(1, ours_cpu=0.3), recorded)

    assert [regress.case for regress in worse] == [
        (group, 1) for group in (STRANGE, GOVERNED, WORST, STARTED)
    ]
    assert not list(SECTION.find_regresses(recorded, recorded))
