"""Conditions that the updater sets on an autoscaler: the pods that it does not change, and why.

Conditions of others, such as the recommender, are carried over unchanged. All messages of the
updater's conditions are formatted here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, assert_never

from trimtab.core.changes.outcomes import Evict, Hold, Outcome, Resize, Unboost
from trimtab.core.guards import degradation
from trimtab.core.guards.convergence import Suspect
from trimtab.core.guards.degradation import Degradation
from trimtab.core.model import quantities
from trimtab.core.model.autoscalers import Autoscaler, Condition
from trimtab.core.model.hold_reasons import WANTS_CHANGE, HoldReason
from trimtab.core.model.pods import Pod
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.recommendation import conditions
from trimtab.core.updates.failed_changes import FailedChange

_TRUE: Final = "True"
_MOST_DETAILS: Final = 3
"""Maximum number of different details that one condition quotes."""
_TOLD: Final = WANTS_CHANGE | {HoldReason.UNBOOST_DELAYED}
_RULED_OUT: Final = frozenset({HoldReason.ONLY_SHRINKS, HoldReason.REQUIREMENT_NOT_MET})
"""Reasons by which the update policy itself keeps pods as they are."""
_UNITS: Final = {Resource.CPU: 1, Resource.MEMORY: 2**20}
"""Amounts are shown in millicores and mebibytes."""
_DIGITS: Final = 2
"""Significant digits of amounts: finer ones would be written whenever usage moves."""
_NAMES: Final = {Resource.CPU: "CPU", Resource.MEMORY: "memory"}


class UpdateConditionType(StrEnum):
    """The conditions that are the updater's to set and to take away."""

    HELD = "UpdatesHeld"
    """Pods want a change and do not get it now."""
    STOPPED = degradation.STOPPED
    """The workload has fewer ready pods than before it was changed, so nothing more is changed."""
    WITHOUT_EFFECT = "UpdatesWithoutEffect"
    """Changes did not show on the pods; the reason names the suspect."""
    RULED_OUT = "UpdatesRuledOut"
    """Pods keep more or less than is recommended, because the update policy says so."""


_OURS: Final = frozenset(UpdateConditionType)
_SUSPICIONS: Final = {
    Suspect.ADMISSION: (
        "new pods do not pass the admission controller; look at its webhook and the CA bundle"
    ),
    Suspect.OTHER_AUTOSCALER: "another autoscaler gave the new pod its size",
    Suspect.LIMIT_RANGE: "a LimitRange gave the new pod another size",
    Suspect.QUOTA_REFUSED: (
        "the admission controller left the new pod as it came, since a ResourceQuota would have "
        "refused it in its recommended size"
    ),
    Suspect.LIMIT_RANGE_REFUSED: (
        "the admission controller left the new pod as it came, since a LimitRange would have "
        "refused it in its recommended size"
    ),
    Suspect.PODS_REFUSED: (
        "the admission controller left the new pod as it came, since pods of the recommended size "
        "were never created; the events of its owner name the policy or webhook that refuses them"
    ),
    Suspect.OTHER_MANAGER: "another webhook or controller changed the pod afterwards",
    Suspect.NO_SUCCESSOR: (
        "its owner could not create a new pod; look at quotas and at other webhooks"
    ),
}


