"""Number of pods that want a change, by namespace: what a surge is known by."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from trimtab.core.changes.outcomes import Hold, Outcome
from trimtab.core.guards.rate_limit import Wishes
from trimtab.core.model.hold_reasons import WANTS_CHANGE, HoldReason
from trimtab.core.sizing import startup_boost
from trimtab.core.updates.candidates import Candidate

_IDLE: Final = frozenset(
    {HoldReason.MODE_OFF, HoldReason.MODE_INITIAL, HoldReason.FEATURE_GATE_OFF}
)


def count(outcomes: Iterable[Outcome]) -> Mapping[str, Wishes]:
    """Count by namespace the pods under active autoscalers, and those that want a change.

    Boosted pods do not count: the end of a boost says nothing about a recommendation.
    """
    found = list(outcomes)
    return count_among(
        found, {each.pod.uid for each in found if startup_boost.boosted_containers(each.pod)}
    )


def count_among(
    assessed: Iterable[Candidate | Outcome], boosted: Collection[str]
) -> dict[str, Wishes]:
    """Return the same where the uids of the boosted pods are known."""
    if boosted:
        assessed = [each for each in assessed if each.pod.uid not in boosted]
    counts = Counter(
        [(each.pod.namespace, each.reason if isinstance(each, Hold) else None) for each in assessed]
    )
    counted: Counter[str] = Counter()
    wanting: Counter[str] = Counter()
    for (namespace, reason), count in counts.items():
        if reason not in _IDLE:
            counted[namespace] += count
        if reason is None or reason in WANTS_CHANGE:
            wanting[namespace] += count
    return {namespace: Wishes(wanting[namespace], counted[namespace]) for namespace in counted}
