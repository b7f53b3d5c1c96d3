"""The gap between restarts of one namespace."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from support.makers.plans import REPLICA_SET, SMALL, UP, planned, snapshot_of, told
from support.makers.records import NOW, a_container, a_pod, an_autoscaler, minutes

from trimtab.api.explain.pods import tell_check
from trimtab.core.explain.pod_checks import explain_pod, view_plan
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import RESTART_GAP, Restart, end_of_gap
from trimtab.core.updates.snapshot import Snapshot

READY = a_pod(ready_since=NOW - minutes(9))
OTHER = WorkloadName("default", "ReplicaSet", "other-1")


@pytest.mark.parametrize(
    ("pod", "ago", "waits"),
    [
        pytest.param(READY, timedelta(), True, id="nothing shows yet"),
        pytest.param(
            structs.replace(READY, ready_since=None), timedelta(1e-5), True, id="it restarts"
        ),
        pytest.param(READY, RESTART_GAP, False, id="by now it shows"),
        pytest.param(structs.replace(READY, ready_since=NOW), timedelta(), False, id="ready again"),
        pytest.param(structs.replace(READY, uid="new"), timedelta(), False, id="another pod"),
        pytest.param(None, timedelta(), False, id="gone"),
    ],
)
def test_the_next_restart_waits_for_the_last_one(
    pod: Pod | None, ago: timedelta, *, waits: bool
) -> None:
    end = end_of_gap(Restart(READY, NOW - ago), pod, NOW)

    assert end == (NOW - ago + RESTART_GAP if waits else None)


def owned(owner: WorkloadName, *, is_ready: bool = True) -> list[Pod]:
    container = a_container(requests=SMALL, restarts_on_resize=True)
    reference = OwnerReference(owner.kind, owner.name)
    since = NOW - minutes(9) if is_ready else None
    return [
        structs.replace(
            a_pod(container, name=f"{owner.name}-{index}", ready_since=since),
            owner=reference,
        )
        for index in range(3)
    ]


def a_snapshot(pods: list[Pod], **fields: object) -> Snapshot:
    autoscaler = an_autoscaler(UP, mode=UpdateMode.IN_PLACE)
    configured = {"configured_replicas": {REPLICA_SET: 3, OTHER: 3}}
    return snapshot_of(pods, autoscaler, **(configured | fields))


def restarts(pods: list[Pod], **fields: object) -> list[str]:
    return told(planned(a_snapshot(pods, **fields)))


def test_f24_owners_of_one_namespace_restart_one_pod_after_the_other() -> None:
    both = [*owned(REPLICA_SET), *owned(OTHER)]

    assert restarts(both) == ["Resize"] + ["BudgetSpent"] * 5


def test_f24_a_restart_in_the_namespace_is_waited_for() -> None:
    gaps = {"default": NOW + timedelta(seconds=3)}

    assert restarts(owned(REPLICA_SET), gaps=gaps) == ["BudgetSpent"] * 3
    assert restarts(owned(REPLICA_SET), gaps={"another": NOW + minutes(1)})[0] == "Resize"


def test_the_explanation_says_that_another_pod_restarts_first_and_until_when() -> None:
    end = NOW + timedelta(seconds=3)
    snapshot = a_snapshot(owned(REPLICA_SET), gaps={"default": end})
    settings = PlanSettings()
    found = explain_pod(snapshot.pods[0], view_plan(snapshot, settings, NOW))
    assert found is not None
    (check,) = [each for each in found.checks if each.is_decisive]

    assert check.until == end
    assert "3 of 3 pods run, and 1 may be down, but another pod of the namespace restarts" in (
        tell_check(check, found, settings)
    )


def test_f24_pods_that_are_not_ready_cost_no_budget_anything() -> None:
    both = [*owned(REPLICA_SET), *owned(OTHER, is_ready=False)]
    gaps = {"default": NOW + timedelta(seconds=3)}

    assert restarts(both, gaps=gaps).count("Resize") == 1


def test_no_ready_pod_is_evicted_while_another_one_of_the_namespace_restarts() -> None:
    pods = [a_pod(name=f"web-{index}", ready_since=NOW - minutes(9)) for index in range(3)]
    snapshot = snapshot_of(pods, an_autoscaler(UP), gaps={"default": NOW + timedelta(seconds=3)})

    assert told(planned(snapshot)) == ["BudgetSpent"] * 3
    assert "Evict" in told(planned(replace(snapshot, gaps={"default": NOW})))
    down = [
        replace(each, pod=structs.replace(each.pod, ready_since=None)) for each in snapshot.pods
    ]
    assert "Evict" in told(planned(replace(snapshot, pods=down)))
