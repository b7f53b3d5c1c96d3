"""Resizes that the API server refuses: a pod that dies anyway is evicted, one pod first."""

import pytest
from support.makers.plans import WEB, planned, snapshot_of, told
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.changes.outcomes import Evict
from trimtab.core.explain.pod_checks import explain_pod, view_plan
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import OwnerReference, Pod, Termination, WorkloadName
from trimtab.core.model.resources import Resource
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import DeniedAttempt, ResizeMemory
from trimtab.core.updates.snapshot import PodMemory, Retry, Snapshot

EVICTING = [UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY]
KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
FEW, ENOUGH = amounts(100, 200 * MIB), amounts(100, 800 * MIB)
MORE_MEMORY = a_recommendation(
    target=ENOUGH, lower=amounts(50, 700 * MIB), upper=amounts(200, 1200 * MIB)
)
JOB = OwnerReference("Job", "import", "batch/v1")


def dying(count: int = 3, **fields: object) -> list[Pod]:
    """Return pods that are OOM-killed in a loop."""
    container = a_container(requests=FEW, limits=FEW, last_termination=KILLED)
    return [
        a_pod(container, name=f"web-{index}", node_name="node-1", age=minutes(600), **fields)  # type: ignore[arg-type]
        for index in range(count)
    ]


def denied(
    pods: list[Pod], mode: UpdateMode, *others: Pod, eviction: Retry | None = None, **fields: object
) -> Snapshot:
    """Return a snapshot in which the API server has refused to resize the pods."""
    autoscaler = an_autoscaler(MORE_MEMORY, mode=mode)
    memory = PodMemory(remembered(autoscaler), eviction=eviction or Retry())
    return snapshot_of(
        [*pods, *others],
        autoscaler,
        pod_memory={(pod.uid, autoscaler.identity): memory for pod in pods},
        **fields,
    )


def remembered(autoscaler: Autoscaler) -> ResizeMemory:
    grows = autoscaler.mode is UpdateMode.UPSCALE_ONLY
    asked = amounts(memory=800 * MIB) if grows else ENOUGH
    return ResizeMemory(denied=DeniedAttempt({"app": asked}, NOW - minutes(5), "no resizes"))


@pytest.mark.parametrize("mode", EVICTING)
def test_of_pods_that_all_die_one_is_evicted_first(mode: UpdateMode) -> None:
    snapshot = denied(dying(), mode)
    outcomes = planned(snapshot)
    view = view_plan(snapshot, PlanSettings(), NOW)
    waiting = explain_pod(next(each for each in snapshot.pods if each.pod is outcomes[1].pod), view)

    assert told(outcomes) == ["Evict", "EffectAwaited", "EffectAwaited"]
    assert waiting is not None
    assert "EffectAwaited" in {check.reason for check in waiting.checks}


@pytest.mark.parametrize("mode", EVICTING)
def test_the_others_wait_for_its_successor(mode: UpdateMode) -> None:
    assert told(planned(denied(dying(2), mode, unproven={WEB: 1}))) == ["EffectAwaited"] * 2


@pytest.mark.parametrize("mode", EVICTING)
def test_a_pod_that_was_created_in_that_size_proves_it(mode: UpdateMode) -> None:
    created = a_pod(
        a_container(requests=ENOUGH, limits=ENOUGH),
        name="web-9",
        node_name="node-1",
        ready_since=NOW - minutes(1),
    )
    outcomes = planned(denied(dying(2), mode, created))

    assert told(outcomes).count("Evict") > 0


@pytest.mark.parametrize("mode", EVICTING)
def test_while_others_are_ready_nothing_is_tried(mode: UpdateMode) -> None:
    well = a_pod(
        a_container(requests=FEW, limits=FEW),
        name="web-9",
        node_name="node-1",
        ready_since=NOW - minutes(500),
    )

    assert set(told(planned(denied(dying(2), mode, well)))) <= {"ResizeDenied", "Resize"}


def test_a_mode_that_only_resizes_holds_the_pods() -> None:
    assert told(planned(denied(dying(), UpdateMode.IN_PLACE))) == ["ResizeDenied"] * 3


def test_pods_of_a_job_are_held() -> None:
    job = WorkloadName("default", "Job", "import")
    snapshot = denied(
        dying(owner=JOB), UpdateMode.IN_PLACE_OR_RECREATE, configured_replicas={job: 3}
    )

    assert told(planned(snapshot)) == ["ResizeDenied"] * 3


@pytest.mark.parametrize("mode", [*EVICTING, UpdateMode.RECREATE])
def test_a_refused_resize_is_not_repeated_for_a_pod_that_a_budget_keeps(mode: UpdateMode) -> None:
    kept = Retry(failures=2, not_before=NOW + minutes(1))

    assert "Resize" not in told(planned(denied(dying(), mode, eviction=kept)))


def test_a_limit_range_below_the_cpu_of_a_pod_does_not_keep_its_memory_from_it() -> None:
    has = amounts(1000, 200 * MIB)
    container = a_container(requests=has, limits=has, last_termination=KILLED)
    pods = [a_pod(container, name=f"web-{index}", node_name="node-1") for index in range(3)]
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(1000, 800 * MIB), lower=amounts(900, 700 * MIB)),
        mode=UpdateMode.UPSCALE_ONLY,
    )
    memory = PodMemory(remembered(autoscaler))
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(500))
    first, *others = planned(
        snapshot_of(
            pods,
            autoscaler,
            limit_ranges={"default": [item]},
            pod_memory={(pod.uid, autoscaler.identity): memory for pod in pods},
        )
    )

    assert isinstance(first, Evict)
    assert (first.wanted["app"].requests or {})[Resource.MEMORY] == 800 * MIB
    assert told(others) == ["EffectAwaited"] * 2
