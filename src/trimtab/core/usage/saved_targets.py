"""Saved targets: the state of the cost-based estimator for one container, as a record.

It is part of a checkpoint's supplement, so that a restart changes no target and needs no warm-up.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import structs

from trimtab.core.histogram.checkpoint import HistogramCheckpoint


class SavedLevel(msgspec.Struct, frozen=True, gc=False):
    """A bucket of the memory histogram: when usage was last there, and how large it was."""

    bucket: int
    seconds: float
    """Since the epoch."""
    peak_bytes: float
    pod: str = ""
    """The pod that needed it last; empty if it is not known."""


class SavedTarget(msgspec.Struct, frozen=True, gc=False):
    """The held target of one resource."""

    held: float
    """Millicores or bytes."""
    changed: float | None = None
    """Time of its last change, in seconds; None if it never changed."""
    is_raised: bool = False
    is_lowered: bool = False


class SavedTargets(msgspec.Struct, frozen=True):
    """The held targets of one container, with what they follow from; times are seconds."""

    first: float
    now: float
    """Time of the newest sample."""
    cpu: SavedTarget | None = None
    memory: SavedTarget | None = None
    most_needed: float = 0.0
    is_settled: bool = False
    is_tried: bool = False
    last_kill: float | None = None
    kill_limit: float = 0.0
    kills: int = 0
    paused: float = 0.0
    levels: tuple[SavedLevel, ...] = ()
    cpu_histogram: HistogramCheckpoint | None = None


_REFERENCE_AHEAD: Final = timedelta(days=1)
"""Half of the half-life of CPU samples."""
_MOST_AHEAD: Final = 300.0
"""Seconds by which the clock of a node may be ahead of ours, as for samples."""


def bring_to_past(saved: SavedTargets, now: float) -> SavedTargets:
    """Return the state with no time after `now`, a few minutes aside.

    With a newest sample in the future no target would ever be lowered, and no new sample would
    weigh anything. All ages stay as they are: the clock that wrote them was wrong all the time.
    """
    shift = max(saved.now - now, 0.0) if saved.now > now + _MOST_AHEAD else 0.0
    newest = saved.now - shift

    def moved(seconds: float) -> float:
        return min(seconds - shift, newest)

    def moved_target(target: SavedTarget | None) -> SavedTarget | None:
        if target is None or target.changed is None:
            return target
        return structs.replace(target, changed=moved(target.changed))

    return structs.replace(
        saved,
        first=moved(saved.first),
        now=newest,
        cpu=moved_target(saved.cpu),
        memory=moved_target(saved.memory),
        last_kill=None if saved.last_kill is None else moved(saved.last_kill),
        levels=tuple(
            structs.replace(level, seconds=moved(level.seconds)) for level in saved.levels
        ),
        cpu_histogram=_moved_histogram(saved.cpu_histogram, shift, newest),
    )


def _moved_histogram(
    histogram: HistogramCheckpoint | None, shift: float, newest: float
) -> HistogramCheckpoint | None:
    if histogram is None or histogram.reference_time is None:
        return histogram
    # A reference is the multiple of the half-life nearest to a sample, so it may be ahead of it.
    latest = datetime.fromtimestamp(newest, UTC) + _REFERENCE_AHEAD
    if histogram.reference_time <= latest:
        return histogram
    reference = min(histogram.reference_time - timedelta(seconds=shift), latest)
    return replace(histogram, reference_time=reference)
