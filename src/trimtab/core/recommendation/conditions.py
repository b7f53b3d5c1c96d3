"""Conditions: the part of an autoscaler's status beside its recommendation.

Our own conditions are rebuilt each time and disappear with their cause; those of others are carried
over. This module forms all text that people read in a condition.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, assert_never

from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, Condition, TargetReference
from trimtab.core.model.hpa import HpaClaim
from trimtab.core.model.matching import Conflict
from trimtab.core.model.recommendation import PublishedRecommendation

_TRUE: Final = "True"
_FALSE: Final = "False"
_NO_PODS: Final = "No pods match this autoscaler"


class ConditionType(StrEnum):
    """The conditions that Trimtab sets and removes."""

    CONFIG_CONFLICT = "ConfigConflict"
    CONFIG_DEPRECATED = "ConfigDeprecated"
    """Left behind by old versions of the original, and never set any more."""
    CONFIG_UNSUPPORTED = "ConfigUnsupported"
    FETCHING_HISTORY = "FetchingHistory"
    HORIZONTALLY_SCALED = "HorizontallyScaled"
    """A HorizontalPodAutoscaler scales on a resource that is recommended."""
    NO_PODS_MATCHED = "NoPodsMatched"
    RECOMMENDATION_PROVIDED = "RecommendationProvided"
    USAGE_STALE = "UsageStale"
    """Running containers have no recent samples, so their recommendation stays as it was."""


class ConditionReason(StrEnum):
    """The reason of a condition, where its type alone does not say it."""

    NO_PODS_MATCHED = "NoPodsMatched"
    NO_SAMPLES = "NoSamples"
    OVERLAPPING_SELECTOR = "OverlappingSelector"
    HISTORY_INCOMPLETE = "HistoryIncomplete"
    HISTORY_UNAVAILABLE = "HistoryUnavailable"
    NO_RECENT_SAMPLES = "NoRecentSamples"
    RESOURCE_HELD = "ResourceHeld"
    RESOURCE_CONTESTED = "ResourceContested"


class UnsupportedReason(StrEnum):
    """The reason why the target or the selector of an autoscaler cannot be used."""

    TARGET_UNREADABLE = "TargetUnreadable"
    TARGET_UNCHECKED = "TargetUnchecked"
    TARGET_NOT_TOPMOST = "TargetNotTopmost"
    SELECTOR_INVALID = "SelectorInvalid"
    SELECTOR_DISABLED = "SelectorDisabled"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A configuration that cannot be used, with the reason and detail."""

    reason: UnsupportedReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ConditionInputs:
    """Facts about an autoscaler at the end of a tick."""

    recommendation: PublishedRecommendation
    matches_pods: bool
    unsupported: Unsupported | None = None
    conflicts: Sequence[Conflict] = ()
    """Conflicts of any autoscalers; those of others do not matter."""
    fetches_history: bool | None = None
    """True while history is being read; None carries the stored condition over."""
    history_problem: str = ""
    """The reason why history could not be read; empty if it could, or was not tried."""
    stale_containers: Sequence[str] = ()
    """Running containers of which no sample came for too long."""
    claims: Sequence[HpaClaim] = ()
    """Resources that horizontal autoscalers scale on."""
    holds_claimed: bool = True
    """True if claimed resources are no longer applied."""


def renew_conditions(
    autoscaler: Autoscaler, findings: ConditionInputs, now: datetime
) -> tuple[Condition, ...]:
    """Return all conditions of the autoscaler, sorted by type; times change with statuses only."""
    before = {condition.type: condition for condition in autoscaler.conditions}
    ours = set(ConditionType)
    if findings.fetches_history is None:
        ours.remove(ConditionType.FETCHING_HISTORY)
    carried = [condition for condition in before.values() if condition.type not in ours]
    renewed = [dated(one, before.get(one.type), now) for one in _found(autoscaler, findings)]
    return tuple(sorted(carried + renewed, key=lambda condition: condition.type))


def _found(autoscaler: Autoscaler, findings: ConditionInputs) -> Iterator[Condition]:
    yield _recommendation_provided(findings)
    if not findings.matches_pods:
        yield _condition(
            ConditionType.NO_PODS_MATCHED, ConditionReason.NO_PODS_MATCHED, message=_NO_PODS
        )
    if findings.unsupported is not None:
        yield _condition(
            ConditionType.CONFIG_UNSUPPORTED,
            findings.unsupported.reason,
            message=_format_unsupported(findings.unsupported, autoscaler.target),
        )
    if message := _format_conflicts(autoscaler.identity, findings.conflicts):
        yield _condition(
            ConditionType.CONFIG_CONFLICT, ConditionReason.OVERLAPPING_SELECTOR, message=message
        )
    if findings.stale_containers:
        names = ", ".join(findings.stale_containers)
        yield _condition(
            ConditionType.USAGE_STALE,
            ConditionReason.NO_RECENT_SAMPLES,
            message=f"No usage of {names} is read at present; what is recommended stays as it was",
        )
    if findings.claims:
        yield _horizontally_scaled(findings.claims, is_held=findings.holds_claimed)
    if findings.fetches_history:
        yield _fetching_history(findings.history_problem)


