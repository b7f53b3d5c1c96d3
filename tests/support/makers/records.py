"""Small makers of records: each takes what a test is about and defaults all else."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation, TargetReference
from trimtab.core.model.pods import UPDATES, Allocation, Container, OwnerReference, Pod, PodPhase
from trimtab.core.model.resources import BOTH, Resource, Resources

NOW = datetime(2026, 8, 22, 12, tzinfo=UTC)
MIB = 1024 * 1024
BOOST_TOLD = {UPDATES: "Pod resources updated by web: container 0: cpu request"}
"""The annotation that admission leaves beside the mark of a boost."""


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def amounts(cpu: int | None = None, memory: int | None = None) -> Resources:
    """Resources of so many millicores and bytes; what is None is not set."""
    given = ((Resource.CPU, cpu), (Resource.MEMORY, memory))
    return {resource: amount for resource, amount in given if amount is not None}


def a_container(
    name: str = "app",
    *,
    requests: Resources | None = None,
    limits: Resources | None = None,
    **fields: object,
) -> Container:
    if fields.get("restarts_on_resize") is True:
        fields["restarts_on_resize"] = frozenset(BOTH)
    return Container(name, spec=Allocation(requests, limits), **fields)  # type: ignore[arg-type]


def a_pod(
    *containers: Container,
    name: str = "web-0",
    age: timedelta = hours(1),
    labels: Mapping[str, str] | None = None,
    owner: OwnerReference | None = OwnerReference("ReplicaSet", "web-1"),
    phase: PodPhase = PodPhase.RUNNING,
    **fields: object,
) -> Pod:
    usual: dict[str, object] = {
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": {"app": "web"} if labels is None else labels,
        "containers": containers or (a_container(requests=amounts(100, 100 * MIB)),),
        "started_at": NOW - age,
    }
    return Pod(name=name, owner=owner, phase=phase, **(usual | fields))  # type: ignore[arg-type]


def a_recommendation(
    name: str = "app",
    *,
    target: Resources,
    lower: Resources | None = None,
    upper: Resources | None = None,
) -> ContainerRecommendation:
    return ContainerRecommendation(name, target, lower, upper, target)


def an_autoscaler(
    *recommendations: ContainerRecommendation, name: str = "web", **fields: object
) -> Autoscaler:
    usual: dict[str, object] = {
        "namespace": "default",
        "uid": f"uid-{name}",
        "created_at": NOW - timedelta(days=30),
        "target": TargetReference("Deployment", "web", "apps/v1"),
        "recommendation": recommendations or None,
    }
    return Autoscaler(name=name, **(usual | fields))  # type: ignore[arg-type]
