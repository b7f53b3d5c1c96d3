"""Faults of a run: kind, time and target of each, drawn from the run's seed.

A fault is a plain record. `injection.py` starts and ends it in a simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import Final


class FaultKind(StrEnum):
    """A kind of fault; the value is its name in the output of a run."""

    # Between a component and the API server.
    WATCHES_LOST = "watches lost"
    HISTORY_FORGOTTEN = "history forgotten"
    STALE_STORES = "stale stores"
    CONFLICTS = "conflicts"
    TOO_MANY_REQUESTS = "too many requests"
    SERVER_ERRORS = "server errors"
    LOST_ANSWERS = "lost answers"
    SLOW_SERVER = "slow server"
    CUT_OFF = "cut off"
    # The component itself.
    CRASH = "crash"
    CRASH_LOOP = "crash loop"
    LOST_LEASE = "lost lease"
    SECOND_COPY = "second copy"
    CLOCK_SKEW = "clock skew"
    # Admission.
    WEBHOOK_DOWN = "webhook down"
    PATCH_UNDONE = "patch undone"
    # Usage.
    METRICS_GONE = "metrics gone"
    METRICS_HALF = "half of the metrics"
    METRICS_STALE = "stale metrics"
    METRICS_ABSURD = "absurd metrics"
    # The cluster.
    NODE_LOST = "node lost"
    NODE_FULL = "node full"
    QUOTA_FULL = "quota full"
    OOM_STORM = "OOM storm"
    FLAPPING_READINESS = "flapping readiness"
    FLAPPING_LABELS = "flapping labels"
    ROLLOUT = "rollout"
    POD_DELETED = "pod deleted"
    # Hazards: drawn separately, so that older seeds still draw the same faults.
    GATE_OFF = "gate off"
    RESIZES_REFUSED = "resizes refused"
    POD_COPIED = "pod copied"
    SCALED = "scaled"


OF_COMPONENTS: Final = frozenset(
    {
        FaultKind.WATCHES_LOST,
        FaultKind.STALE_STORES,
        FaultKind.CONFLICTS,
        FaultKind.TOO_MANY_REQUESTS,
        FaultKind.SERVER_ERRORS,
        FaultKind.LOST_ANSWERS,
        FaultKind.SLOW_SERVER,
        FaultKind.CUT_OFF,
        FaultKind.CRASH,
        FaultKind.CRASH_LOOP,
        FaultKind.LOST_LEASE,
        FaultKind.SECOND_COPY,
        FaultKind.CLOCK_SKEW,
        FaultKind.GATE_OFF,
    }
)
"""The kinds that hit one component; all others hit the cluster."""

HAZARDS: Final = (
    FaultKind.GATE_OFF,
    FaultKind.RESIZES_REFUSED,
    FaultKind.POD_COPIED,
    FaultKind.SCALED,
)
"""The kinds that are drawn separately."""
USUAL: Final = tuple(kind for kind in FaultKind if kind not in HAZARDS)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, which lasts for a while."""

    kind: FaultKind
    begins: timedelta
    lasts: timedelta
    target: str = ""
    """The component that it hits; empty for the cluster."""
    strength: float = 0.5
    """Severity, between 0 and 1."""

    @property
    def ends(self) -> timedelta:
        """Time at which it ends."""
        return self.begins + self.lasts

    def __str__(self) -> str:
        whom = f" {self.target}" if self.target else ""
        return f"{self.kind}{whom} at {self.begins} for {self.lasts} ({self.strength:.2f})"


def draw_faults(
    chance: Random,
    components: Sequence[str],
    *,
    until: timedelta,
    per_hour: float = 2.0,
    kinds: Sequence[FaultKind] = USUAL,
) -> tuple[Fault, ...]:
    """Draw faults that all end by `until`, in the order in which they begin."""
    hours = until / timedelta(hours=1)
    count = chance.randint(0, max(1, int(2 * per_hour * hours)))
    drawn = [_draw_fault(chance, components, kinds, until) for _ in range(count)]
    return tuple(sorted(drawn, key=lambda fault: (fault.begins, fault.kind, fault.target)))


def _draw_fault(
    chance: Random, components: Sequence[str], kinds: Sequence[FaultKind], until: timedelta
) -> Fault:
    kind = chance.choice(kinds)
    begins = timedelta(seconds=chance.randrange(int(until.total_seconds())))
    longest = min(until - begins, timedelta(hours=2))
    lasts = timedelta(seconds=chance.randint(1, max(1, int(longest.total_seconds()))))
    return Fault(
        kind,
        begins,
        min(lasts, until - begins),
        target=chance.choice(components) if kind in OF_COMPONENTS else "",
        strength=round(chance.random(), 2),
    )
