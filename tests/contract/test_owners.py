"""Who owns whom, for every kind of workload."""

import pytest
from contract.stage import eventually, in_every_world
from contract.world import CUSTOM_KIND, Link, World
from msgspec import structs

from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.model.workloads import Workload

API_VERSIONS = {"CronJob": "batch/v1", "Job": "batch/v1", CUSTOM_KIND[1]: CUSTOM_KIND[0]}


async def find(world: World, link: Link, name: WorkloadName) -> Workload:
    api_version = API_VERSIONS.get(name.kind, "apps/v1")
    found = None

    async def is_known() -> bool:
        nonlocal found
        found = await link.cluster.owners.workload(name, api_version)
        return found is not None

    await eventually(world, is_known)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "kind",
    [
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
        CUSTOM_KIND[1],
    ],
)
@in_every_world
async def test_the_topmost_workload_of_a_pod_is_found_through_all_levels(
    world: World, kind: str
) -> None:
    name = await world.create_workload(kind, "web")
    async with world.joined() as link:
        (pod,) = link.cluster.pods
        workload = await find(world, link, name)

        assert await link.cluster.owners.topmost(pod) == name
        assert await link.cluster.owners.topmost(workload) == name
        assert workload.name == name
        assert workload.selector is not None
        assert workload.selector.matches(pod.labels)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", CUSTOM_KIND[1]])
@in_every_world
async def test_a_workload_says_how_many_pods_it_wants(world: World, kind: str) -> None:
    name = await world.create_workload(kind, "web", replicas=3)
    async with world.joined() as link:
        workload = await find(world, link, name)

        assert workload.replicas == 3


@in_every_world
async def test_a_pod_without_an_owner_has_no_topmost_workload(world: World) -> None:
    await world.create_pod("stray", is_placed=False)
    async with world.joined() as link:
        (pod,) = link.cluster.pods

        assert await link.cluster.owners.topmost(pod) is None


@in_every_world
async def test_an_owner_that_is_missing_or_another_leaves_the_pod_without_an_answer(
    world: World,
) -> None:
    name = await world.create_workload("StatefulSet", "web")
    async with world.joined() as link:
        await find(world, link, name)
        (pod,) = link.cluster.pods
        assert pod.owner is not None
        orphan = structs.replace(pod, owner=structs.replace(pod.owner, name="gone"))
        adopted = structs.replace(pod, owner=structs.replace(pod.owner, uid="of an earlier one"))

        assert await link.cluster.owners.topmost(orphan) is None
        assert await link.cluster.owners.topmost(adopted) is None


@in_every_world
async def test_a_workload_that_does_not_exist_is_none(world: World) -> None:
    async with world.joined() as link:
        owners = link.cluster.owners
        rollout = WorkloadName(world.namespace, CUSTOM_KIND[1], "nobody")
        unheard_of = WorkloadName(world.namespace, "Unheard", "nobody")

        assert await owners.workload(WorkloadName(world.namespace, "Deployment", "nobody")) is None
        assert await owners.workload(rollout, CUSTOM_KIND[0]) is None
        assert await owners.workload(unheard_of, "unheard.example.com/v1") is None


@in_every_world
async def test_what_a_node_owns_belongs_to_no_workload(world: World) -> None:
    async with world.joined() as link:
        mirror = Pod(world.namespace, "etcd", owner=OwnerReference("Node", "kwok-0", "v1", "1"))

        assert await link.cluster.owners.topmost(mirror) is None
