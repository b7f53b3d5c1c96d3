"""What a checkpoint holds, told to people."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW

from trimtab.core.histogram.buckets import MEMORY_BUCKETS
from trimtab.core.histogram.checkpoint import (
    AggregateCheckpoint,
    CheckpointError,
    HistogramCheckpoint,
)
from trimtab.core.histogram.checkpoint_summary import PERCENTILES, summarize
from trimtab.core.model.resources import Resource

STORED = AggregateCheckpoint(
    cpu_histogram=HistogramCheckpoint(NOW, {0: 5_000, 10: 5_000}, 2.0),
    first_sample_start=NOW,
    last_sample_start=NOW,
    total_samples_count=7,
    last_update_time=NOW,
)


def test_times_and_counts_are_as_they_were_stored() -> None:
    found = summarize(STORED)

    assert (found.samples, found.version, found.is_empty) == (7, "v3", False)
    assert found.first_sample == found.last_sample == found.written_at == NOW
    assert found.histograms[Resource.CPU].reference_time == NOW


def test_weights_are_told_as_shares_of_the_buckets_that_have_any() -> None:
    cpu = summarize(STORED).histograms[Resource.CPU]

    assert cpu.total_weight == 2.0
    assert [one.share for one in cpu.buckets] == [0.5, 0.5]
    assert (cpu.buckets[0].start, cpu.buckets[0].end) == (0.0, 0.01)


def test_a_percentile_is_the_end_of_the_bucket_that_reaches_it() -> None:
    cpu = summarize(STORED).histograms[Resource.CPU]

    assert cpu.percentiles[0.5] == cpu.buckets[0].end
    assert cpu.percentiles[0.9] == cpu.buckets[1].end


def test_nothing_is_told_of_a_histogram_that_is_empty() -> None:
    found = summarize(AggregateCheckpoint())

    assert found.is_empty
    assert found.histograms[Resource.MEMORY].percentiles == {}


def test_what_cannot_be_loaded_is_refused() -> None:
    with pytest.raises(CheckpointError, match="unsupported"):
        summarize(replace(STORED, version="v2"))


@given(
    st.dictionaries(
        st.integers(0, MEMORY_BUCKETS.count - 1), st.integers(1, 10_000), min_size=1, max_size=20
    )
)
def test_percentiles_rise_and_shares_are_a_whole(stored: dict[int, int]) -> None:
    aggregate = replace(STORED, memory_histogram=HistogramCheckpoint(NOW, stored, 9.0))
    memory = summarize(aggregate).histograms[Resource.MEMORY]
    told = [memory.percentiles[one] for one in PERCENTILES]

    assert told == sorted(told)
    assert sum(one.share for one in memory.buckets) == pytest.approx(1.0)
    assert told[-1] <= memory.buckets[-1].end
