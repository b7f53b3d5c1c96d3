"""The present decision for each pod, its age, and the decisions that are new."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from trimtab.core.changes.outcomes import Hold, Outcome
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.updater.reports import Acted, HeldWhileActing, News, PlanMade, TickFailed, ViewNotReady


class _Standing(NamedTuple):
    outcome: Outcome
    since: datetime


class Decisions:
    """The present decision for each pod; amounts that change make no new decision."""

    def __init__(self) -> None:
        self._standing: dict[str, _Standing] = {}
        """By the uid of the pod."""
        self.held: Counter[HoldReason] = Counter()
        """Number of pods that are held now, by reason."""

    def hear(self, news: News) -> list[Outcome]:
        """Take in a report and return the outcomes whose decision is new."""
        match news:
            case PlanMade(at, outcomes, is_all=is_all):
                if is_all:
                    self._forget_others({each.pod.uid for each in outcomes})
                return list(self._renew(outcomes, at))
            case HeldWhileActing(at, holds):
                return list(self._renew(holds, at))
            case ViewNotReady() | Acted() | TickFailed():
                return []

    def since(self, outcome: Outcome) -> datetime | None:
        """Return when this decision was first made; None if it is not the present one."""
        standing = self._standing.get(outcome.pod.uid)
        if standing is None or not _is_same(standing.outcome, outcome):
            return None
        return standing.since

    def _renew(self, outcomes: Iterable[Outcome], at: datetime) -> Iterator[Outcome]:
        for outcome in outcomes:
            before = self._standing.get(outcome.pod.uid)
            # If nothing changed, a plan returns the very same record.
            if before is not None and before.outcome is outcome:
                continue
            is_same = before is not None and _is_same(before.outcome, outcome)
            since = before.since if before is not None and is_same else at
            self._standing[outcome.pod.uid] = _Standing(outcome, since)
            if not is_same:
                self._count(outcome, 1)
                if before is not None:
                    self._count(before.outcome, -1)
                yield outcome

    def _forget_others(self, uids: set[str]) -> None:
        for uid in self._standing.keys() - uids:
            self._count(self._standing.pop(uid).outcome, -1)

    def _count(self, outcome: Outcome, number: int) -> None:
        if isinstance(outcome, Hold):
            self.held[outcome.reason] += number


def _is_same(one: Outcome, other: Outcome) -> bool:
    return (type(one), one.autoscaler, _reason(one)) == (
        type(other),
        other.autoscaler,
        _reason(other),
    )


def _reason(outcome: Outcome) -> HoldReason | None:
    return outcome.reason if isinstance(outcome, Hold) else None
