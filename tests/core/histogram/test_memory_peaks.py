from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.histogram.memory_peaks import Folding, Peaks, Readings, Windows, fold, run_starts

INTERVAL = 100.0
NONE = float("nan")


def a_window(end: float = NONE, usage: float = 0, oom: float = 0) -> Windows:
    return Windows(np.array([end]), np.array([float(usage)]), np.array([float(oom)]))


def fold_one(
    window: Windows, readings: Sequence[tuple[float, float]], *, from_oom_kills: bool = False
) -> Folding:
    times, values = (np.array(column, np.float64) for column in zip(*readings, strict=True))
    owners = np.zeros(len(times), np.int64)
    intervals = np.array([INTERVAL])
    return fold(window, Readings(owners, values, times), intervals, from_oom_kills=from_oom_kills)


@pytest.mark.parametrize(
    ("window", "readings", "added"),
    [
        pytest.param(a_window(110, 0), [(50, 8)], [], id="a peak of zero stays"),
        pytest.param(a_window(), [(10, 0), (20, 8)], [(0, 110)], id="so does one that opens"),
        pytest.param(a_window(), [(10, 3), (20, 8)], [(8, 110)], id="a peak of three rises"),
        pytest.param(a_window(110, 0), [(110, 8)], [(8, 210)], id="the next window sees again"),
    ],
)
def test_a_peak_of_zero_may_be_kept_as_the_original_does(
    window: Windows, readings: Sequence[tuple[float, float]], added: list[tuple[float, float]]
) -> None:
    times, values = (np.array(column, np.float64) for column in zip(*readings, strict=True))
    owners = np.zeros(len(times), np.int64)
    folding = fold(
        window,
        Readings(owners, values, times),
        np.array([INTERVAL]),
        from_oom_kills=False,
        keeps_zero_peaks=True,
    )

    assert listed(folding.added) == added


def listed(peaks: Peaks) -> list[tuple[float, float]]:
    return list(zip(peaks.value.tolist(), peaks.end.tolist(), strict=True))


@pytest.mark.parametrize(
    ("window", "readings", "removed", "added"),
    [
        pytest.param(
            a_window(), [(10, 5)], [], [(5, 110)], id="the first reading opens a window at its time"
        ),
        pytest.param(
            a_window(110, 5), [(50, 5)], [], [], id="an equal reading in the window changes nothing"
        ),
        pytest.param(
            a_window(110, 5),
            [(50, 8)],
            [(5, 110)],
            [(8, 110)],
            id="a larger reading takes the place of the peak",
        ),
        pytest.param(
            a_window(110, 0),
            [(50, 8)],
            [(0, 110)],
            [(8, 110)],
            id="a window that began with zero bytes still sees what follows",
        ),
        pytest.param(
            a_window(110, 9),
            [(110, 1)],
            [],
            [(1, 210)],
            id="a reading at the very end opens the next window",
        ),
        pytest.param(
            a_window(110, 9),
            [(355, 1)],
            [],
            [(1, 410)],
            id="windows without readings are skipped and keep the rhythm",
        ),
        pytest.param(
            a_window(110, 5),
            [(50, 7), (60, 6), (120, 3), (130, 4), (310, 2)],
            [(5, 110)],
            [(7, 110), (4, 210), (2, 410)],
            id="one batch over several windows books one peak for each",
        ),
        pytest.param(
            a_window(110, 5, oom=20),
            [(50, 8)],
            [],
            [],
            id="usage below what an OOM kill showed changes nothing",
        ),
        pytest.param(
            a_window(110, 5, oom=20),
            [(50, 30)],
            [(20, 110)],
            [(30, 110)],
            id="usage above what an OOM kill showed replaces it",
        ),
        pytest.param(
            a_window(110, 5),
            [(-500, 8)],
            [(5, 110)],
            [(8, 110)],
            id="a reading from before the window counts for the current one",
        ),
    ],
)
def test_readings_change_the_booked_peaks(
    window: Windows,
    readings: list[tuple[float, float]],
    removed: list[tuple[float, float]],
    added: list[tuple[float, float]],
) -> None:
    folding = fold_one(window, readings)

    assert listed(folding.removed) == removed
    assert listed(folding.added) == added


def test_an_oom_kill_is_kept_apart_from_usage() -> None:
    folding = fold_one(a_window(110, 5), [(50, 20)], from_oom_kills=True)

    assert folding.windows.usage_peak.tolist() == [5]
    assert folding.windows.oom_peak.tolist() == [20]
    assert folding.windows.peak.tolist() == [20]


def test_a_new_window_forgets_both_peaks_of_the_old_one() -> None:
    after_usage = fold_one(a_window(110, 5, oom=20), [(120, 1)]).windows
    after_kill = fold_one(a_window(110, 5, oom=20), [(120, 1)], from_oom_kills=True).windows

    assert (after_usage.usage_peak.tolist(), after_usage.oom_peak.tolist()) == ([1], [0])
    assert (after_kill.usage_peak.tolist(), after_kill.oom_peak.tolist()) == ([0], [1])


def test_each_window_has_an_interval_of_its_own() -> None:
    windows = Windows(np.array([NONE, NONE]), np.zeros(2), np.zeros(2))
    readings = Readings(np.array([0, 1]), np.array([1.0, 2.0]), np.array([0.0, 0.0]))

    folding = fold(windows, readings, np.array([10.0, 25.0]), from_oom_kills=False)

    assert folding.windows.end.tolist() == [10, 25]


reading_lists = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 50)), min_size=1, max_size=30
).map(lambda pairs: sorted(pairs, key=lambda pair: pair[0]))


def booked_after(readings: list[tuple[float, float]], batch_sizes: list[int]) -> dict[float, float]:
    """What stands booked at each window's end after readings in batches."""
    window, booked, rest = a_window(), dict[float, float](), list(readings)
    for size in [*batch_sizes, len(rest)]:
        batch, rest = rest[:size], rest[size:]
        if batch:
            folding = fold_one(window, batch)
            for value, end in listed(folding.removed):
                assert booked.pop(end) == value
            for value, end in listed(folding.added):
                assert end not in booked
                booked[end] = value
            window = folding.windows
    return booked


@given(reading_lists, st.lists(st.integers(0, 5), max_size=5))
def test_exactly_the_largest_reading_of_every_window_stands_booked(
    readings: list[tuple[float, float]], batch_sizes: list[int]
) -> None:
    first = readings[0][0]
    expected: dict[float, float] = {}
    for time, value in readings:
        end = first + INTERVAL * ((time - first) // INTERVAL + 1)
        expected[end] = max(value, expected.get(end, 0))

    assert booked_after(readings, batch_sizes) == expected


def test_runs_start_where_any_column_changes() -> None:
    assert run_starts(np.array([1, 1, 2, 2, 2]), np.array([0, 0, 0, 1, 1])).tolist() == [0, 2, 3]
    assert run_starts(np.zeros(0, np.int64)).tolist() == []
