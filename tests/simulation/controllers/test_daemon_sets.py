from msgspec import structs
from simulation.bare_cluster import (
    BareCluster,
    a_cluster,
    a_node,
    a_template,
    a_workload,
    passing,
    virtually,
)

from trimtab.core.model.pods import Pod, PodPhase
from trimtab.simulation.world.objects import WorkloadObject
from trimtab.simulation.world.tables import TableChange


def places(cluster: BareCluster) -> list[str]:
    return sorted(pod.node_name for pod in cluster.pods("agent"))


def wanted(cluster: BareCluster) -> int | None:
    found = cluster.world.workloads_of("DaemonSet").find("default", "agent")
    assert found is not None
    return found.known.replicas


def status(cluster: BareCluster) -> tuple[int | None, int | None]:
    found = cluster.world.workloads_of("DaemonSet").find("default", "agent")
    assert found is not None
    return found.known.ready, found.known.updated


async def rolled_out(cluster: BareCluster, **fields: object) -> WorkloadObject:
    workload = a_workload("DaemonSet", "agent", **fields)  # type: ignore[arg-type]
    stored = cluster.world.add_workload(workload)
    await passing(minutes=1)
    return stored


@virtually
async def test_every_node_has_a_pod_of_its_own() -> None:
    async with a_cluster() as cluster:
        await rolled_out(cluster)

        assert places(cluster) == ["node-0", "node-1", "node-2"]
        assert wanted(cluster) == 3
        assert status(cluster) == (3, 3)


@virtually
async def test_pods_come_and_go_with_their_nodes() -> None:
    async with a_cluster() as cluster:
        await rolled_out(cluster)
        cluster.world.nodes.put(a_node("node-9"))
        cluster.world.nodes.delete("", "node-1")
        await passing(minutes=1)

        assert places(cluster) == ["node-0", "node-2", "node-9"]
        assert wanted(cluster) == 3
        assert len(cluster.world.pods) == 3


@virtually
async def test_a_node_that_is_not_ready_still_wants_its_pod() -> None:
    async with a_cluster() as cluster:
        cluster.world.nodes.put(a_node("node-9", is_ready=False))
        await rolled_out(cluster)
        pending = [pod for pod in cluster.pods("agent") if not pod.node_name]

        assert wanted(cluster) == 4
        assert len(pending) == 1
        cluster.world.nodes.put(a_node("node-9"))
        await passing(minutes=1)
        assert places(cluster) == ["node-0", "node-1", "node-2", "node-9"]


@virtually
async def test_a_node_without_room_keeps_its_pod_waiting() -> None:
    async with a_cluster(nodes=2) as cluster:
        cluster.world.nodes.put(a_node("tiny", cpu=50))
        await rolled_out(cluster, template=a_template("agent", cpu=100))

        assert places(cluster) == ["", "node-0", "node-1"]


@virtually
async def test_a_pod_that_failed_or_went_is_made_again_on_its_node() -> None:
    async with a_cluster() as cluster:
        await rolled_out(cluster)
        first, second, third = cluster.pods("agent")
        cluster.serving.delete_pod(first)
        cluster.world.pods.put(structs.replace(second, phase=PodPhase.FAILED, ready_since=None))
        await passing(minutes=1)
        uids = {pod.uid for pod in cluster.world.pods}

        assert places(cluster) == ["node-0", "node-1", "node-2"]
        assert uids & {first.uid, second.uid, third.uid} == {third.uid}


@virtually
async def test_a_rollout_replaces_one_node_after_the_other() -> None:
    async with a_cluster() as cluster:
        workload = await rolled_out(cluster)
        old = {pod.uid for pod in cluster.pods("agent")}
        fewest = [3]

        def count(_: TableChange[Pod]) -> None:
            fewest.append(sum(pod.ready_since is not None for pod in cluster.pods("agent")))

        cluster.world.pods.subscribe(count)
        cluster.change(workload, revision=2)
        await passing(minutes=5)
        new = cluster.pods("agent")

        assert min(fewest) == 2
        assert places(cluster) == ["node-0", "node-1", "node-2"]
        assert old.isdisjoint(pod.uid for pod in new)
        assert len({pod.labels["controller-revision-hash"] for pod in new}) == 1


@virtually
async def test_a_rollout_does_not_wait_for_pods_that_are_not_ready() -> None:
    async with a_cluster() as cluster:
        cluster.kubelet.broken.add("agent")
        workload = await rolled_out(cluster)
        old = {pod.uid for pod in cluster.pods("agent")}
        cluster.kubelet.broken.clear()
        cluster.change(workload, revision=2)
        await passing(minutes=1)
        new = cluster.pods("agent")

        assert len(new) == 3
        assert old.isdisjoint(pod.uid for pod in new)


@virtually
async def test_of_two_pods_on_a_node_the_later_goes() -> None:
    async with a_cluster() as cluster:
        workload = await rolled_out(cluster)
        present = {pod.uid for pod in cluster.pods("agent")}
        labels = cluster.pods("agent")[0].labels
        template = a_template("agent", node_name="node-1", labels=labels)
        await cluster.admitting.create_pod("default", "twin", template, workload.reference)
        await passing(minutes=1)

        assert {pod.uid for pod in cluster.world.pods} == present
