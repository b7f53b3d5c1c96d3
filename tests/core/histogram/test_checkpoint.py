import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trimtab.core.histogram import checkpoint
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS
from trimtab.core.histogram.checkpoint import (
    AggregateCheckpoint,
    CheckpointError,
    CheckpointFault,
    HistogramCheckpoint,
)
from trimtab.core.histogram.decay import ZERO_TIME

MIDNIGHT = datetime(2026, 8, 23, tzinfo=UTC)


def a_bank() -> HistogramBank:
    return HistogramBank(CPU_BUCKETS, timedelta(days=1), (0.5, 0.9))


def loaded(stored: HistogramCheckpoint) -> tuple[HistogramBank, int]:
    bank = a_bank()
    row = int(bank.allocate(1)[0])
    bank.decode(row, stored)
    return bank, row


def weights(**by_bucket: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    given_weights = np.zeros(CPU_BUCKETS.count)
    for name, weight in by_bucket.items():
        given_weights[int(name.removeprefix("b"))] = weight
    return given_weights


@pytest.mark.parametrize(
    ("by_bucket", "expected"),
    [
        pytest.param({}, {}, id="nothing is stored as nothing"),
        pytest.param({"b8": 0.0727}, {8: 10_000}, id="the heaviest bucket is ten thousand"),
        pytest.param({"b8": 1.0, "b32": 3.0}, {8: 3333, 32: 10_000}, id="others in proportion"),
        pytest.param({"b3": 1.0, "b4": 10_000.0}, {3: 1, 4: 10_000}, id="the faintest stored"),
        pytest.param({"b3": 0.5, "b4": 10_000.0}, {3: 1, 4: 10_000}, id="halves round up"),
        pytest.param({"b3": 0.49, "b4": 10_000.0}, {4: 10_000}, id="what rounds to 0 is dropped"),
    ],
)
def test_a_histogram_is_stored_relative_to_its_heaviest_bucket(
    by_bucket: dict[str, float], expected: dict[int, int]
) -> None:
    stored = checkpoint.encode_histogram(weights(**by_bucket), 5.0, MIDNIGHT.timestamp())

    assert stored == HistogramCheckpoint(MIDNIGHT, expected, 5.0)


def test_a_histogram_that_never_saw_a_sample_has_no_reference() -> None:
    assert checkpoint.encode_histogram(weights(), 0.0, ZERO_TIME) == HistogramCheckpoint()


def test_f4_a_loaded_checkpoint_spreads_its_total_over_the_buckets() -> None:
    stored = HistogramCheckpoint(MIDNIGHT, {10: 10_000, 30: 5_000}, 3.0)
    content = checkpoint.decode_histogram(stored, CPU_BUCKETS.count)

    assert content.weights[10] == pytest.approx(2.0)
    assert content.weights[30] == pytest.approx(1.0)
    assert content.weights.sum() == content.total_weight == 3.0
    assert content.reference == MIDNIGHT.timestamp()


@pytest.mark.parametrize(
    "bucket_weights",
    [
        pytest.param({}, id="no bucket at all"),
        pytest.param({8: 0, 9: 0}, id="buckets of no weight"),
    ],
)
def test_f4_a_checkpoint_without_weights_leaves_the_row_empty(
    bucket_weights: dict[int, int],
) -> None:
    bank, row = loaded(HistogramCheckpoint(MIDNIGHT, bucket_weights, 5.0))

    assert bank.is_empty(row)
    assert bank.percentiles([row]).tolist() == [[0.0, 0.0]]
    assert bank.encode(row) == HistogramCheckpoint(MIDNIGHT, {}, 0.0)


def test_f4_buckets_that_fall_under_epsilon_do_not_make_the_row_look_empty() -> None:
    # The lowest bucket comes back as 0.00003: by itself it would hide all the others.
    bank, row = loaded(HistogramCheckpoint(MIDNIGHT, {2: 1, 20: 10_000}, 0.3))

    assert not bank.is_empty(row)
    assert bank.percentile(row, 0.0) == CPU_BUCKETS.ends[20]


def test_f4_a_checkpoint_of_no_total_weight_leaves_the_row_empty() -> None:
    bank, row = loaded(HistogramCheckpoint(MIDNIGHT, {8: 10_000}, 0.0))

    assert bank.is_empty(row)
    assert bank.percentile(row, 0.9) == 0.0


@pytest.mark.parametrize(
    ("stored", "fault", "text"),
    [
        pytest.param(None, CheckpointFault.MISSING, "cannot load from empty checkpoint", id="none"),
        pytest.param(
            HistogramCheckpoint(None, {1: 10}, -1.0),
            CheckpointFault.NEGATIVE_TOTAL,
            "cannot load checkpoint with negative weight -1",
            id="a negative total",
        ),
        pytest.param(
            HistogramCheckpoint(None, {1: 10}, -2.5e-7),
            CheckpointFault.NEGATIVE_TOTAL,
            "cannot load checkpoint with negative weight -2.5e-07",
            id="a small negative total",
        ),
        pytest.param(
            HistogramCheckpoint(None, {1: 10}, -1e20),
            CheckpointFault.NEGATIVE_TOTAL,
            "cannot load checkpoint with negative weight -100000000000000000000",
            id="a large negative total, spelled out",
        ),
        pytest.param(
            HistogramCheckpoint(None, {1: 10}, -1.25e21),
            CheckpointFault.NEGATIVE_TOTAL,
            "cannot load checkpoint with negative weight -1.25e+21",
            id="an enormous negative total",
        ),
        pytest.param(
            HistogramCheckpoint(None, {176: 10}, 1.0),
            CheckpointFault.BUCKET_TOO_HIGH,
            "checkpoint has bucket 176 that is exceeding histogram buckets 176",
            id="a bucket beyond the last",
        ),
        pytest.param(
            HistogramCheckpoint(None, {4: 1, -1: 10}, 1.0),
            CheckpointFault.BUCKET_NEGATIVE,
            "checkpoint has a negative bucket -1",
            id="a negative bucket",
        ),
        pytest.param(
            HistogramCheckpoint(None, {1: 10}, math.nan),
            CheckpointFault.TOTAL_TOO_LARGE,
            "totalWeight: nan is not at most 1e+300",
            id="a total that is no number",
        ),
        pytest.param(
            HistogramCheckpoint(None, {1: 10}, math.inf),
            CheckpointFault.TOTAL_TOO_LARGE,
            "totalWeight: inf is not at most 1e+300",
            id="an infinite total",
        ),
        pytest.param(
            HistogramCheckpoint(None, {1: -10}, 1.0),
            CheckpointFault.WEIGHT_OUT_OF_RANGE,
            "bucketWeights: -10 is not between 0 and 4294967295",
            id="a negative weight",
        ),
        pytest.param(
            HistogramCheckpoint(None, {1: 2**32}, 1.0),
            CheckpointFault.WEIGHT_OUT_OF_RANGE,
            "bucketWeights: 4294967296 is not between 0 and 4294967295",
            id="a weight too large to be stored",
        ),
        pytest.param(
            HistogramCheckpoint(datetime(9999, 1, 1, tzinfo=UTC), {1: 10}, 1.0),
            CheckpointFault.REFERENCE_TOO_LATE,
            "referenceTimestamp: 9999-01-01 00:00:00+00:00 is not before the year 9990",
            id="a reference at the end of time",
        ),
    ],
)
def test_f28_a_corrupt_checkpoint_is_refused_and_changes_nothing(
    stored: HistogramCheckpoint | None, fault: CheckpointFault, text: str
) -> None:
    bank, row = loaded(HistogramCheckpoint(MIDNIGHT, {8: 10_000}, 1.0))
    before = bank.encode(row)
    with pytest.raises(CheckpointError) as refused:
        bank.decode(row, stored)

    assert refused.value.fault is fault
    assert str(refused.value) == text
    assert bank.encode(row) == before


def test_a_checkpoint_of_another_version_is_refused() -> None:
    with pytest.raises(CheckpointError, match="unsupported checkpoint version v2") as refused:
        checkpoint.check_version(AggregateCheckpoint(version="v2"))

    assert refused.value.fault is CheckpointFault.VERSION


def test_a_new_checkpoint_has_the_version_that_is_read() -> None:
    checkpoint.check_version(AggregateCheckpoint())

    assert AggregateCheckpoint().version == "v3"


def test_loading_adds_to_what_a_row_holds_and_takes_over_the_reference() -> None:
    bank, row = loaded(HistogramCheckpoint(MIDNIGHT, {8: 10_000}, 1.0))
    later = MIDNIGHT + timedelta(days=2)
    bank.decode(row, HistogramCheckpoint(later, {9: 10_000}, 3.0))

    assert bank.encode(row) == HistogramCheckpoint(later, {8: 3333, 9: 10_000}, 4.0)


def test_a_checkpoint_without_a_reference_counts_from_the_zero_time() -> None:
    bank, row = loaded(HistogramCheckpoint(None, {8: 10_000}, 1.0))

    assert bank.encode(row).reference_time is None


CHECKPOINTS = st.builds(
    HistogramCheckpoint,
    st.none() | st.integers(-(10**9), 10**9).map(lambda age: MIDNIGHT + timedelta(seconds=age)),
    st.dictionaries(st.integers(0, 175), st.integers(1, 10_000), max_size=176),
    st.floats(min_value=1.0, max_value=1e30),
)


def list_occupied(stored: HistogramCheckpoint) -> dict[int, int]:
    """Return the buckets from the lowest to the highest one that weighs epsilon when loaded."""
    content = checkpoint.decode_histogram(stored, CPU_BUCKETS.count)
    occupied = np.flatnonzero(content.weights >= CPU_BUCKETS.epsilon)
    span = range(occupied[0], occupied[-1] + 1) if len(occupied) else ()
    return {bucket: weight for bucket, weight in stored.bucket_weights.items() if bucket in span}


@given(CHECKPOINTS)
@example(HistogramCheckpoint(MIDNIGHT, {0: 1, 1: 6667}, 1.0))
def test_what_was_loaded_is_saved_and_loaded_unchanged(stored: HistogramCheckpoint) -> None:
    bank, row = loaded(stored)
    saved = bank.encode(row)
    again, same_row = loaded(saved)

    # Stored weights are rounded, so that an outermost bucket may fall under epsilon.
    assert again.encode(same_row).bucket_weights == list_occupied(saved)
    assert again.encode(same_row).reference_time == saved.reference_time == stored.reference_time


@given(CHECKPOINTS, st.integers(0, 175))
def test_a_checkpoint_whose_heaviest_bucket_is_ten_thousand_comes_back_equal(
    stored: HistogramCheckpoint, heaviest: int
) -> None:
    full = HistogramCheckpoint(
        stored.reference_time, {**stored.bucket_weights, heaviest: 10_000}, 1e4
    )
    bank, row = loaded(full)

    assert bank.encode(row) == full


@given(
    st.dictionaries(st.integers(-300, 300), st.integers(-10, 2**33), max_size=5),
    st.floats(),
    st.none() | st.datetimes(timezones=st.just(UTC)),
)
def test_f28_whatever_is_stored_is_loaded_or_refused_with_a_reason(
    bucket_weights: dict[int, int], total: float, reference: datetime | None
) -> None:
    try:
        bank, row = loaded(HistogramCheckpoint(reference, bucket_weights, total))
    except CheckpointError as error:
        assert error.fault in CheckpointFault  # noqa: PT017
    else:
        assert np.isfinite(bank.percentiles([row])).all()
        assert all(0 < weight <= 10_000 for weight in bank.encode(row).bucket_weights.values())
