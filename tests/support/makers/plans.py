"""Makers of snapshots and readers of plans, for the tests of plans."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.changes.outcomes import Hold, Outcome
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation, CpuBoost, UpdateMode
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Allocation, Pod, WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.sizing.startup_boost import annotation_name, format_original
from trimtab.core.updates import wishes
from trimtab.core.updates.plan import plan
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import ObservedPod, Snapshot

WEB = WorkloadName("default", "Deployment", "web")
REPLICA_SET = WorkloadName("default", "ReplicaSet", "web-1")
SMALL = amounts(100, 100 * MIB)
UP = a_recommendation(target=amounts(500, 500 * MIB), lower=amounts(400, 400 * MIB))
DOWN = a_recommendation(target=amounts(50, 50 * MIB), upper=amounts(90, 90 * MIB))


def several(count: int, **fields: object) -> list[Pod]:
    return [a_pod(name=f"web-{index}", **fields) for index in range(count)]  # type: ignore[arg-type]


def snapshot_of(pods: Sequence[Pod], *autoscalers: Autoscaler, **fields: object) -> Snapshot:
    """Pods of one Deployment, whose ReplicaSet wants as many as there are."""
    usual: dict[str, object] = {
        "pods": [ObservedPod(pod, WEB) for pod in pods],
        "autoscalers": [ObservedAutoscaler(each, Selector()) for each in autoscalers],
        "configured_replicas": {REPLICA_SET: len(pods)},
    }
    return Snapshot(**(usual | fields))  # type: ignore[arg-type]


def planned(snapshot: Snapshot, settings: PlanSettings | None = None) -> list[Outcome]:
    return plan(snapshot, settings or PlanSettings(), NOW)


def share_wanting_change(outcomes: Iterable[Outcome]) -> float:
    """The share of all pods under active autoscalers that want a change."""
    found = wishes.count(outcomes).values()
    return sum(each.wanting for each in found) / max(sum(each.counted for each in found), 1)


def told(outcomes: Sequence[Outcome]) -> list[str]:
    """Each outcome in a word: the reason of a hold, else what is done."""
    return [
        each.reason.value if isinstance(each, Hold) else type(each).__name__ for each in outcomes
    ]


def by_pod(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {each.pod.name: word for each, word in zip(outcomes, told(outcomes), strict=True)}


def boosted(
    *, ready: timedelta | None = None, age: timedelta = minutes(5), **fields: object
) -> Pod:
    """A pod that was boosted to four times its CPU, `ready` so long ago."""
    return a_pod(
        a_container(requests=amounts(400, 100 * MIB)),
        age=age,
        annotations={**BOOST_TOLD, annotation_name("app"): format_original(Allocation(SMALL))},
        ready_since=None if ready is None else NOW - ready,
        **fields,  # type: ignore[arg-type]
    )


def boosting(
    *recommendations: ContainerRecommendation, mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
) -> Autoscaler:
    """An autoscaler whose boosts outlast readiness by a minute."""
    return an_autoscaler(*recommendations, mode=mode, boost=CpuBoost(factor=4, duration=minutes(1)))
