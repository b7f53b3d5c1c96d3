"""Requests a second: a burst at once, then one after the other."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.clocks import LoopClock, StillClock, run_virtually
from support.makers.records import NOW

from trimtab.cluster.http.rate_limit import RequestBudget


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


async def test_a_burst_is_spent_at_once_and_then_one_waits() -> None:
    clock = StillClock()
    budget = RequestBudget(clock, rate=2, burst=3)

    moments = []
    for _ in range(5):
        await budget.spend()
        moments.append(clock.moment - NOW)

    assert moments == [seconds(0), seconds(0), seconds(0), seconds(0.5), seconds(1)]


async def test_time_that_passes_fills_the_budget_up_to_its_burst_and_no_further() -> None:
    clock = StillClock()
    budget = RequestBudget(clock, rate=1, burst=2)
    await budget.spend()
    await budget.spend()
    clock.moment += timedelta(hours=1)

    moments = []
    for _ in range(3):
        await budget.spend()
        moments.append(clock.moment - NOW - timedelta(hours=1))

    assert moments == [seconds(0), seconds(0), seconds(1)]


@pytest.mark.parametrize("rate", [0, -1])
async def test_without_a_rate_nobody_waits(rate: float) -> None:
    clock = StillClock()
    budget = RequestBudget(clock, rate=rate, burst=1)

    for _ in range(100):
        await budget.spend()

    assert clock.moment == NOW


async def test_who_lifts_the_budget_waits_no_more() -> None:
    clock = StillClock()
    budget = RequestBudget(clock, rate=1, burst=1)
    await budget.spend()
    budget.lift()
    for _ in range(100):
        await budget.spend()

    assert clock.moment == NOW


async def test_a_burst_of_zero_still_lets_one_through_after_the_other() -> None:
    clock = StillClock()
    budget = RequestBudget(clock, rate=1, burst=0)

    await budget.spend()
    await budget.spend()

    assert clock.moment == NOW + seconds(1)


async def test_an_urgent_request_never_waits_but_makes_others_wait() -> None:
    clock = StillClock()
    budget = RequestBudget(clock, rate=1, burst=1)
    await budget.spend()

    await budget.spend(is_urgent=True)
    urgent_at = clock.moment
    await budget.spend()

    assert urgent_at == NOW
    assert clock.moment == NOW + seconds(2)


async def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    clock = StillClock()
    budget = RequestBudget(clock, rate=1, burst=2)
    await budget.spend()
    clock.moment -= timedelta(hours=1)

    await budget.spend()

    assert clock.moment == NOW - timedelta(hours=1)


def test_those_who_wait_are_served_in_the_order_in_which_they_came() -> None:
    async def race() -> list[tuple[int, float]]:
        clock = LoopClock()
        budget = RequestBudget(clock, rate=1, burst=1)
        served: list[tuple[int, float]] = []

        async def one(number: int) -> None:
            await budget.spend()
            served.append((number, round(clock.elapsed().total_seconds(), 6)))

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(one(number))
        return served

    assert run_virtually(race()) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_whoever_gives_up_waiting_leaves_the_turn_to_the_next() -> None:
    async def race() -> float:
        clock = LoopClock()
        budget = RequestBudget(clock, rate=1, burst=1)
        await budget.spend()
        impatient = asyncio.create_task(budget.spend())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
        await budget.spend()
        return clock.elapsed().total_seconds()

    assert run_virtually(race()) == pytest.approx(1)


@given(
    st.lists(st.floats(0, 5), max_size=40),
    st.floats(0.1, 50),
    st.integers(1, 10),
)
def test_no_span_of_time_sees_more_than_the_burst_and_the_rate_allow(
    pauses: list[float], rate: float, burst: int
) -> None:
    async def spend() -> list[float]:
        clock = StillClock()
        budget = RequestBudget(clock, rate=rate, burst=burst)
        moments = []
        for pause in pauses:
            clock.moment += seconds(pause)
            await budget.spend()
            moments.append((clock.moment - NOW).total_seconds())
        return moments

    moments = asyncio.run(spend())

    for first, start in enumerate(moments):
        for last in range(first, len(moments)):
            allowed = burst + rate * (moments[last] - start)
            assert last - first + 1 <= allowed + 1e-3