def _horizontally_scaled(claims: Sequence[HpaClaim], *, is_held: bool) -> Condition:
    kind = ConditionType.HORIZONTALLY_SCALED
    found = "; ".join(map(_format_claim, claims))
    if is_held:
        text = f"{found}: what is recommended of that is not applied"
        return _condition(kind, ConditionReason.RESOURCE_HELD, message=text)
    text = f"{found}: what is applied of that moves what the other one goes by"
    return _condition(kind, ConditionReason.RESOURCE_CONTESTED, message=text)


def _format_claim(claim: HpaClaim) -> str:
    of = f" of {', '.join(claim.containers)}" if claim.containers else ""
    return f"The HorizontalPodAutoscaler {claim.horizontal} scales on {claim.resource}{of}"


def _fetching_history(problem: str) -> Condition:
    kind = ConditionType.FETCHING_HISTORY
    if not problem:
        text = "The history of usage is being read"
        return _condition(kind, ConditionReason.HISTORY_INCOMPLETE, message=text)
    text = f"The history of usage could not be read yet; it is tried again: {problem}"
    return _condition(kind, ConditionReason.HISTORY_UNAVAILABLE, message=text)


def _recommendation_provided(findings: ConditionInputs) -> Condition:
    kind = ConditionType.RECOMMENDATION_PROVIDED
    recommendation = findings.recommendation
    if recommendation.containers:
        return Condition(kind, _TRUE)
    if not findings.matches_pods:
        return Condition(kind, _FALSE, ConditionReason.NO_PODS_MATCHED, _NO_PODS)
    if recommendation.lacks_samples:
        names = ", ".join(recommendation.without_samples)
        return Condition(kind, _FALSE, ConditionReason.NO_SAMPLES, f"No samples yet of {names}")
    return Condition(kind, _FALSE)


def _condition(kind: ConditionType, reason: StrEnum, *, message: str) -> Condition:
    return Condition(kind, _TRUE, reason, message)


def _format_unsupported(unsupported: Unsupported, target: TargetReference | None) -> str:
    match unsupported.reason:
        case UnsupportedReason.TARGET_UNREADABLE:
            text = "Cannot read targetRef"
        case UnsupportedReason.TARGET_UNCHECKED:
            text = (
                f"Error checking whether target {_format_target(target)} is a topmost "
                "well-known or scalable controller"
            )
        case UnsupportedReason.TARGET_NOT_TOPMOST:
            text = "The target has a parent controller, but it must be the topmost one"
        case UnsupportedReason.SELECTOR_INVALID:
            text = "The selector cannot be used, so no pod matches it"
        case UnsupportedReason.SELECTOR_DISABLED:
            text = "A selector matches no pod while the feature gate PodSelector is off"
        case _:
            assert_never(unsupported.reason)
    return f"{text}: {unsupported.detail}" if unsupported.detail else text


def _format_target(target: TargetReference | None) -> str:
    if target is None:
        return "(none)"
    return f"{target.api_version}.{target.kind}/{target.name}"


def _format_conflicts(identity: AutoscalerName, conflicts: Iterable[Conflict]) -> str:
    """Format the conflicts of the autoscaler with others that match its pods; empty if none."""
    weaker, stronger = set(), set()
    for conflict in conflicts:
        if conflict.stronger == identity:
            weaker.add(conflict.weaker.name)
        if conflict.weaker == identity:
            stronger.add(conflict.stronger.name)
    parts = []
    if stronger:
        parts.append(f"pods of this autoscaler are left to {', '.join(sorted(stronger))}")
    if weaker:
        parts.append(f"this autoscaler acts on pods that {', '.join(sorted(weaker))} matches too")
    return "; ".join(parts)


def dated(condition: Condition, before: Condition | None, now: datetime) -> Condition:
    """Return the condition with the time since when its status holds, given the earlier one."""
    since = before.last_transition_time if before and before.status == condition.status else None
    return replace(condition, last_transition_time=since or now)
