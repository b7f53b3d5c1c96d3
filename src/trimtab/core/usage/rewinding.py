"""Rewinding: histories of some containers as they were before a batch of samples.

A replay takes whole steps at once where nothing happens. If something should have happened within
a step, the samples are taken back, and the step is taken again minute by minute.
"""

from dataclasses import dataclass

import numpy as np

from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import Ints
from trimtab.core.usage.cluster_usage import Usage


@dataclass(frozen=True, slots=True)
class SavedHistories:
    """The histories of some containers, each of which feeds an aggregate of its own."""

    containers: Ints
    """Rows of containers; all other fields are in their order."""
    container_copies: np.ndarray
    aggregate_copies: np.ndarray
    cpu: HistogramBank
    memory: HistogramBank


def save(usage: Usage, containers: Ints) -> SavedHistories:
    """Copy the histories of distinct containers that share no aggregate."""
    aggregates = usage.aggregates
    owners = usage.containers.aggregate[containers]
    copies = aggregates.copy_rows(owners)
    return SavedHistories(
        containers,
        usage.containers.copy_rows(containers),
        copies,
        aggregates.cpu.take(copies["cpu_row"]),
        aggregates.memory.take(copies["memory_row"]),
    )


def restore(usage: Usage, saved: SavedHistories, which: Ints) -> None:
    """Bring some of the saved histories back; `which` are their positions."""
    aggregates, copies = usage.aggregates, saved.aggregate_copies[which]
    containers = saved.containers[which]
    aggregates.put_rows(usage.containers.aggregate[containers], copies)
    usage.containers.put_rows(containers, saved.container_copies[which])
    aggregates.cpu.put_back(copies["cpu_row"], saved.cpu, which)
    aggregates.memory.put_back(copies["memory_row"], saved.memory, which)
