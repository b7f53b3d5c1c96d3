"""Saved targets of any content that can be read from a checkpoint."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS
from trimtab.core.histogram.checkpoint import HistogramCheckpoint
from trimtab.core.usage.saved_targets import SavedLevel, SavedTarget, SavedTargets

moments = st.floats(-9e9, 9e9)
amounts = st.floats(0, 2e15)
levels = st.builds(
    SavedLevel,
    st.integers(0, MEMORY_BUCKETS.count - 1),
    moments,
    amounts,
    st.sampled_from(["", "web-0", "web-1"]),
)
held = st.builds(SavedTarget, amounts, st.none() | moments, st.booleans(), st.booleans())
histograms = st.builds(
    HistogramCheckpoint,
    st.floats(-6e10, 9e9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    st.dictionaries(st.integers(0, CPU_BUCKETS.count - 1), st.integers(0, 10_000), max_size=4),
    st.floats(0, 1e100),
)
targets = st.builds(
    SavedTargets,
    moments,
    moments,
    st.none() | held,
    st.none() | held,
    amounts,
    st.booleans(),
    st.booleans(),
    st.none() | moments,
    amounts,
    st.integers(0, 100),
    st.floats(0, 9e9),
    st.lists(levels, max_size=4).map(tuple),
    st.none() | histograms,
)
"""Everything that the decoder of supplements lets through."""
