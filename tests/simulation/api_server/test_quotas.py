import pytest
from msgspec import structs
from simulation.bare_cluster import a_node, a_placed_pod, a_world
from support.makers.records import MIB, a_container, amounts

from trimtab.core.model.pods import Allocation, Pod, PodPhase
from trimtab.core.model.resources import Resources
from trimtab.simulation.api_server.quotas import count_quota, find_quota_flaw
from trimtab.simulation.world.objects import QuotaObject
from trimtab.simulation.world.world import World


def requesting(cpu: int | None, name: str = "new", **fields: object) -> Pod:
    container = a_container(requests=amounts(cpu, 100 * MIB))
    return a_placed_pod(container, name=name, **fields)


def a_world_with(*pods: Pod, quota: Resources) -> World:
    world = a_world()
    world.quotas.put(QuotaObject("default", "room", quota))
    world.nodes.put(a_node())
    for pod in pods:
        world.pods.put(pod)
    return world


@pytest.mark.parametrize(
    ("others", "is_refused"),
    [
        pytest.param([], False, id="there is room"),
        pytest.param([requesting(300, "a")], False, id="the quota may be used up"),
        pytest.param([requesting(301, "a")], True, id="but not exceeded"),
        pytest.param(
            [requesting(301, "a", namespace="elsewhere")], False, id="others have their own"
        ),
        pytest.param(
            [requesting(301, "a", phase=PodPhase.FAILED)], False, id="what has ended is free"
        ),
        pytest.param(
            [requesting(301, "a", phase=PodPhase.PENDING, node_name="")],
            True,
            id="what waits for a node counts",
        ),
        pytest.param(
            [requesting(301, "a", is_deleting=True)], True, id="what is about to go still counts"
        ),
        pytest.param(
            [requesting(301, "a", is_deleting=True, node_name="lost")],
            False,
            id="what nobody is there to end does not",
        ),
    ],
)
def test_a_new_pod_must_fit_beside_those_that_count(others: list[Pod], *, is_refused: bool) -> None:
    world = a_world_with(*others, quota=amounts(cpu=400))
    world.nodes.put(a_node("lost", is_ready=False))

    assert bool(find_quota_flaw(world, requesting(100))) is is_refused


def test_whoever_is_under_a_quota_has_to_say_what_it_requests() -> None:
    world = a_world_with(quota=amounts(cpu=400))

    assert "must specify cpu for: app" in find_quota_flaw(world, requesting(None))


def test_a_resource_without_a_quota_is_not_counted() -> None:
    world = a_world_with(quota=amounts(memory=1000 * MIB))

    assert find_quota_flaw(world, requesting(10**9)) == ""


@pytest.mark.parametrize(
    ("cpu", "is_refused"),
    [
        pytest.param(150, True, id="growth counts"),
        pytest.param(100, False, id="what stays costs nothing"),
        pytest.param(50, False, id="what shrinks is welcome"),
    ],
)
def test_of_a_pod_that_is_there_only_growth_is_charged(cpu: int, *, is_refused: bool) -> None:
    before = requesting(100, "a")
    world = a_world_with(before, requesting(900, "b"), quota=amounts(cpu=500))
    after = structs.replace(before, containers=requesting(cpu).containers)

    assert bool(find_quota_flaw(world, after, before=before)) is is_refused


def test_a_pod_that_is_being_shrunk_costs_what_it_still_has() -> None:
    (container,) = requesting(100).containers
    shrinking = structs.replace(container, status=Allocation(amounts(350)))
    world = a_world_with(requesting(100, "a", containers=(shrinking,)), quota=amounts(cpu=400))

    assert find_quota_flaw(world, requesting(100))
    assert not find_quota_flaw(world, requesting(50))


@pytest.mark.parametrize(
    ("limit", "flaw"),
    [
        pytest.param(300, "", id="limits that fit together"),
        pytest.param(
            301, "exceeded quota: room, requested: limits.cpu=301", id="too large a limit"
        ),
        pytest.param(None, "failed quota: room: must specify limits.cpu for: app", id="no limit"),
    ],
)
def test_a_quota_may_bound_limits_as_well(limit: int | None, flaw: str) -> None:
    limits = None if limit is None else amounts(cpu=limit)
    pod = a_placed_pod(a_container(requests=amounts(100), limits=limits), name="new")
    other = a_placed_pod(a_container(requests=amounts(100), limits=amounts(cpu=100)), name="old")
    world = a_world_with(other, quota={})
    world.quotas.put(QuotaObject("default", "room", {}, limits=amounts(cpu=400)))

    assert find_quota_flaw(world, pod) == flaw
    (left,) = count_quota(world, next(iter(world.quotas))).left.values()
    assert left == 300
