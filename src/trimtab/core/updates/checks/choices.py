"""Checks of a candidate before the choice of an action."""

from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.updates import action_choice, spending
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.checks.check import Objection
from trimtab.core.updates.plan_context import EVICTING_MODES, PlanContext
from trimtab.core.updates.spending import Spent


def wants_nothing(candidate: Candidate, _: PlanContext) -> Objection | None:
    """Object if nothing is left to ask for in place, as all of it would shrink."""
    is_empty = not candidate.wanted and candidate.autoscaler.mode not in EVICTING_MODES
    return Objection(HoldReason.ONLY_SHRINKS) if is_empty else None


def lacks_budget(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object if the budget of the pod's owner is spent, and every action needs it."""
    if spending.may_disrupt(candidate, context, spent):
        return None
    group = context.group_of(candidate.pod)
    if group is None or group.configured is None:
        # There is no budget at all, which is a reason of its own.
        return None
    _, chosen = action_choice.choose(candidate, context, spent, disruptable=False)
    is_spent = chosen is HoldReason.BUDGET_SPENT
    return Objection(HoldReason.BUDGET_SPENT) if is_spent else None
