"""Outcomes of parts in the place of those of the plan before."""

from support.makers.records import a_pod

from trimtab.core.changes.outcomes import Hold
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import OwnerReference
from trimtab.updater.last_plan import LastPlan
from trimtab.updater.pod_owners import OwnerKey

WEB = OwnerKey("default", "ReplicaSet", "web", "", "")
API = OwnerKey("default", "ReplicaSet", "api", "", "")


def held(name: str, owner: OwnerKey, reason: HoldReason = HoldReason.COOL_DOWN) -> Hold:
    return Hold(a_pod(name=name, owner=OwnerReference(owner.kind, owner.name)), None, reason)


def test_a_part_takes_away_what_was_planned_for_pods_that_are_gone() -> None:
    plan = LastPlan()
    plan.replace_all([held("gone", WEB), held("one", API), held("two", WEB)])
    renewed = held("two", WEB, HoldReason.SURGE)
    plan.replace_part([renewed], [WEB])

    assert list(plan.outcomes.values()) == [held("one", API), renewed]


def test_a_pod_that_another_owner_adopted_stays_in_the_plan() -> None:
    plan = LastPlan()
    plan.replace_all([held("adopted", WEB)])
    plan.replace_part([held("adopted", API)], [API])
    plan.replace_part([], [WEB])

    assert list(plan.outcomes.values()) == [held("adopted", API)]
