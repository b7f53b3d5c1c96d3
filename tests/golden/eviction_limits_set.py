"""Replica groups and their budgets: who may be evicted at first, and who is in the end."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from golden import priority_set
from msgspec import structs

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.pods import decode_pod
from trimtab.core.changes import change
from trimtab.core.changes.outcomes import Evict
from trimtab.core.guards import disruption_budgets
from trimtab.core.guards.disruption_budgets import DisruptionSettings, GroupPermission
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.model.resources import BOTH
from trimtab.core.model.selectors import Selector
from trimtab.core.updates import resize_or_evict
from trimtab.core.updates.plan import plan
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import ObservedPod, Snapshot

NOW = datetime(2024, 3, 10, 12, tzinfo=UTC)
RECREATING = (UpdateMode.RECREATE, UpdateMode.AUTO)
WEB = WorkloadName("default", "Deployment", "web")


class Groups:
    """The groups of a case, and what was taken from their budgets."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.autoscaler = decode_autoscaler(json.dumps(given["vpa"]).encode())
        self.pods = {pod.name: pod for pod in map(decoded, given["pods"])}
        self.settings = DisruptionSettings(
            min_replicas=given["minReplicas"],
            tolerance=given["evictionTolerance"],
        )
        # Without the flag, the original opens a small group for nothing (D17 does).
        self.can_resize = given["inPlaceSkipDisruptionBudget"]
        self.configured = {
            WorkloadName("default", entry["kind"], entry["name"]): entry["replicas"]
            for entry in given["controllers"]
        }
        self.groups = disruption_budgets.count_groups(self.pods.values(), self.configured)
        self.spent: Counter[WorkloadName | None] = Counter()

    def standing(self, name: str) -> GroupPermission | HoldReason:
        owner = disruption_budgets.owner_of(self.pods[name])
        group = None if owner is None else self.groups[owner]
        return disruption_budgets.standing(
            group, self.autoscaler, self.settings, can_resize=self.can_resize
        )

    def may_evict(self, name: str) -> bool:
        pod, standing = self.pods[name], self.standing(name)
        owner = disruption_budgets.owner_of(pod)
        if owner is None or isinstance(standing, HoldReason):
            return False
        situation = resize_or_evict.PodSituation(
            pod=pod,
            # Ours evicts a pending pod only to shrink, so that is what all of them want.
            targets={each.name: dict.fromkeys(BOTH, 0) for each in pod.containers},
            standing=standing,
            disruptable=self.groups[owner].is_disruptable(
                self.settings.tolerance, self.spent[owner]
            ),
            memory=resize_or_evict.ResizeMemory(),
            now=NOW,
        )
        return resize_or_evict.decide_eviction(situation) is resize_or_evict.Action.EVICT

    def attempt(self, name: str) -> dict[str, Any]:
        if isinstance(self.standing(name), HoldReason):
            error = f"pod not suitable for eviction default/{name}: not in replicated pods map"
        elif not self.may_evict(name):
            error = f"cannot evict pod default/{name}: eviction budget exceeded"
        else:
            if self.pods[name].phase is not PodPhase.PENDING:
                self.spent[disruption_budgets.owner_of(self.pods[name])] += 1
            return {"evicted": True, "pod": name}
        return {"evicted": False, "pod": name, "error": error}


def differences(case: dict[str, Any]) -> list[str]:
    given, theirs = case["input"], case["expected"]
    groups = Groups(given)
    at_first = {name: groups.may_evict(name) for name in groups.pods}
    ours: dict[str, Any] = {"canEvictAtFirst": at_first}
    if "attempts" in given:
        ours["attempts"] = [groups.attempt(name) for name in given["attempts"]]
        attempts = ours["attempts"]
    else:
        ours["updateOrder"] = update_order(groups, at_first)
        attempts = [groups.attempt(name) for name in ours["updateOrder"]]
    ours["evicted"] = [each["pod"] for each in attempts if each["evicted"]]
    ours["evictedCount"] = len(ours["evicted"])
    found = [
        f"{key}: {ours.get(key)} != {theirs[key]}" for key in theirs if ours.get(key) != theirs[key]
    ]
    if "attempts" not in given and groups.autoscaler.mode in RECREATING:
        evicted = planned_evictions(groups)
        found += [] if evicted == theirs["evicted"] else [f"plan: {evicted} != {theirs['evicted']}"]
    return found


def update_order(groups: Groups, at_first: dict[str, bool]) -> list[str]:
    wishes = [
        priority_set.wish(pod, groups.autoscaler)
        for name, pod in groups.pods.items()
        if at_first[name]
    ]
    accepted = change.most_urgent_first(
        each for each in wishes if priority_set.is_accepted(each, groups.autoscaler, {}, NOW)
    )
    return [
        each.pod.name
        for each in accepted
        if change.are_fulfilled(groups.autoscaler.requirements, each.pod, each.recommendation)
    ]


def planned_evictions(groups: Groups) -> list[str]:
    """Whom the plan evicts; equals are kept in the order of the input by names that sort so."""
    names = {f"{place:06}-{name}": name for place, name in enumerate(groups.pods)}
    snapshot = Snapshot(
        pods=[
            ObservedPod(structs.replace(groups.pods[name], name=alias), WEB)
            for alias, name in names.items()
        ],
        autoscalers=[ObservedAutoscaler(groups.autoscaler, Selector())],
        configured_replicas=groups.configured,
    )
    settings = PlanSettings(disruption=groups.settings, gates=FeatureGates(cpu_startup_boost=False))
    return [
        names[each.pod.name] for each in plan(snapshot, settings, NOW) if isinstance(each, Evict)
    ]


def decoded(pod: dict[str, Any]) -> Pod:
    return decode_pod(json.dumps(pod).encode())
