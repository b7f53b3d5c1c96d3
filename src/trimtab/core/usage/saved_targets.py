"""Saved targets: the state of the cost-based estimator for one container, as a record.

It is part of a checkpoint's supplement, so that a restart changes no target and needs no warm-up.
"""

from dataclasses import dataclass

from trimtab.core.histogram.checkpoint import HistogramCheckpoint


@dataclass(frozen=True, slots=True)
class SavedLevel:
    """A bucket of the memory histogram: when usage was last there, and how large it was."""

    bucket: int
    seconds: float
    """Since the epoch."""
    peak_bytes: float
    pod: str = ""
    """The pod that needed it last; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class SavedTarget:
    """The held target of one resource."""

    held: float
    """Millicores or bytes."""
    changed: float | None = None
    """Time of its last change, in seconds; None if it never changed."""
    is_raised: bool = False
    is_lowered: bool = False


@dataclass(frozen=True, slots=True)
class SavedTargets:
    """The held targets of one container, with what they follow from; times are seconds."""

    first: float
    now: float
    """Time of the newest sample."""
    cpu: SavedTarget | None = None
    memory: SavedTarget | None = None
    most_needed: float = 0.0
    price_factor: float = 1.0
    is_settled: bool = False
    is_tried: bool = False
    last_kill: float | None = None
    kill_limit: float = 0.0
    kills: int = 0
    paused: float = 0.0
    levels: tuple[SavedLevel, ...] = ()
    cpu_histogram: HistogramCheckpoint | None = None
