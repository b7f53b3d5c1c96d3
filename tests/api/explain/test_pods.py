"""The page about pods: what is planned, all checks, and what the next pod would get."""

import json

from support.makers.plans import UP, boosted, boosting, several, snapshot_of
from support.makers.records import NOW, amounts, an_autoscaler, hours

from trimtab.api.explain.pods import (
    PlanOrigin,
    PlansFrom,
    PodsPage,
    ShownCheck,
    ShownPod,
    decode_pods,
    show_pods,
)
from trimtab.api.wire.codec import encode
from trimtab.core.explain.next_pod import size_newcomer
from trimtab.core.explain.pod_checks import explain_pod, view_plan
from trimtab.core.model.autoscalers import ContainerPolicy, CpuBoost
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import Snapshot

SETTINGS = PlanSettings()


def page(snapshot: Snapshot) -> PodsPage:
    view = view_plan(snapshot, SETTINGS, NOW)
    explained = [
        (found, size_newcomer(each, view.index, BoostRoom(), SETTINGS.gates))
        for each in snapshot.pods
        if (found := explain_pod(each, view)) is not None
    ]
    return show_pods(explained, PlanOrigin(PlansFrom.CLUSTER, NOW, SETTINGS, waiting=2))


def check(pod: ShownPod, name: str) -> ShownCheck:
    (found,) = [each for each in pod.checks if each.check == name]
    return found


def test_a_pod_is_told_with_its_checks_and_its_sizes() -> None:
    policies = (ContainerPolicy("app", max_allowed=amounts(300)),)
    shown = page(snapshot_of(several(1, age=hours(2)), an_autoscaler(UP, policies=policies)))
    (pod,) = shown.pods
    (container,) = pod.containers

    assert (pod.action, pod.reason, pod.way) == ("Hold", "BelowMinReplicas", "Evict")
    assert (pod.workload, pod.autoscaler, pod.age) == ("Deployment/web", "web", "2h0m0s")
    assert check(pod, "replicas").decisive
    assert check(pod, "replicas").verdict == "fail"
    assert check(pod, "startupBoost").verdict == "notAsked"
    assert container.current.requests == {"cpu": "100m", "memory": "100Mi"}
    assert container.target == {"cpu": "300m", "memory": "500Mi"}
    assert container.notes == ["cpu capped to maxAllowed"]
    assert container.next is not None
    assert container.next.requests == container.target
    assert pod.next_sized_by == "web"


def test_when_a_check_passes_is_told_as_a_moment() -> None:
    shown = page(snapshot_of([boosted(ready=hours(0.001))], boosting(UP)))
    (pod,) = shown.pods

    assert check(pod, "startupBoost").until == "2026-08-22T12:00:56Z"
    assert (pod.action, pod.reason) == ("Hold", "BoostActive")


def test_the_end_of_a_boost_says_why_it_ends() -> None:
    (over,) = page(snapshot_of([boosted(ready=hours(1))], boosting(UP))).pods
    (invalid,) = page(snapshot_of(several(1), an_autoscaler(UP, boost=CpuBoost()))).pods

    assert (over.action, over.reason) == ("Unboost", "BoostOver")
    assert "startupBoost" in invalid.containers[0].next_notes[0]


def test_who_asks_reads_what_was_written() -> None:
    shown = page(snapshot_of(several(3), an_autoscaler(UP)))
    written = json.loads(encode(shown))

    assert encode(decode_pods(encode(shown))) == encode(shown)
    assert [each["pod"] for each in written["pods"]] == ["web-0", "web-1", "web-2"]
    assert (written["source"], written["waiting"]) == ("cluster", 2)
    assert written["pods"][0]["change"]["relativeDifference"] == 8.0
