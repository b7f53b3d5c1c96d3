import sys
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.makers.records import MIB

from trimtab.core.histogram import buckets
from trimtab.core.model.recommendation import RecommendationSettings, ResourceSettings
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation import estimators

CLOSE = pytest.approx
ENDLESS = float("inf")
ONE_DAY = timedelta(days=1)


def confidence_of(minutes: float, count: int, interval: timedelta = ONE_DAY) -> float:
    first, last = np.array([1000.0]), np.array([1000.0 + 60 * minutes])
    (found,) = estimators.confidence(first, last, np.array([count]), interval)
    return float(found)


def estimate_one(percentiles: list[float], confidence: float, floor: int = 0) -> list[int]:
    rows = np.array([percentiles], np.float64)
    found = estimators.estimate(rows, np.array([confidence]), np.array([floor]), 0.15).floored
    return [int(amount) for amount in found[0]]


@pytest.mark.parametrize(
    ("minutes", "count", "expected"),
    [
        pytest.param(720, 720, 0.5, id="a sample a minute for half a day"),
        pytest.param(5, 5, 0.00347, id="a sample a minute for five minutes"),
        pytest.param(1440, 24, 24 / 1440, id="few samples count less than the time they span"),
        pytest.param(60, 1440, 60 / 1440, id="many samples count no more than their time"),
        pytest.param(0, 1, 0, id="one sample spans no time"),
        pytest.param(14400, 14400, 10, id="ten days"),
    ],
)
def test_confidence_grows_with_time_and_with_samples(
    minutes: float, count: int, expected: float
) -> None:
    assert confidence_of(minutes, count) == CLOSE(expected, rel=1e-3)


def test_a_history_without_times_has_no_confidence() -> None:
    first = np.array([ENDLESS, ENDLESS, 100.0])
    last = np.array([-ENDLESS, 100.0, -ENDLESS])

    found = estimators.confidence(first, last, np.array([0, 10, 10]), ONE_DAY)
    assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("confidence", "lower", "upper"),
    [
        pytest.param(0.5, 0.996, 3, id="half a day"),
        pytest.param(5 / 1440, 0.603, 289, id="five minutes"),
        pytest.param(10, 0.9998, 1.1, id="ten days"),
    ],
)
def test_bounds_close_in_on_the_target_with_confidence(
    confidence: float, lower: float, upper: float
) -> None:
    found = estimate_one([1e9, 1e9, 1e9], confidence)

    assert found == [
        1_150_000_000,
        CLOSE(1.15e9 * lower, rel=1e-3),
        CLOSE(1.15e9 * upper, rel=1e-3),
    ]


@pytest.mark.parametrize(
    ("percentiles", "expected"),
    [
        pytest.param(
            [1000.0, 1000.0, 1000.0], [1150, 25, 10**14], id="an upper bound without confidence"
        ),
        pytest.param([0.0, 0.0, 0.0], [25, 25, 25], id="nothing times an endless factor"),
        pytest.param([10.0, 10.0, 10.0], [25, 25, 10**14], id="the floor of an idle container"),
        pytest.param([ENDLESS, 5.0, 5.0], [115 * 10**12, 25, 10**14], id="an endless percentile"),
    ],
)
def test_without_confidence_bounds_are_the_floor_and_the_most(
    percentiles: list[float], expected: list[int]
) -> None:
    found = estimate_one(percentiles, 0.0, floor=25)

    assert found == [min(expected[0], 10**14), *expected[1:]]


def test_every_step_cuts_towards_zero() -> None:
    assert estimate_one([99.9, 99.9, 99.9], ENDLESS) == [113, 113, 113]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(0, 25, id="no container at all"),
        pytest.param(1, 25, id="one container"),
        pytest.param(2, 12, id="two containers"),
        pytest.param(3, 8, id="three containers"),
    ],
)
def test_the_floor_is_split_evenly_and_cut(count: int, expected: int) -> None:
    assert estimators.split_floor(25, np.array([count])).tolist() == [expected]


