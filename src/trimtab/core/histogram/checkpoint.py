"""Checkpoints: the small records with which histograms outlive a restart.

The record of a histogram holds whole numbers up to 10 000 per bucket, relative to its heaviest
bucket, and the total weight. The original can read these records, and Trimtab those of the original
(version `v3`). A bank turns its rows into such records and back; the rules of both directions are
here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, Floats
from trimtab.core.histogram.decay import LAST_TIME, ZERO_TIME

VERSION: Final = "v3"
"""The only version of checkpoints that can be read."""

MAX_WEIGHT: Final = 10_000
"""Weight of the heaviest bucket of a checkpoint."""

# A uint32 in the original's type.
_MAX_STORED_WEIGHT: Final = 2**32 - 1
# Keeps room for sums and powers of two before a float64 becomes infinite.
_MAX_TOTAL_WEIGHT: Final = 1e300
# The original writes numbers outside this range with an exponent.
_PLAIN_FROM: Final = 1e-4
_PLAIN_BELOW: Final = 1e21
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CheckpointFault(StrEnum):
    """The reason why a checkpoint is unreadable; the texts are the original's where it has one."""

    MISSING = "cannot load from empty checkpoint"
    NEGATIVE_TOTAL = "cannot load checkpoint with negative weight {value}"
    BUCKET_TOO_HIGH = "checkpoint has bucket {value} that is exceeding histogram buckets {bound}"
    BUCKET_NEGATIVE = "checkpoint has a negative bucket {value}"
    VERSION = "unsupported checkpoint version {value}"
    TOTAL_TOO_LARGE = "totalWeight: {value} is not at most {bound}"
    WEIGHT_OUT_OF_RANGE = "bucketWeights: {value} is not between 0 and {bound}"
    REFERENCE_TOO_LATE = "referenceTimestamp: {value} is not before the year 9990"


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded, and the reason."""

    def __init__(self, fault: CheckpointFault, value: object = None, bound: object = None) -> None:
        super().__init__(fault.format(value=value, bound=bound))
        self.fault = fault
        self.value = value


@dataclass(frozen=True, slots=True)
class HistogramCheckpoint:
    """One histogram; the reference is None while it never saw a sample."""

    reference_time: datetime | None = None
    bucket_weights: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    total_weight: float = 0.0


@dataclass(frozen=True, slots=True)
class AggregateCheckpoint:
    """The stored record of one container of one autoscaler."""

    cpu_histogram: HistogramCheckpoint = HistogramCheckpoint()
    memory_histogram: HistogramCheckpoint = HistogramCheckpoint()
    first_sample_start: datetime | None = None
    last_sample_start: datetime | None = None
    total_samples_count: int = 0
    last_update_time: datetime | None = None
    version: str = VERSION


@dataclass(frozen=True, slots=True)
class HistogramContent:
    """A decoded histogram: weights by bucket, their total, seconds since the epoch."""

    weights: Floats
    total_weight: float
    reference: float


@dataclass(frozen=True, slots=True)
class AggregateContent:
    """A checkpoint that can be loaded, with its histograms decoded."""

    checkpoint: AggregateCheckpoint
    cpu: HistogramContent
    memory: HistogramContent


def decode_aggregate(checkpoint: AggregateCheckpoint) -> AggregateContent:
    """Decode a checkpoint; raise a CheckpointError if it cannot be loaded."""
    check_version(checkpoint)
    return AggregateContent(
        checkpoint,
        decode_histogram(checkpoint.cpu_histogram, CPU_BUCKETS.count),
        decode_histogram(checkpoint.memory_histogram, MEMORY_BUCKETS.count),
    )


def check_version(checkpoint: AggregateCheckpoint) -> None:
    """Refuse a checkpoint of any version but `VERSION`."""
    if checkpoint.version != VERSION:
        raise CheckpointError(CheckpointFault.VERSION, checkpoint.version)


def encode_histogram(weights: Floats, total_weight: float, reference: float) -> HistogramCheckpoint:
    """Encode a histogram, given the weights of its occupied span, zeros elsewhere."""
    heaviest = weights.max(initial=0.0)
    bucket_weights: dict[int, int] = {}
    if heaviest > 0.0:
        # Rounded half up, as the original does; `np.rint` would round halves to even.
        stored = np.floor(weights * (MAX_WEIGHT / heaviest) + 0.5).astype(np.int64)
        # A bucket under a twenty-thousandth of the heaviest one is lost here, as in the original.
        occupied = np.flatnonzero(stored)
        bucket_weights = dict(zip(occupied.tolist(), stored[occupied].tolist(), strict=True))
    return HistogramCheckpoint(_encode_time(reference), bucket_weights, total_weight)


def decode_histogram(checkpoint: HistogramCheckpoint | None, bucket_count: int) -> HistogramContent:
    """Decode what a checkpoint adds to a histogram; without any bucket weight it adds nothing."""
    checked = _checked(checkpoint, bucket_count)
    weights = np.zeros(bucket_count)
    stored_sum = sum(checked.bucket_weights.values())
    if stored_sum == 0:
        return HistogramContent(weights, 0.0, _seconds(checked))
    # The total is stored exactly and the buckets are rounded, so the total decides the scale.
    ratio = checked.total_weight / stored_sum
    for bucket, stored in checked.bucket_weights.items():
        weights[bucket] = stored * ratio
    return HistogramContent(weights, checked.total_weight, _seconds(checked))


def _seconds(checkpoint: HistogramCheckpoint) -> float:
    """Return the reference of a checkpoint in seconds since the epoch."""
    if checkpoint.reference_time is None:
        return ZERO_TIME
    return (checkpoint.reference_time - _EPOCH) / timedelta(seconds=1)


def _encode_time(seconds: float) -> datetime | None:
    # The original writes the zero time of its language as null.
    return None if seconds == ZERO_TIME else _EPOCH + timedelta(seconds=seconds)


def _checked(checkpoint: HistogramCheckpoint | None, bucket_count: int) -> HistogramCheckpoint:
    """Return the checkpoint itself; raise a CheckpointError if it cannot be loaded."""
    if checkpoint is None:
        raise CheckpointError(CheckpointFault.MISSING)
    if checkpoint.total_weight < 0.0:
        text = _format_number(checkpoint.total_weight)
        raise CheckpointError(CheckpointFault.NEGATIVE_TOTAL, text)
    # Sorted, so that the same record always gets the same message.
    for bucket, weight in sorted(checkpoint.bucket_weights.items()):
        _check_bucket(bucket, weight, bucket_count)
    # Written with `not`, so that NaN is refused as well.
    if not checkpoint.total_weight <= _MAX_TOTAL_WEIGHT:
        total = checkpoint.total_weight
        raise CheckpointError(CheckpointFault.TOTAL_TOO_LARGE, total, _MAX_TOTAL_WEIGHT)
    if _seconds(checkpoint) > LAST_TIME:
        raise CheckpointError(CheckpointFault.REFERENCE_TOO_LATE, checkpoint.reference_time)
    return checkpoint


def _check_bucket(bucket: int, weight: int, bucket_count: int) -> None:
    if bucket < 0:
        raise CheckpointError(CheckpointFault.BUCKET_NEGATIVE, bucket)
    if bucket >= bucket_count:
        raise CheckpointError(CheckpointFault.BUCKET_TOO_HIGH, bucket, bucket_count)
    if not 0 <= weight <= _MAX_STORED_WEIGHT:
        raise CheckpointError(CheckpointFault.WEIGHT_OUT_OF_RANGE, weight, _MAX_STORED_WEIGHT)


def _format_number(number: float) -> str:
    """Format a number with its shortest text, spelled as in the original's messages."""
    if _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        return np.format_float_positional(number, trim="-")
    return np.format_float_scientific(number, trim="-", exp_digits=2)
