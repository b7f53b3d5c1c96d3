from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW, amounts

from trimtab.core.model.pods import Allocation
from trimtab.simulation.nodes.containers import Start
from trimtab.simulation.world.objects import Startup

limits = st.none() | st.integers(0, 10_000)
spans = st.lists(st.tuples(st.integers(0, 100), limits), max_size=5)


def an_allocation(limit: int | None) -> Allocation:
    return Allocation(limits=amounts(cpu=limit))


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


@given(st.integers(0, 60), st.floats(0, 1000), limits, st.integers(0, 1000))
def test_a_resize_to_the_same_amount_changes_nothing(
    delay: int, work: float, limit: int | None, after: int
) -> None:
    start = Start.begin(Startup(seconds(delay), work), NOW, an_allocation(limit))

    resized = start.resized(NOW + seconds(after), an_allocation(limit))

    expected = max(start.ready_at, NOW + seconds(after))
    assert abs(resized.ready_at - expected) < seconds(0.001)


@given(st.floats(0, 1000), limits, limits)
def test_more_cpu_never_makes_a_start_slower(
    work: float, one: int | None, other: int | None
) -> None:
    ready = {
        limit: Start.begin(Startup(seconds(1), work), NOW, an_allocation(limit)).ready_at
        for limit in (one, other)
    }

    less, more = sorted((one, other), key=lambda limit: limit or 10**9)
    assert ready[more] <= ready[less]


@given(st.integers(0, 60), st.floats(0, 100), spans)
def test_a_start_never_ends_before_its_delay_however_often_it_is_resized(
    delay: int, work: float, resizes: list[tuple[int, int | None]]
) -> None:
    now = NOW
    start = Start.begin(Startup(seconds(delay), work), now, an_allocation(1000))
    for span, limit in resizes:
        now += seconds(span)
        start = start.resized(now, an_allocation(limit))

        assert start.ready_at >= max(now, NOW + seconds(delay))


def test_work_that_is_done_is_not_done_again() -> None:
    start = Start.begin(Startup(seconds(10), work_cpu_seconds=30), NOW, an_allocation(1000))

    resized = start.resized(NOW + seconds(20), an_allocation(2000))

    assert start.ready_at == NOW + seconds(40)
    assert resized.ready_at == NOW + seconds(30)


@pytest.mark.parametrize(("work", "millicores"), [(0.0, 0), (5.0, 3000)])
def test_only_a_start_with_work_to_do_burns_cpu(work: float, millicores: int) -> None:
    startup = Startup(work_cpu_seconds=work, max_millicores=3000)

    assert Start.begin(startup, NOW, an_allocation(None)).burnt_millicores == millicores
