"""What a tick saw, planned and did, in numbers: for metrics, simulations and people."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import NamedTuple

from trimtab.core.holds import HoldReason
from trimtab.core.outcomes import Hold, Outcome
from trimtab.core.records import dataclass
from trimtab.updater.carrying import ActResult


class Deed(NamedTuple):
    """A kind of act, and what came of it."""

    kind: str
    result: ActResult


@dataclass(frozen=True, slots=True)
class TickReport:
    """One tick in numbers."""

    at: datetime
    is_blind: bool = False
    """Whether the stores were too old, or not there yet, so that nothing was planned."""
    is_admission_alive: bool = False
    planned: Mapping[str, int] = field(default_factory=dict)
    """By kind of outcome: `Evict`, `Resize`, `Unboost`, `Hold`."""
    held: Mapping[HoldReason, int] = field(default_factory=dict)
    acted: Mapping[Deed, int] = field(default_factory=dict)
    """By kind of act and what came of it, since the tick before."""
    waiting: int = 0
    """Acts that are planned and not begun: the pace does not allow it yet."""
    surging: frozenset[str] = frozenset()
    """The namespaces in which far more pods than usual want a change."""

    def done(self, kind: str) -> int:
        """How many acts of a kind were done."""
        return self.acted.get(Deed(kind, ActResult.DONE), 0)


def count_kinds(outcomes: Iterable[Outcome]) -> Counter[str]:
    """How many outcomes of each kind there are."""
    return Counter([type(each).__name__ for each in outcomes])


def count_holds(outcomes: Iterable[Outcome]) -> Counter[HoldReason]:
    """How many pods are held for each reason."""
    return Counter([each.reason for each in outcomes if isinstance(each, Hold)])
