"""Plans for pods on a node that do not run yet: their init containers are at work."""

import pytest
from msgspec import structs
from support.makers.plans import DOWN, SMALL, UP, by_pod, planned, snapshot_of, told
from support.makers.records import NOW, a_container, a_pod, an_autoscaler, minutes

from trimtab.core.model.autoscalers import ContainerRecommendation, UpdateMode
from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    Pod,
    PodPhase,
    ResizeState,
    Termination,
)
from trimtab.core.model.resources import Resource


def starting(*containers: Container, name: str = "web-0", node_name: str = "node-1") -> Pod:
    """Return a pod whose init containers have been at work for a while."""
    return a_pod(
        *containers, name=name, phase=PodPhase.PENDING, node_name=node_name, age=minutes(40)
    )


def three_starting(*containers: Container, node_name: str = "node-1") -> list[Pod]:
    """Return three such pods."""
    return [starting(*containers, name=f"web-{index}", node_name=node_name) for index in range(3)]


@pytest.mark.parametrize("recommendation", [UP, DOWN])
@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.AUTO])
def test_no_pod_is_evicted_from_its_init_containers(
    mode: UpdateMode, recommendation: ContainerRecommendation
) -> None:
    autoscaler = an_autoscaler(recommendation, mode=mode)

    assert told(planned(snapshot_of(three_starting(), autoscaler))) == ["PodPending"] * 3


def test_growth_under_upscale_only_waits_for_init_containers() -> None:
    autoscaler = an_autoscaler(UP, mode=UpdateMode.UPSCALE_ONLY)

    assert told(planned(snapshot_of(three_starting(), autoscaler))) == ["PodPending"] * 3


def test_pods_at_work_in_their_init_containers_are_down_for_their_siblings() -> None:
    running = [a_pod(name=f"run-{index}", ready_since=NOW) for index in range(2)]
    pods = [*three_starting()[:2], *running]

    assert by_pod(planned(snapshot_of(pods, an_autoscaler(UP)))) == {
        "web-0": "PodPending",
        "web-1": "PodPending",
        "run-0": "BudgetSpent",
        "run-1": "BudgetSpent",
    }


KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))


def dying() -> Container:
    """Return a sidecar that is OOM-killed before the containers of its pod start."""
    return a_container(requests=SMALL, kind=ContainerKind.SIDECAR, last_termination=KILLED)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (UpdateMode.RECREATE, "Evict"),
        (UpdateMode.UPSCALE_ONLY, "Evict"),
        (UpdateMode.IN_PLACE_OR_RECREATE, "Resize"),
        (UpdateMode.IN_PLACE, "Resize"),
    ],
)
def test_a_sidecar_that_is_oom_killed_before_the_pod_runs_gets_more_memory(
    mode: UpdateMode, expected: str
) -> None:
    pods = three_starting(dying())

    assert told(planned(snapshot_of(pods, an_autoscaler(UP, mode=mode)))) == [expected] * 3
    assert expected not in told(planned(snapshot_of(pods, an_autoscaler(DOWN, mode=mode))))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(UpdateMode.IN_PLACE_OR_RECREATE, "Evict"), (UpdateMode.IN_PLACE, "ResizeInfeasible")],
)
def test_where_its_node_cannot_resize_it_only_an_eviction_helps(
    mode: UpdateMode, expected: str
) -> None:
    asked = a_container(
        requests={**SMALL, Resource.MEMORY: UP.target[Resource.MEMORY]},
        status=Allocation(SMALL),
        kind=ContainerKind.SIDECAR,
        last_termination=KILLED,
    )
    pods = [structs.replace(pod, resize=ResizeState.INFEASIBLE) for pod in three_starting(asked)]

    assert told(planned(snapshot_of(pods, an_autoscaler(UP, mode=mode)))) == [expected] * 3


def test_without_resizes_in_place_such_a_pod_is_evicted() -> None:
    autoscaler = an_autoscaler(UP, mode=UpdateMode.IN_PLACE_OR_RECREATE)
    snapshot = snapshot_of(three_starting(dying()), autoscaler, resizes_in_place=False)

    assert told(planned(snapshot)) == ["Evict"] * 3


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE])
@pytest.mark.parametrize("node_name", ["node-1", ""])
def test_a_pod_that_only_starts_is_not_resized(mode: UpdateMode, node_name: str) -> None:
    pods = three_starting(node_name=node_name)

    assert told(planned(snapshot_of(pods, an_autoscaler(UP, mode=mode)))) == ["PodPending"] * 3
