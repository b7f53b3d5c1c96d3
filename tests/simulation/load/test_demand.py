from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation.plain_demand import Luck, plain_demand
from support.makers.records import MIB, hours, minutes

from trimtab.core.model.resources import BOTH
from trimtab.simulation.load.demand import ContainerDemand
from trimtab.simulation.world import loads
from trimtab.simulation.world.loads import Bursts, Load, Trace, Wave
from trimtab.simulation.world.virtual_time import START

amount = st.floats(0, 1e13)
change = st.floats(-1e13, 1e13)
share = st.floats(0, 1)
span = st.integers(0, 40 * 24 * 3600 * 1000).map(lambda count: timedelta(milliseconds=count))
wave = st.builds(Wave, amount, change, share, change, change, share, change, change)
trace = st.integers(1, 5).flatmap(
    lambda count: st.builds(
        Trace,
        *[st.lists(amount, min_size=count, max_size=count).map(tuple)] * 2,
        step=st.integers(1, 10**5).map(lambda seconds: timedelta(seconds=seconds)),
    )
)
load = st.builds(
    Load,
    wave,
    wave,
    day=st.lists(st.floats(0, 2), min_size=24, max_size=24).map(tuple),
    bursts=st.builds(Bursts, span.filter(bool), span),
    trace=st.none() | trace,
    phase=span,
)


def a_demand(seed: int = 1) -> ContainerDemand:
    return ContainerDemand(np.random.Generator(np.random.PCG64(seed)))


def look(demand: ContainerDemand, row: int, now: datetime) -> tuple[float, float]:
    cpu, memory = demand.evaluate(now)
    return float(cpu[row]), float(memory[row])


def luck_of(seed: int, capacity: int, row: int, place: int) -> Luck:
    """What a fresh generator gives a row at the first look."""
    draws = np.random.Generator(np.random.PCG64(seed)).random((2, 2, capacity))
    return Luck(float(draws[0, place, row]), float(draws[1, place, row]))


@given(st.lists(st.tuples(load, span), min_size=1, max_size=4), span, st.integers(0, 99))
def test_columns_hold_what_each_load_is_by_itself(
    given_loads: list[tuple[Load, timedelta]], elapsed: timedelta, seed: int
) -> None:
    demand, now = a_demand(seed), START + elapsed
    rows = [demand.add(each, START + since) for each, since in given_loads]

    columns = demand.evaluate(now)

    for row, (each, since) in zip(rows, given_loads, strict=True):
        for place, resource in enumerate(BOTH):
            luck = luck_of(seed, demand.capacity, row, place)
            expected = plain_demand(each, resource, since=START + since, now=now, luck=luck)
            assert columns[place][row] == expected


@given(st.lists(load, min_size=1, max_size=4), span)
def test_nobody_ever_wants_less_than_nothing_or_what_is_no_number(
    given_loads: list[Load], elapsed: timedelta
) -> None:
    demand = a_demand()
    for each in given_loads:
        demand.add(each, START)

    columns = demand.evaluate(START + elapsed)

    assert all((np.isfinite(column) & (column >= 0)).all() for column in columns)


@given(st.lists(load, min_size=1, max_size=4), span)
def test_one_seed_is_one_demand(given_loads: list[Load], elapsed: timedelta) -> None:
    one, other = a_demand(7), a_demand(7)
    for each in given_loads:
        one.add(each, START)
        other.add(each, START)

    for _ in range(3):
        np.testing.assert_array_equal(
            one.evaluate(START + elapsed), other.evaluate(START + elapsed)
        )


def test_more_rows_than_there_was_room_for_keep_their_loads() -> None:
    demand = a_demand()
    rows = [
        demand.add(loads.constant(cpu_millicores=number, memory_bytes=number * MIB), START)
        for number in range(200)
    ]

    cpu, memory = demand.evaluate(START)

    assert cpu[rows].tolist() == list(range(200))
    assert memory[rows].tolist() == [number * MIB for number in range(200)]