def test_the_memory_floor_is_split_like_the_cpu_floor() -> None:
    split = estimators.split_floor(250 * MIB, np.array([1, 2, 3]))

    assert split.tolist() == [262144000, 131072000, 87381333]


@pytest.mark.parametrize(
    ("multiple", "expected"),
    [
        pytest.param(1, [0, 1, 999, 1000, 1001], id="one leaves all as they are"),
        pytest.param(0, [0, 1, 999, 1000, 1001], id="nothing makes no sense"),
        pytest.param(-7, [0, 1, 999, 1000, 1001], id="neither does less than nothing"),
        pytest.param(1000, [0, 1000, 1000, 1000, 2000], id="up to whole thousands"),
        pytest.param(3, [0, 3, 999, 1002, 1002], id="up to multiples of three"),
    ],
)
def test_amounts_are_rounded_up_to_a_multiple(multiple: int, expected: list[int]) -> None:
    given_amounts = np.array([0, 1, 999, 1000, 1001])

    assert estimators.round_up(given_amounts, multiple).tolist() == expected


def test_each_resource_is_rounded_by_its_own_multiple() -> None:
    settings = RecommendationSettings(
        cpu=ResourceSettings(25, rounding=50), memory=ResourceSettings(MIB, rounding=MIB)
    )

    assert estimators.finish(Resource.CPU, np.array([[51]]), settings).tolist() == [[100]]
    assert estimators.finish(Resource.MEMORY, np.array([[51]]), settings).tolist() == [[MIB]]


def test_humanized_memory_is_brought_to_two_decimals() -> None:
    settings = RecommendationSettings(humanize_memory=True)
    given_amounts = np.array([[1168723596, 500]])

    assert estimators.finish(Resource.MEMORY, given_amounts, settings).tolist() == [
        [1170378589, 500]
    ]
    assert estimators.finish(Resource.CPU, given_amounts, settings) is given_amounts


numbers = st.floats(allow_nan=True, allow_infinity=True)
rows = st.lists(st.tuples(numbers, numbers, numbers, numbers, st.integers(0, 10**9)), min_size=1)


@given(rows, numbers)
def test_f28_estimates_are_whole_bounded_and_never_below_the_floor(
    given_rows: list[tuple[float, float, float, float, int]], margin: float
) -> None:
    table = np.array(given_rows, np.float64)
    floors = table[:, 4].astype(np.int64)

    found = estimators.estimate(table[:, :3], table[:, 3], floors, margin).floored

    assert (found >= floors[:, np.newaxis]).all()
    assert (found <= max(buckets.MOST, floors.max())).all()


@given(
    st.lists(st.floats(0, 1e13), min_size=3, max_size=3).map(sorted),
    st.floats(0, 100),
    st.integers(0, 500),
)
def test_the_target_lies_between_its_bounds(
    percentiles: list[float], confidence: float, floor: int
) -> None:
    low, middle, high = percentiles
    target, lower, upper = estimate_one([middle, low, high], confidence, floor)

    assert floor <= lower <= target <= upper


@pytest.mark.parametrize("confidence", [0.0, 5e-324, 1e-200, 1.0, 1e300])
def test_no_confidence_is_too_little_or_too_much_for_factors(confidence: float) -> None:
    ((target, lower, upper),) = estimators.confidence_factors(np.array([confidence]))

    assert target == 1
    assert 0 <= lower <= 1 <= upper


@given(numbers, numbers, st.integers(-5, 10**9))
@example(first=sys.float_info.max, last=-sys.float_info.max, count=1)
def test_f28_confidence_is_never_negative_nor_undefined(
    first: float, last: float, count: int
) -> None:
    (found,) = estimators.confidence(
        np.array([first]), np.array([last]), np.array([max(count, 0)]), ONE_DAY
    )

    assert found >= 0
