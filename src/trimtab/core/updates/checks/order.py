"""All checks of a plan, in their order.

A plan stops at the first check that objects. An explanation runs all of them to the end. Each part
of the list needs more than the part before: an autoscaler, a pod with its target, a candidate, an
action.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, assert_never

from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.updates import action_choice
from trimtab.core.updates.candidates import Candidate, CheckInputs
from trimtab.core.updates.checks import choices, evictions, pods, resizes
from trimtab.core.updates.checks.check import Check, CheckKind, Objection
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.resize_or_evict import Action
from trimtab.core.updates.spending import Spent

AutoscalerCheck: TypeAlias = Check[Callable[[Autoscaler, PlanContext], Objection | None]]
PodCheck: TypeAlias = Check[Callable[[CheckInputs, PlanContext], Objection | None]]
CandidateCheck: TypeAlias = Check[Callable[[Candidate, PlanContext], Objection | None]]
ActionCheck: TypeAlias = Check[Callable[[Candidate, PlanContext, Spent], Objection | None]]


def _clears(*kinds: CheckKind) -> frozenset[CheckKind]:
    return frozenset(kinds)


OF_AUTOSCALERS: Final[Sequence[AutoscalerCheck]] = (Check(pods.is_idle, _clears(CheckKind.MODE)),)

# The value of a change comes before the obstacles to it: users ask for that first.
OF_PODS: Final[Sequence[PodCheck]] = (
    Check(pods.is_distrusted, _clears(CheckKind.RECOMMENDATION)),
    Check(pods.is_impossible, _clears(CheckKind.RECOMMENDATION)),
    Check(pods.is_small_or_young, _clears(CheckKind.CHANGE, CheckKind.LIFETIME), needs_target=True),
    # A check of candidates clears the direction.
    Check(pods.only_shrinks),
    Check(pods.misses_requirements, _clears(CheckKind.REQUIREMENTS), needs_target=True),
    Check(pods.has_new_governor, _clears(CheckKind.ROLE), needs_target=True),
    Check(pods.is_cooling, _clears(CheckKind.COOL_DOWN), needs_target=True),
    Check(pods.lacks_admission, _clears(CheckKind.ADMISSION)),
    Check(pods.acts_in_vain, _clears(CheckKind.CONVERGENCE)),
    Check(pods.is_degraded, _clears(CheckKind.HEALTH)),
    Check(pods.lacks_replicas, _clears(CheckKind.REPLICAS)),
)

OF_CANDIDATES: Final[Sequence[CandidateCheck]] = (
    Check(choices.wants_nothing, _clears(CheckKind.DIRECTION)),
)

_BUDGET: Final[ActionCheck] = Check(choices.lacks_budget, _clears(CheckKind.BUDGET))

OF_EVICTIONS: Final[Sequence[ActionCheck]] = (
    _BUDGET,
    Check(evictions.repeats_itself),
    Check(evictions.is_unwanted, _clears(CheckKind.EVICTION)),
    Check(evictions.runs_to_completion, _clears(CheckKind.EVICTION)),
    Check(evictions.rolls_out, _clears(CheckKind.EVICTION)),
    Check(evictions.waits_for_lower_ordinal, _clears(CheckKind.EVICTION)),
    Check(evictions.finds_no_node, _clears(CheckKind.EVICTION)),
    Check(evictions.follows_restart, _clears(CheckKind.BUDGET)),
    Check(evictions.was_refused, _clears(CheckKind.POD_DISRUPTION_BUDGET)),
    Check(evictions.lacks_successors, _clears(CheckKind.EARLIER_EVICTIONS)),
    Check(evictions.awaits_effect, _clears(CheckKind.EARLIER_EVICTIONS)),
    Check(evictions.gains_nothing, _clears(CheckKind.QUOTA)),
    Check(evictions.loses_more, _clears(CheckKind.EVICTION)),
    Check(evictions.is_cut, _clears(CheckKind.EVICTION, CheckKind.QUOTA)),
    Check(evictions.is_capped, _clears(CheckKind.EVICTION)),
    Check(evictions.lacks_quota, _clears(CheckKind.QUOTA)),
)

_CUT: Final[ActionCheck] = Check(resizes.follows_cut)
_QUOTA: Final[ActionCheck] = Check(resizes.lacks_quota, _clears(CheckKind.QUOTA))

OF_RESTARTS: Final[Sequence[ActionCheck]] = (
    _CUT,
    _BUDGET,
    Check(resizes.restarts_too_soon, _clears(CheckKind.BUDGET)),
    _QUOTA,
)
"""Checks of resizes that restart a container at work."""

OF_RESIZES: Final[Sequence[ActionCheck]] = (_CUT, _QUOTA)
"""Checks of resizes that take no pod away."""

OF_TAKEN_BACK: Final[Sequence[ActionCheck]] = (
    Check(resizes.is_denied, _clears(CheckKind.RESIZE)),
    Check(resizes.is_refused, _clears(CheckKind.RESIZE)),
)
"""Checks of resizes that only take back a shrink; no others apply to them."""


def of_action(action: Action, candidate: Candidate, context: PlanContext) -> Sequence[ActionCheck]:
    """Return the checks of an action for the candidate."""
    match action:
        case Action.EVICT:
            return OF_EVICTIONS
        case Action.RESIZE:
            restarts = action_choice.restarts_work(candidate, context)
            return OF_RESTARTS if restarts else OF_RESIZES
        case _:
            assert_never(action)


def first_objection(
    checks: Iterable[ActionCheck], candidate: Candidate, context: PlanContext, spent: Spent
) -> Objection | None:
    """Return the first objection to an action; None if all checks pass."""
    for check in checks:
        if (objection := check.find(candidate, context, spent)) is not None:
            return objection
    return None


def kinds_cleared_by(
    checks: Iterable[Check[Callable[..., Objection | None]]],
) -> frozenset[CheckKind]:
    """Return the kinds of checks that are clear if none of these object."""
    return frozenset().union(*(each.clears for each in checks))
