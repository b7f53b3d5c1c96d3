"""Readings as they were taken: gaps, restarts and nonsense, and what is made of them."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.backtest.demand import LEAST_STEPS, Flaws, Reading, rates, record

_STEP = timedelta(minutes=5)
_SECONDS = 300.0
_BEGIN = 1_767_225_600.0
_COUNT = 2 * LEAST_STEPS


def _reading(values: list[float], *, every: float = _SECONDS, begin: float = _BEGIN) -> Reading:
    return Reading(
        begin + every * np.arange(len(values), dtype=np.float64), np.array(values, np.float64)
    )


_FLAT = _reading([100.0] * _COUNT)


def test_readings_in_every_step_become_its_values() -> None:
    values = [float(number) for number in range(_COUNT)]
    recording, flaws = record("web", _reading(values), _FLAT, _STEP)

    assert recording is not None
    assert recording.trace.cpu_millicores == tuple(values)
    assert recording.trace.memory_bytes == (100.0,) * _COUNT
    assert recording.start == datetime.fromtimestamp(_BEGIN, UTC)
    assert flaws == Flaws()


def test_of_several_readings_in_a_step_cpu_is_averaged_and_memory_is_the_largest() -> None:
    fine = _reading([1.0, 2.0, 3.0, 4.0, 5.0] * _COUNT, every=60.0)
    recording, _ = record("web", fine, fine, _STEP)

    assert recording is not None
    assert recording.trace.cpu_millicores == (3.0,) * _COUNT
    assert recording.trace.memory_bytes == (5.0,) * _COUNT


def test_a_gap_holds_the_last_value_and_is_told() -> None:
    times = _BEGIN + _SECONDS * np.array([*range(10), *range(16, _COUNT)])
    cpu = Reading(times, np.where(times < _BEGIN + 3000, 10.0, 20.0))
    recording, flaws = record("web", cpu, _FLAT, _STEP)

    assert recording is not None
    assert recording.trace.cpu_millicores == (10.0,) * 16 + (20.0,) * (_COUNT - 16)
    assert flaws == Flaws(filled=6 * _STEP)
    assert list(flaws.lines()) == [
        "gaps of 0.5 h in all were filled with the last value before them"
    ]


@pytest.mark.parametrize("nonsense", [np.nan, np.inf, -1.0, 1e20])
def test_nonsense_is_left_out_and_counted(nonsense: float) -> None:
    values = [100.0] * _COUNT
    values[5] = nonsense
    recording, flaws = record("web", _reading(values), _reading(values), _STEP)

    assert recording is not None
    assert set(recording.trace.cpu_millicores) == {100.0}
    assert (flaws.absurd, flaws.filled) == (2, _STEP)


def test_what_begins_later_decides_where_a_recording_begins() -> None:
    late = _reading([7.0] * (_COUNT - 3), begin=_BEGIN + 3 * _SECONDS)
    recording, flaws = record("web", late, _FLAT, _STEP)

    assert recording is not None
    assert recording.start == datetime.fromtimestamp(_BEGIN + 3 * _SECONDS, UTC)
    assert flaws == Flaws()


@pytest.mark.parametrize(
    "cpu",
    [
        pytest.param(_reading([]), id="nothing at all"),
        pytest.param(_reading([1.0] * _COUNT, begin=_BEGIN + 20 * _SECONDS * _COUNT), id="apart"),
    ],
)
def test_too_little_is_left_out_by_name_and_nothing_breaks(cpu: Reading) -> None:
    short = _reading([100.0] * (LEAST_STEPS - 1))

    assert record("web", short, short, _STEP) == (None, Flaws(too_short=("web",)))
    recording, flaws = record("web", cpu, _FLAT, _STEP)
    assert (recording is None) == bool(flaws.too_short)


def test_a_counter_that_begins_anew_counts_from_there() -> None:
    counter = _reading([0.0, 150.0, 300.0, 30.0, 180.0])
    usage, resets = rates(counter)

    assert usage.values.tolist() == pytest.approx([500.0, 500.0, 100.0, 500.0])
    assert usage.times.tolist() == counter.times[1:].tolist()
    assert resets == 1


@given(st.lists(st.floats(0, 4000), min_size=LEAST_STEPS, max_size=60))
def test_a_counter_tells_what_was_used_whatever_it_was(used: list[float]) -> None:
    totals = np.concatenate([[0.0], np.cumsum(np.array(used) / 1000 * _SECONDS)])
    usage, resets = rates(_reading(totals.tolist()))

    assert usage.values == pytest.approx(np.array(used), abs=1e-3)
    assert resets == 0
