import numpy as np

from trimtab.core.histogram.memory_peaks import Windows
from trimtab.core.usage.containers import Containers


def a_window(end: float, usage: float = 0.0, oom: float = 0.0) -> Windows:
    return Windows(np.array([end]), np.array([usage]), np.array([oom]))


def window_of(containers: Containers, row: int) -> tuple[float, float, float]:
    window = containers.windows(np.array([row]))
    return float(window.end[0]), float(window.usage_peak[0]), float(window.oom_peak[0])


def test_a_moved_container_starts_without_a_window() -> None:
    containers = Containers()
    row = containers.add(1)
    containers.put_windows(np.array([row]), a_window(100.0, 7.0))
    containers.move(row, 2)

    assert containers.aggregate[row] == 2
    assert np.isnan(window_of(containers, row)[0])


def test_a_container_that_comes_back_goes_on_in_its_old_window() -> None:
    containers = Containers()
    row = containers.add(1)
    containers.put_windows(np.array([row]), a_window(100.0, 7.0, 9.0))
    containers.move(row, 2)
    containers.put_windows(np.array([row]), a_window(200.0, 3.0))
    containers.move(row, 1)

    assert window_of(containers, row) == (100.0, 7.0, 9.0)
    containers.move(row, 2)
    assert window_of(containers, row) == (200.0, 3.0, 0.0)


def test_a_container_that_never_had_a_window_has_none_to_come_back_to() -> None:
    containers = Containers()
    row = containers.add(1)
    for aggregate in (2, 1, 2):
        containers.move(row, aggregate)

    assert np.isnan(window_of(containers, row)[0])


def test_moving_keeps_when_the_last_samples_were_taken() -> None:
    containers = Containers()
    row = containers.add(1)
    containers.floats("last_cpu")[row] = 50.0
    containers.move(row, 2)

    assert containers.floats("last_cpu")[row] == 50.0


def test_a_removed_container_leaves_no_window_to_the_next_one() -> None:
    containers = Containers()
    row = containers.add(1)
    containers.put_windows(np.array([row]), a_window(100.0, 7.0))
    containers.move(row, 2)
    containers.remove(row)
    again = containers.add(2)
    containers.move(again, 1)

    assert again == row
    assert len(containers) == 1
    assert np.isnan(window_of(containers, again)[0])


def test_windows_parked_under_an_aggregate_go_with_it() -> None:
    containers = Containers()
    row = containers.add(1)
    containers.put_windows(np.array([row]), a_window(100.0, 7.0))
    containers.move(row, 2)
    containers.drop_parked(1)
    containers.move(row, 1)

    assert np.isnan(window_of(containers, row)[0])
