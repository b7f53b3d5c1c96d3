"""One list of checks: all of it is pure, and together it answers for every kind."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from random import Random

from hypothesis import given
from support.makers.plans import REPLICA_SET, UP, several, snapshot_of
from support.makers.records import MIB, NOW, amounts, an_autoscaler
from support.strategies.plans import a_snapshot, seeds, some_settings

from trimtab.core.explain import pod_checks
from trimtab.core.explain.pod_checks import PlanView
from trimtab.core.model import matching
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side
from trimtab.core.updates import candidates
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.checks import order
from trimtab.core.updates.checks.check import CheckKind
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.spending import Spent

OF_ACTIONS = (order.OF_EVICTIONS, order.OF_RESTARTS, order.OF_RESIZES, order.OF_TAKEN_BACK)

OTHERS = frozenset({CheckKind.BOOST, CheckKind.SURGE, CheckKind.RESIZE, CheckKind.PAUSE})
"""Kinds that are no check of the list: boosts, surges, the choice of an action, and pauses."""


def a_quota(cpu: int) -> Quota:
    return Quota("default", "small", {QuotaClaim(Side.REQUESTS, Resource.CPU): cpu})


def candidates_of(view: PlanView) -> Iterator[Candidate]:
    """All governed pods with a recommendation to be trusted, as candidates."""
    context = view.context
    for each in context.snapshot.pods:
        autoscaler = matching.governor_of(view.index, each.workload, each.pod.labels)
        if autoscaler is None:
            continue
        judgement = context.judge(each.pod, autoscaler)
        if judgement.distrust is None:
            facts = candidates.facts_about(each.pod, autoscaler, each.workload, judgement, context)
            yield candidates.candidate_of(facts, context)


def assert_nothing_is_spent(view: PlanView, spent: Spent) -> None:
    before = deepcopy(spent)
    for candidate in candidates_of(view):
        for checks in OF_ACTIONS:
            for check in checks:
                check.find(candidate, view.context, spent)
    assert spent == before


@given(seeds)
def test_no_check_changes_what_the_plan_has_spent(dice: Random) -> None:
    quotas = {"default": [a_quota(dice.choice([0, 500, 10_000]))]}
    snapshot = replace(a_snapshot(dice), quotas=quotas)
    view = pod_checks.view_plan(snapshot, some_settings(dice), NOW)

    assert_nothing_is_spent(view, Spent())
    assert_nothing_is_spent(view, view.promised)


def test_a_check_of_quotas_claims_nothing_for_the_successor_that_it_foresees() -> None:
    template = {REPLICA_SET: {"app": Allocation(amounts(100, 100 * MIB))}}
    snapshot = snapshot_of(
        several(3),
        an_autoscaler(UP),
        quotas={"default": [a_quota(10_000)]},
        template_sizes=template,
    )
    view = pod_checks.view_plan(snapshot, PlanSettings(), NOW)
    spent = Spent()
    for candidate in candidates_of(view):
        assert order.first_objection(order.OF_EVICTIONS, candidate, view.context, spent) is None

    assert spent == Spent()


def test_the_list_of_checks_answers_for_every_kind() -> None:
    parts = (order.OF_AUTOSCALERS, order.OF_PODS, order.OF_CANDIDATES, *OF_ACTIONS)
    cleared = frozenset().union(*(order.kinds_cleared_by(part) for part in parts))

    assert cleared | OTHERS == set(CheckKind)
