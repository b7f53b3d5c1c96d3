"""Parts of history, and series as columns."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW

from trimtab.core.usage.history_samples import PastUsage, Series, Shard, gather, halve, plan_shards

HOUR = timedelta(hours=1)


def moments(shard: Shard) -> list[float]:
    return [(shard.begin + number * shard.step).timestamp() for number in range(shard.moments)]


def a_series(name: str, samples: dict[float, float]) -> Series:
    return Series((name, "app"), np.array(list(samples)), np.array(list(samples.values())))


@given(
    length=st.integers(0, 500), step=st.integers(1, 70), most=st.integers(1, 200), end=st.integers()
)
def test_shards_cover_every_moment_once_and_in_order(
    length: int, step: int, most: int, end: int
) -> None:
    begin = NOW + timedelta(minutes=end % 1000)
    span, apart = timedelta(minutes=length), timedelta(minutes=step)
    shards = list(plan_shards("a", end=begin, length=span, step=apart, most_moments=most))
    covered = [moment for shard in shards for moment in moments(shard)]

    assert covered == sorted(covered)
    assert covered[-1] == begin.timestamp()
    assert np.diff(covered).tolist() == [60.0 * step] * (length // step)
    assert max(shard.moments for shard in shards) <= most


@given(count=st.integers(1, 50))
def test_halves_have_the_same_moments_as_the_whole(count: int) -> None:
    shard = Shard("a", NOW, NOW + (count - 1) * HOUR, HOUR)
    halves = halve(shard)

    assert [moment for half in halves for moment in moments(half)] == (
        moments(shard) if count > 1 else []
    )


def told(past: PastUsage) -> list[tuple[str, float, float]]:
    columns = zip(past.owners.tolist(), past.times.tolist(), past.values.tolist(), strict=True)
    return [(past.containers[owner][0], time, value) for owner, time, value in columns]


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        pytest.param([], [], id="nothing is told"),
        pytest.param(
            [a_series("b", {1: 5, 2: 6}), a_series("a", {2: 7})],
            [("a", 2, 7), ("b", 1, 5), ("b", 2, 6)],
            id="containers come in the order of their names",
        ),
        pytest.param(
            [a_series("a", {3: 1}), a_series("a", {1: 1, 2: 2})],
            [("a", 1, 1), ("a", 2, 2), ("a", 3, 1)],
            id="a restarted container has one past",
        ),
        pytest.param(
            [a_series("a", {1: 4, 2: 2}), a_series("a", {1: 3, 2: 5})],
            [("a", 1, 4), ("a", 2, 5)],
            id="of what two tell of one moment the largest counts",
        ),
        pytest.param(
            [a_series("a", {1: float("nan")}), a_series("a", {1: 3})],
            [("a", 1, 3)],
            id="a number beats what is none",
        ),
    ],
)
def test_series_become_columns(
    series: list[Series], expected: list[tuple[str, float, float]]
) -> None:
    assert told(gather(series)) == expected


def test_what_is_no_number_is_kept_for_the_intake_to_refuse() -> None:
    past = gather([a_series("a", {1: float("nan"), 2: 3})])

    assert np.isnan(past.values).tolist() == [True, False]
