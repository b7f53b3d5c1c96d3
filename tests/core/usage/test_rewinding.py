"""Histories that are taken back, and take the same or other samples afterwards."""

from datetime import UTC, datetime

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.core.model.recommendation import MIB, RecommendationSettings
from trimtab.core.usage import rewinding
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.samples import Samples

_NOW = datetime(2026, 3, 2, tzinfo=UTC)
_PODS = 3
_MINUTE = 60.0

_VALUES = st.lists(
    st.tuples(st.integers(0, 8000), st.integers(0, 4000)), min_size=_PODS, max_size=_PODS
)


def _usage() -> Usage:
    usage = Usage(UsageSettings(), RecommendationSettings())
    for number in range(_PODS):
        usage.track(PodName("shop", f"pod-{number}"), {"app": str(number)}, ["main"], _NOW)
    return usage


def _rows(usage: Usage) -> list[int]:
    return [
        usage.containers_of(PodName("shop", f"pod-{number}"))["main"] for number in range(_PODS)
    ]


def _feed(usage: Usage, values: list[tuple[int, int]], minute: int, only: list[int]) -> None:
    rows = np.array([_rows(usage)[each] for each in only], np.int64)
    now = _NOW.timestamp() + minute * _MINUTE
    times = np.full(len(only), now)
    cpu = np.array([float(values[each][0]) for each in only])
    memory = np.array([float(values[each][1] * MIB) for each in only])
    usage.add_cpu(Samples(rows, cpu, times), now)
    usage.add_memory(Samples(rows, memory, times), now)


def _contents(usage: Usage) -> list[object]:
    """Return all that anyone can read of the histories."""
    aggregates, owners = usage.aggregates, usage.containers.aggregate[_rows(usage)]
    banks = (
        (aggregates.cpu, aggregates.floats("cpu_row")[owners]),
        (aggregates.memory, aggregates.floats("memory_row")[owners]),
    )
    return [
        [bank.content(int(row)).weights.tolist() for bank, rows in banks for row in rows],
        [bank.percentiles(rows).tolist() for bank, rows in banks],
        [bank.references[rows].tolist() for bank, rows in banks],
        # As text, in which NaN is equal to itself.
        str(usage.containers.copy_rows(np.array(_rows(usage))).tolist()),
        str(aggregates.copy_rows(owners).tolist()),
    ]


@given(
    st.lists(_VALUES, min_size=1, max_size=4),
    st.lists(_VALUES, min_size=1, max_size=4),
    st.sets(st.integers(0, _PODS - 1), min_size=1),
)
@settings(max_examples=30, deadline=None)
def test_samples_that_were_taken_back_leave_no_trace(
    before: list[list[tuple[int, int]]], undone: list[list[tuple[int, int]]], chosen: set[int]
) -> None:
    which, rest = sorted(chosen), sorted(set(range(_PODS)) - chosen)
    usage, untouched = _usage(), _usage()
    # A day apart, so that memory windows and references move as well.
    for minute, values in enumerate(before):
        for each in (usage, untouched):
            _feed(each, values, 1440 * minute, list(range(_PODS)))
    saved = rewinding.save(usage, np.array(_rows(usage)))
    for minute, values in enumerate(undone, start=len(before)):
        _feed(usage, values, 1440 * minute, list(range(_PODS)))
        _feed(untouched, values, 1440 * minute, rest)
    rewinding.restore(usage, saved, np.array(which))

    assert _contents(usage) == _contents(untouched)
    _feed(usage, undone[-1], 1440 * 20, which)
    _feed(untouched, undone[-1], 1440 * 20, which)
    assert _contents(usage) == _contents(untouched)
