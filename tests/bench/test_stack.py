"""How the whole stack at rest is told."""

import pytest

from bench import stack, stack_tables
from bench.scoring import Entry, Side
from bench.stack_tables import SECTION

VALUES = {
    **{measure.name: 2.0 for table in SECTION.tables for measure in table.measures},
    "minutes": 10.0,
}


def entries_of(cpu: float) -> list[Entry]:
    return [
        Entry(stack_tables.IDLE, 1000, 1, Side.OURS, VALUES | {"cpu": cpu}),
        Entry(stack_tables.IDLE, 1000, 1, Side.ORIGINAL, VALUES | {"cpu": 8.0}),
    ]


def test_the_page_tells_for_how_long_the_stacks_were_watched() -> None:
    told = "".join(stack_tables.tell(entries_of(cpu=2.0)))

    assert "for 10 minutes" in told
    assert "| CPU per minute | 1000 | idle | 2.00 s | 8.00 s | **4** |" in told


def test_a_stack_that_needs_more_than_was_recorded_got_worse() -> None:
    recorded = entries_of(cpu=2.0)

    assert list(SECTION.find_regresses(entries_of(cpu=3.0), recorded))
    assert not list(SECTION.find_regresses(recorded, recorded))


@pytest.mark.parametrize(
    ("side", "rate"),
    [
        pytest.param(Side.OURS, 2 / 45 + 1 / 1.5, id="ours, events sooner than all else"),
        pytest.param(Side.ORIGINAL, 3 / 7.5, id="the original"),
    ],
)
def test_watches_are_reads_by_how_long_they_last(side: Side, rate: float) -> None:
    assert stack.reopened_per_minute(side, {"pods": 2, "events": 1}) == pytest.approx(rate)