def test_a_row_that_is_removed_wants_nothing_and_is_used_again() -> None:
    demand = a_demand()
    row = demand.add(loads.constant(cpu_millicores=10, memory_bytes=MIB), START)
    demand.evaluate(START)

    demand.remove(row)

    assert look(demand, row, START) == (0, 0)
    assert demand.add(loads.constant(cpu_millicores=1, memory_bytes=2), START) == row
    assert look(demand, row, START) == (1, 2)


def test_a_load_can_be_replaced_while_the_container_runs() -> None:
    demand = a_demand()
    row = demand.add(loads.constant(cpu_millicores=10, memory_bytes=MIB), START)
    demand.evaluate(START)

    demand.replace(row, loads.constant(cpu_millicores=30, memory_bytes=2 * MIB))

    assert look(demand, row, START) == (30, 2 * MIB)


def test_a_leak_grows_until_the_container_begins_anew() -> None:
    demand = a_demand()
    leak = loads.leaking(cpu_millicores=10, memory_bytes=100, leak_per_hour=50)
    row = demand.add(leak, START)

    before = look(demand, row, START + hours(2))
    demand.restart(row, START + hours(2))
    after = look(demand, row, START + hours(3))

    assert before == (10, 200)
    assert after == (10, 150)


@pytest.mark.parametrize(
    ("at", "cpu"),
    [
        pytest.param(hours(3), 100, id="the least at night"),
        pytest.param(hours(10), 1000, id="the most in the morning"),
        pytest.param(hours(6.5), 500, id="half of the way from seven to half past"),
        pytest.param(timedelta(days=5, hours=10), 300, id="less on a Saturday"),
        pytest.param(timedelta(days=7, hours=10), 1000, id="the most again on the next Monday"),
    ],
)
def test_a_day_has_its_shape_and_weekends_have_their_own(at: timedelta, cpu: float) -> None:
    shape = tuple([0.0] * 7 + [8 / 9] + [1.0] * 16)
    week = Load(Wave(base=100, daily=900, weekend_factor=2 / 9), Wave(), day=shape)
    demand = a_demand()
    row = demand.add(week, START)

    assert look(demand, row, START + at)[0] == pytest.approx(cpu)


def test_a_trace_is_played_step_by_step_and_over_again_from_its_phase() -> None:
    demand = a_demand()
    load = loads.recorded(Trace((1, 2, 3), (10, 20, 30), step=minutes(5)), phase=minutes(5))
    row = demand.add(load, START)

    played = [look(demand, row, START + minutes(count)) for count in (0, 4, 5, 10, 16)]

    assert played == [(2, 20), (2, 20), (3, 30), (1, 10), (2, 20)]


def test_bursts_last_and_come_back() -> None:
    demand = a_demand()
    bursts = Bursts(every=hours(1), length=minutes(5))
    load = loads.bursty(cpu_millicores=100, memory_bytes=MIB, factor=5, bursts=bursts)
    row = demand.add(load, START)

    cpu = [look(demand, row, START + minutes(count))[0] for count in (0, 4, 5, 59, 60, 64)]

    assert cpu == [500, 500, 100, 100, 500, 500]


def test_spikes_come_about_as_often_as_they_should() -> None:
    demand = a_demand()
    load = loads.spiky(cpu_millicores=100, memory_bytes=MIB, factor=3, chance=0.1)
    row = demand.add(load, START)

    looks = [look(demand, row, START)[0] for _ in range(2000)]

    assert set(looks) == {100, 300}
    assert 120 < looks.count(300) < 280


def test_loads_that_are_held_stay_as_they_are_without_chance() -> None:
    demand = a_demand()
    shape = loads.weekly(cpu_millicores=1000, memory_bytes=100 * MIB)
    leak = loads.leaking(cpu_millicores=10, memory_bytes=100, leak_per_hour=50)
    rows = [demand.add(shape, START), demand.add(leak, START)]

    demand.held_at = START + hours(10)
    held = [np.stack(demand.evaluate(START + hours(count)))[:, rows] for count in (10, 30, 300)]

    np.testing.assert_array_equal(held[0], [[1000, 10], [100 * MIB, 600]])
    np.testing.assert_array_equal(held[0], held[1])
    np.testing.assert_array_equal(held[0], held[2])


def test_a_trace_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Trace((), ())
