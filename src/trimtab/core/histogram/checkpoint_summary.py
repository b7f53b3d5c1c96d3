"""Summary of a checkpoint for people: its number of samples, their times and the percentiles."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, BucketScheme
from trimtab.core.histogram.checkpoint import (
    AggregateCheckpoint,
    HistogramCheckpoint,
    HistogramContent,
    decode_aggregate,
)
from trimtab.core.model.resources import Resource

PERCENTILES: Final = (0.5, 0.9, 0.95, 0.99)
_HALF_LIFE: Final = timedelta(days=1)
"""Percentiles do not depend on the half-life: all weights decay alike."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket with weight: values from `start` up to, but not including, `end`.

    Both are in cores or bytes.
    """

    start: float
    end: float
    share: float
    """Its part of the total weight."""


@dataclass(frozen=True, slots=True)
class HistogramSummary:
    """One histogram."""

    total_weight: float
    reference_time: datetime | None
    """The time at which a sample has the weight 1."""
    percentiles: Mapping[float, float]
    """In cores or bytes; none if it is empty."""
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """One checkpoint."""

    samples: int
    first_sample: datetime | None
    last_sample: datetime | None
    written_at: datetime | None
    version: str
    histograms: Mapping[Resource, HistogramSummary]

    @property
    def is_empty(self) -> bool:
        """True if no histogram holds any weight."""
        return not any(one.buckets for one in self.histograms.values())


def summarize(checkpoint: AggregateCheckpoint) -> Summary:
    """Summarize a checkpoint; raise a CheckpointError if it cannot be loaded."""
    content = decode_aggregate(checkpoint)
    cpu, memory = checkpoint.cpu_histogram, checkpoint.memory_histogram
    return Summary(
        samples=checkpoint.total_samples_count,
        first_sample=checkpoint.first_sample_start,
        last_sample=checkpoint.last_sample_start,
        written_at=checkpoint.last_update_time,
        version=checkpoint.version,
        histograms={
            Resource.CPU: _summarize(cpu, content.cpu, CPU_BUCKETS),
            Resource.MEMORY: _summarize(memory, content.memory, MEMORY_BUCKETS),
        },
    )


def _summarize(
    stored: HistogramCheckpoint, content: HistogramContent, scheme: BucketScheme
) -> HistogramSummary:
    # A recommender would read these percentiles: the bank is the same code.
    bank = HistogramBank(scheme, _HALF_LIFE, PERCENTILES)
    (row,) = bank.allocate(1).tolist()
    bank.decode(row, stored)
    is_empty = bool(bank.is_empty([row])[0])
    return HistogramSummary(
        content.total_weight,
        stored.reference_time,
        {} if is_empty else {one: bank.percentile(row, one) for one in PERCENTILES},
        () if is_empty else tuple(_buckets(content, scheme)),
    )


def _buckets(content: HistogramContent, scheme: BucketScheme) -> Iterator[Bucket]:
    for index in np.flatnonzero(content.weights).tolist():
        share = float(content.weights[index]) / content.total_weight
        yield Bucket(float(scheme.starts[index]), float(scheme.ends[index]), share)
