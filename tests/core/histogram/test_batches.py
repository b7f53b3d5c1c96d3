import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.histogram.bank import Batch, SampleError, make_batch
from trimtab.core.histogram.buckets import CPU_BUCKETS

NOON = 1_767_268_800.0


def a_batch(rows: list[int]) -> Batch:
    places = np.arange(len(rows), dtype=np.float64)
    return make_batch(CPU_BUCKETS, rows=rows, values=places, weights=1.0, times=NOON + places)


def test_scalars_count_for_every_sample() -> None:
    batch = make_batch(CPU_BUCKETS, rows=[3, 1], values=[0.1, 1.0], weights=0.1, times=NOON)

    assert batch.rows.tolist() == [3, 1]
    assert batch.buckets.tolist() == [8, 36]
    assert batch.weights.tolist() == [0.1, 0.1]
    assert batch.times.tolist() == [NOON, NOON]


def test_one_row_may_take_many_values() -> None:
    batch = make_batch(CPU_BUCKETS, rows=7, values=[0.1, 1.0], weights=0.1, times=NOON)

    assert batch.rows.tolist() == [7, 7]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"values": [0.1, math.nan]}, "value of sample 1: nan", id="value NaN"),
        pytest.param({"values": [math.inf, 0.1]}, "value of sample 0: inf", id="value inf"),
        pytest.param({"values": [-math.inf, 0.1]}, "value of sample 0: -inf", id="value -inf"),
        pytest.param({"weights": [1.0, -0.5]}, "weight of sample 1: -0.5", id="weight negative"),
        pytest.param({"weights": math.nan}, "weight of sample 0: nan", id="weight NaN"),
        pytest.param({"weights": 1e201}, "weight of sample 0: 1e.201", id="weight enormous"),
        pytest.param({"times": [NOON, math.inf]}, "time of sample 1: inf", id="time inf"),
        pytest.param({"times": -1e12}, "time of sample 0: -1", id="time before year 1"),
        pytest.param({"times": 1e12}, "time of sample 0: 1", id="time after year 9990"),
    ],
)
def test_a_number_no_histogram_can_hold_is_named_and_placed(
    fields: dict[str, object], message: str
) -> None:
    fine = {"rows": [0, 1], "values": [0.1, 0.2], "weights": 1.0, "times": NOON}
    with pytest.raises(SampleError, match=f"^{message}"):
        make_batch(CPU_BUCKETS, **{**fine, **fields})  # type: ignore[arg-type]


def test_a_negative_value_is_a_sample_like_any_other() -> None:
    batch = make_batch(CPU_BUCKETS, rows=0, values=-3.0, weights=1.0, times=NOON)

    assert batch.buckets.tolist() == [0]


def test_a_split_puts_the_first_of_each_row_before_the_others() -> None:
    first, later = a_batch([4, 4, 2, 4, 2]).split()

    assert (first.rows.tolist(), (first.times - NOON).tolist()) == ([4, 2], [0, 2])
    assert (later.rows.tolist(), (later.times - NOON).tolist()) == ([4, 4, 2], [1, 3, 4])


@given(st.lists(st.integers(0, 5), max_size=30))
def test_splitting_again_and_again_keeps_the_order_of_each_row(rows: list[int]) -> None:
    batch = a_batch(rows)
    together: list[tuple[int, float]] = []
    while len(batch):
        first, batch = batch.split()
        assert len(set(first.rows.tolist())) == len(first)
        together += zip(first.rows.tolist(), (first.times - NOON).tolist(), strict=True)

    for wanted in set(rows):
        times = [time for row, time in together if row == wanted]
        assert times == [place for place, row in enumerate(rows) if row == wanted]
