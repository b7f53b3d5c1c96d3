"""What minutes of demand do to containers."""

import numpy as np
import pytest

from trimtab.backtest.fleet import Fleet

_FIRST = np.array([0])
_NO_LIMIT = np.inf


def _fleet(*, cpu_limit: float = _NO_LIMIT, memory_limit: float = 100.0) -> Fleet:
    return Fleet(np.array([[50.0], [100.0]]), np.array([[cpu_limit], [memory_limit]]))


def test_a_container_that_needs_more_memory_than_its_limit_is_over_it() -> None:
    fleet = _fleet(memory_limit=100.0)

    assert not fleet.is_over(_FIRST, np.array([[0.0], [100.0]]))[0]
    assert fleet.is_over(_FIRST, np.array([[0.0], [101.0]]))[0]


def test_what_is_above_the_cpu_limit_is_not_seen() -> None:
    demand = np.array([[80.0], [10.0]])

    assert _fleet(cpu_limit=60.0).visible(_FIRST, demand).tolist() == [[60.0], [10.0]]
    assert _fleet().visible(_FIRST, demand).tolist() == [[80.0], [10.0]]


def test_kills_in_a_row_delay_the_next_start_up_to_five_minutes() -> None:
    fleet = _fleet()
    delays = []
    for _ in range(8):
        fleet.kill(_FIRST)
        delays.append(1 + int(fleet.delay[0]))

    assert delays == [1, 1, 1, 2, 3, 5, 5, 5]


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param(9, 2, id="a short run does not end a series"),
        pytest.param(10, 1, id="a long run begins another series"),
    ],
)
def test_a_series_of_kills_ends_with_a_long_run(minutes: int, expected: int) -> None:
    fleet = _fleet()
    fleet.kill(_FIRST)
    fleet.run(_FIRST, minutes)
    fleet.kill(_FIRST)

    assert fleet.kills_in_row[0] == expected
    assert fleet.killed_after[0] == minutes


def test_a_new_pod_knows_nothing_of_the_kills_of_the_former_one() -> None:
    fleet = _fleet()
    fleet.kill(_FIRST)
    fleet.replace(_FIRST, np.array([[70.0], [200.0]]), np.array([[_NO_LIMIT], [200.0]]))

    assert fleet.requests[:, 0].tolist() == [70.0, 200.0]
    assert (fleet.killed_after[0], fleet.kills_in_row[0], fleet.age[0]) == (-1, 0, 0)


def test_a_pod_that_is_resized_is_young_again_and_remembers_its_kills() -> None:
    fleet = _fleet()
    fleet.run(_FIRST, 30)
    fleet.kill(_FIRST)
    fleet.resize(_FIRST, np.array([[70.0], [200.0]]), np.array([[_NO_LIMIT], [200.0]]))

    assert (fleet.age[0], fleet.killed_after[0]) == (0, 30)
