"""Writes that are under way at once, and what becomes of them when time is over."""

import asyncio
from datetime import timedelta

import pytest
from support.fakes.clocks import LoopClock, StillClock, run_virtually
from support.makers.records import NOW, minutes

from trimtab.recommender.reports import Step
from trimtab.recommender.writes import Writers

SECOND = timedelta(seconds=1)
ITEMS = [(str(number), number) for number in range(20)]


def test_no_more_writes_are_under_way_at_once_than_there_are_writers() -> None:
    under_way: list[int] = []
    most = 0

    async def act(item: int) -> None:
        nonlocal most
        under_way.append(item)
        most = max(most, len(under_way))
        await asyncio.sleep(1)
        under_way.remove(item)

    writers = Writers(LoopClock(), 4)
    written, problems = run_virtually(writers.write(Step.PUBLISH, ITEMS, act))

    assert most == 4
    assert sorted(written) == list(range(20))
    assert problems == []


@pytest.mark.parametrize(
    ("is_final", "count"),
    [
        pytest.param(False, 2, id="each writer writes one, however late it is"),
        pytest.param(True, 0, id="nothing more is begun by the last ones"),
    ],
)
async def test_when_time_is_over_only_those_with_a_later_turn_go_on(
    *, is_final: bool, count: int
) -> None:
    async def act(_: int) -> None:
        await asyncio.sleep(0)

    writers = Writers(StillClock(), 2, until=NOW, is_final=is_final)
    written, _ = await writers.write(Step.PUBLISH, ITEMS, act)

    assert writers.is_late()
    assert len(written) == count


def test_the_last_writers_give_up_what_hangs_and_tell_how_far_they_came() -> None:
    async def act(item: int) -> None:
        await asyncio.sleep(0.1 if item < 5 else 3600)

    async def play() -> tuple[list[int], timedelta]:
        clock = LoopClock()
        writers = Writers(clock, 3, until=clock.now() + 10 * SECOND, is_final=True)
        written, problems = await writers.write(Step.PUBLISH, ITEMS, act)
        assert problems == []
        return written, clock.elapsed()

    written, elapsed = run_virtually(play())

    assert sorted(written) == [0, 1, 2, 3, 4]
    assert 10 * SECOND <= elapsed < minutes(1)
