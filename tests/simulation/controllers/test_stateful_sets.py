from dataclasses import replace

from msgspec import structs
from simulation.bare_cluster import BareCluster, a_cluster, a_workload, passing, virtually

from trimtab.core.model.pods import Pod, PodPhase
from trimtab.simulation.world.objects import WorkloadObject
from trimtab.simulation.world.tables import TableChange

NAMES = ["db-0", "db-1", "db-2"]


def names(cluster: BareCluster) -> list[str]:
    return [pod.name for pod in cluster.pods("db")]


def record(cluster: BareCluster) -> list[str]:
    """What comes, gets ready and goes from now on."""
    told: list[str] = []

    def notice(change: TableChange[Pod]) -> None:
        before, after = change.before, change.after
        if before is None:
            told.append(f"{change.name.name} comes")
        elif after is None:
            told.append(f"{change.name.name} goes")
        elif after.ready_since is not None and before.ready_since is None:
            told.append(f"{change.name.name} is ready")

    cluster.world.pods.subscribe(notice)
    return told


async def rolled_out(cluster: BareCluster, **fields: object) -> WorkloadObject:
    workload = a_workload("StatefulSet", "db", **fields)  # type: ignore[arg-type]
    stored = cluster.world.add_workload(workload)
    await passing(minutes=1)
    return stored


@virtually
async def test_pods_come_in_order_each_after_the_one_before_is_ready() -> None:
    async with a_cluster() as cluster:
        told = record(cluster)
        await rolled_out(cluster)
        pods = cluster.pods("db")

    assert told == [f"{name} {what}" for name in NAMES for what in ("comes", "is ready")]
    assert [pod.labels["statefulset.kubernetes.io/pod-name"] for pod in pods] == NAMES
    assert [pod.labels["apps.kubernetes.io/pod-index"] for pod in pods] == ["0", "1", "2"]


@virtually
async def test_pods_go_in_the_opposite_order_one_at_a_time() -> None:
    async with a_cluster() as cluster:
        workload = await rolled_out(cluster)
        told = record(cluster)
        cluster.change(workload, replicas=1)
        await passing(seconds=5)
        after_one = names(cluster)
        await passing(minutes=1)

        assert after_one == ["db-0", "db-1"]
        assert told == ["db-2 goes", "db-1 goes"]
        assert names(cluster) == ["db-0"]


@virtually
async def test_a_name_is_given_again_only_when_its_pod_is_gone() -> None:
    async with a_cluster() as cluster:
        await rolled_out(cluster)
        told = record(cluster)
        cluster.serving.delete_pod(cluster.pods("db")[1])
        await passing(seconds=4)
        waiting = list(told)
        await passing(minutes=1)

        assert waiting == []
        assert told == ["db-1 goes", "db-1 comes", "db-1 is ready"]


@virtually
async def test_a_pod_on_a_lost_node_gets_no_successor() -> None:
    async with a_cluster() as cluster:
        await rolled_out(cluster)
        lost = cluster.pods("db")[0]
        node = cluster.world.nodes.find("", lost.node_name)
        assert node is not None
        cluster.world.nodes.put(replace(node, is_ready=False))
        cluster.serving.delete_pod(lost)
        await passing(hours=1)
        waiting = names(cluster)
        cluster.world.nodes.put(node)
        await passing(minutes=1)

        assert waiting == ["db-1", "db-2"]
        assert names(cluster) == NAMES


@virtually
async def test_a_rollout_goes_from_the_last_to_the_first() -> None:
    async with a_cluster() as cluster:
        workload = await rolled_out(cluster)
        old = {pod.labels["controller-revision-hash"] for pod in cluster.pods("db")}
        told = record(cluster)
        cluster.change(workload, revision=2)
        await passing(minutes=5)
        new = {pod.labels["controller-revision-hash"] for pod in cluster.pods("db")}

        steps = ("goes", "comes", "is ready")
        assert told == [f"{name} {step}" for name in reversed(NAMES) for step in steps]
        assert len(old) == len(new) == 1
        assert old.isdisjoint(new)


@virtually
async def test_nothing_goes_on_while_a_pod_is_not_ready() -> None:
    async with a_cluster() as cluster:
        workload = await rolled_out(cluster)
        first = cluster.pods("db")[0]
        cluster.world.pods.put(structs.replace(first, ready_since=None))
        told = record(cluster)
        cluster.change(workload, replicas=5, revision=2)
        await passing(hours=1)

        assert told == []


@virtually
async def test_a_pod_that_failed_is_taken_away_and_made_again() -> None:
    async with a_cluster() as cluster:
        await rolled_out(cluster)
        failed = structs.replace(cluster.pods("db")[1], phase=PodPhase.FAILED, ready_since=None)
        cluster.world.pods.put(failed)
        await passing(minutes=1)

        assert names(cluster) == NAMES
        assert len(cluster.world.pods) == 3
