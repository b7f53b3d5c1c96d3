import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trimtab.core.histogram.window_storage import Spans, walk

FRACTIONS = (0.0, 0.3, 0.5, 0.9, 1.0)


def spans(*columns: list[float], repeat: int = 1) -> Spans:
    """Windows whose spans are all of them, repeated side by side."""
    weights = np.array(columns * repeat).T.copy()
    count = weights.shape[1]
    first, last = np.zeros(count, np.uint8), np.full(count, len(weights) - 1, np.uint8)
    return Spans(weights, weights.sum(axis=0), first, last)


def plain_slot(weights: NDArray[np.float64], threshold: float) -> int:
    reached = 0.0
    for slot, weight in enumerate(weights.tolist()):
        reached += weight
        if reached >= threshold:
            return slot
    return len(weights) - 1


def test_a_fraction_is_reached_in_the_first_slot_whose_sum_gets_there() -> None:
    slots, _ = walk(spans([1.0, 2.0, 7.0], [5.0, 0.0, 5.0]), FRACTIONS)

    assert slots.tolist() == [[0, 0], [1, 0], [2, 0], [2, 2], [2, 2]]


def test_many_columns_give_what_few_columns_give() -> None:
    few, limits = walk(spans([0.1, 0.2, 0.3, 0.1]), FRACTIONS)
    many, many_limits = walk(spans([0.1, 0.2, 0.3, 0.1], repeat=200), FRACTIONS)

    assert many.tolist() == np.repeat(few, 200, axis=1).tolist()
    assert many_limits.tolist() == [limits[0]] * 200


def test_weight_outside_the_span_is_not_summed_up() -> None:
    weights = np.array([[0.5], [1.0], [1.0], [0.25]])
    inner = Spans(weights, np.array([2.0]), np.array([1], np.uint8), np.array([2], np.uint8))
    slots, _ = walk(inner, (0.5, 0.75))

    assert slots.tolist() == [[1], [2]]


def test_a_sum_that_never_gets_there_stops_at_the_end_of_its_span() -> None:
    weights = np.array([[1.0], [1.0], [0.0]])
    short = Spans(weights, np.array([9.0]), np.array([0], np.uint8), np.array([1], np.uint8))
    slots, limits = walk(short, (0.9,))

    assert slots.tolist() == [[1]]
    assert limits[0] < 9.0


def test_a_tie_is_never_remembered() -> None:
    _, limits = walk(spans([1.0, 1.0]), (0.5,))

    assert limits[0] < 2.0


@pytest.mark.parametrize(
    ("fraction", "room"),
    [
        pytest.param(0.9, 11 / 9, id="until nine tenths lie after the slot"),
        pytest.param(0.5, 9.0, id="until half of all lies before it"),
        pytest.param(0.25, 7 / 3, id="until a quarter of all lies before it"),
    ],
)
def test_a_clear_answer_holds_until_samples_could_change_it(fraction: float, room: float) -> None:
    limits = walk(spans([1.0, 10.0, 0.0]), (fraction,))[1]

    assert limits[0] - 11.0 == pytest.approx(room, rel=1e-6)


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 1.0, 3.0]), min_size=2, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.sampled_from([0.01, 0.1, 0.5])), max_size=12),
    st.floats(0.01, 0.99),
)
def test_below_its_limit_an_answer_survives_any_samples(
    weights: list[float], samples: list[tuple[int, float]], fraction: float
) -> None:
    windows = spans(weights)
    slots, limits = walk(windows, (fraction,))
    grown, total = windows.weights[:, 0].copy(), float(windows.totals[0])
    for slot, weight in samples:
        grown[slot % len(grown)] += weight
        total += weight
        if total > limits[0]:
            break

        assert plain_slot(grown, fraction * total) == slots[0, 0]