def update_conditions(
    autoscaler: Autoscaler,
    outcomes: Sequence[Outcome],
    miss: FailedChange | None,
    stop: Degradation | None = None,
    *,
    max_misses: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return all conditions of the autoscaler, sorted by type, given the plan for its pods.

    `stop` is the degradation of the workload that was last changed for this autoscaler, if any.
    """
    before = {condition.type: condition for condition in autoscaler.conditions}
    found = [
        *_held(outcomes),
        *_ruled_out(outcomes, autoscaler),
        *_stopped(outcomes, stop),
        *_without_effect(miss, max_misses),
    ]
    carried = [condition for condition in before.values() if condition.type not in _OURS]
    renewed = [conditions.dated(condition, before.get(condition.type), now) for condition in found]
    return tuple(sorted(carried + renewed, key=lambda condition: condition.type))


def has_news(
    autoscaler: Autoscaler,
    outcomes: Iterable[Outcome],
    miss: FailedChange | None,
    stop: Degradation | None = None,
) -> bool:
    """Return True if the autoscaler needs a condition of the updater, or has one.

    Most do not, and then `update_conditions` need not be called.
    """
    return (
        miss is not None
        or stop is not None
        or any(isinstance(each, Hold) and each.reason in _TOLD | _RULED_OUT for each in outcomes)
        or any(condition.type in _OURS for condition in autoscaler.conditions)
    )


def _held(outcomes: Iterable[Outcome]) -> Iterator[Condition]:
    holds = [each for each in outcomes if isinstance(each, Hold) and each.reason in _TOLD]
    if not holds:
        return
    counts = Counter(hold.reason for hold in holds)
    ranked = sorted(counts, key=lambda reason: (-counts[reason], reason))
    reasons = ", ".join(f"{reason} ({counts[reason]})" for reason in ranked)
    message = f"{_pods(len(holds))} held back: {reasons}"
    if intentions := _format_withheld(holds):
        message += f"; {intentions}"
    for detail in sorted({hold.detail for hold in holds if hold.detail})[:_MOST_DETAILS]:
        message += f"; {detail}"
    yield Condition(UpdateConditionType.HELD, _TRUE, ranked[0], message)


def _ruled_out(outcomes: Iterable[Outcome], autoscaler: Autoscaler) -> Iterator[Condition]:
    holds = [each for each in outcomes if isinstance(each, Hold) and each.reason in _RULED_OUT]
    targets = {each.container_name: each.target for each in autoscaler.recommendation or ()}
    gaps = [gap for hold in holds for gap in _gaps(hold.pod, targets)]
    amounts = [
        f"{_format_sum(found)} {word} than recommended"
        for word, sign in (("more", 1), ("less", -1))
        if (found := [(kind, sign * gap) for kind, gap in gaps if sign * gap > 0])
    ]
    if not amounts:
        return
    counts = Counter(hold.reason for hold in holds)
    ranked = sorted(counts, key=lambda reason: (-counts[reason], reason))
    reasons = ", ".join(f"{reason} ({counts[reason]})" for reason in ranked)
    keep = "1 pod keeps" if len(holds) == 1 else f"{len(holds)} pods keep"
    message = f"{keep} {', and '.join(amounts)}: {reasons}"
    yield Condition(UpdateConditionType.RULED_OUT, _TRUE, ranked[0], message)


def _gaps(pod: Pod, targets: Mapping[str, Resources]) -> Iterator[tuple[Resource, int]]:
    """Yield by how much the requests of each container exceed its targets."""
    for container in pod.containers:
        requests = container.current.requests or {}
        for kind, target in targets.get(container.name, {}).items():
            if kind in requests:
                yield kind, requests[kind] - target


def _format_sum(gaps: Iterable[tuple[Resource, int]]) -> str:
    sums: Counter[Resource] = Counter()
    for kind, gap in gaps:
        sums[kind] += gap
    return " and ".join(
        f"{quantities.format_amount(kind, _round(sums[kind], _UNITS[kind]))} of {_NAMES[kind]}"
        for kind in BOTH
        if kind in sums
    )


def _round(amount: int, unit: int) -> int:
    count = max(1, round(amount / unit))
    return unit * round(count, _DIGITS - len(str(count)))


def _stopped(outcomes: Iterable[Outcome], stop: Degradation | None) -> Iterator[Condition]:
    held = [
        each
        for each in outcomes
        if isinstance(each, Hold) and each.reason is HoldReason.WORKLOAD_DEGRADED
    ]
    # An updater that starts knows of a stop from this condition alone. So it lasts as long as the
    # stop, also while the pods are held for another reason or want no change.
    figures = [stop.detail] if stop is not None else [each.detail for each in held]
    if not figures:
        return
    message = f"{figures[0]}; edit the autoscaler to go on before they are ready"
    # What can grow in place is not held.
    starving = [
        each
        for each in held
        if each.pod.ready_since is None and each.change is not None and each.change.scale_up
    ]
    if starving:
        message += f"; {_pods(len(starving))} not ready and would get more by an eviction alone"
    reason = HoldReason.WORKLOAD_DEGRADED
    yield Condition(UpdateConditionType.STOPPED, _TRUE, reason, message)


def _format_withheld(holds: Iterable[Hold]) -> str:
    words = Counter(_word(hold.withheld) for hold in holds if hold.withheld is not None)
    return ", ".join(f"{words[word]} would be {word}" for word in sorted(words))


def _word(act: Evict | Resize | Unboost) -> str:
    match act:
        case Evict():
            return "evicted"
        case Resize():
            return "resized in place"
        case Unboost():
            return "taken back from its startup boost"
        case _:
            assert_never(act)


def _without_effect(miss: FailedChange | None, max_misses: int) -> Iterator[Condition]:
    if miss is None:
        return
    is_over = miss.retry.failures >= max_misses
    ending = "; nothing more is tried" if is_over else "; tried again later"
    changes = "1 change" if miss.changes == 1 else f"{miss.changes} changes in a row"
    message = f"{changes} without effect: {_SUSPICIONS[miss.suspect]}{ending}"
    yield Condition(UpdateConditionType.WITHOUT_EFFECT, _TRUE, miss.suspect, message)


def _pods(count: int) -> str:
    return f"{count} pod is" if count == 1 else f"{count} pods are"
