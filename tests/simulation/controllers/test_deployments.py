import pytest
from simulation.bare_cluster import (
    BareCluster,
    a_cluster,
    a_template,
    a_workload,
    passing,
    virtually,
)

from trimtab.core.model.pods import Pod
from trimtab.simulation.world.objects import WorkloadObject
from trimtab.simulation.world.tables import TableChange


def sets(cluster: BareCluster) -> list[tuple[int, int | None]]:
    """The revision and the size of each ReplicaSet."""
    found = cluster.world.workloads_of("ReplicaSet")
    return sorted((each.revision, each.replicas) for each in found)


class Census:
    """How few pods were ready, and how many there were, at any moment."""

    def __init__(self, cluster: BareCluster, app: str = "web") -> None:
        self._cluster, self._app = cluster, app
        self.fewest = len(cluster.pods(app))
        self.most = self.fewest
        cluster.world.pods.subscribe(self._count)

    def _count(self, _: TableChange[Pod]) -> None:
        pods = self._cluster.pods(self._app)
        self.fewest = min(self.fewest, sum(pod.ready_since is not None for pod in pods))
        self.most = max(self.most, len(pods))


async def rolled_out(cluster: BareCluster, **fields: object) -> WorkloadObject:
    workload = cluster.world.add_workload(a_workload(**fields))  # type: ignore[arg-type]
    await passing(minutes=1)
    return workload


@virtually
async def test_a_deployment_owns_its_pods_through_a_set_named_after_its_revision() -> None:
    async with a_cluster() as cluster:
        deployment = await rolled_out(cluster)
        (below,) = cluster.world.workloads_of("ReplicaSet")
        pods = cluster.pods("web")

    label = below.name.removeprefix("web-")
    assert below.owner == deployment.reference
    assert below.replicas == len(pods) == 3
    assert {pod.owner for pod in pods} == {below.reference}
    assert all(pod.labels == {"app": "web", "pod-template-hash": label} for pod in pods)
    assert all(below.selector.matches(pod.labels) for pod in pods)
    assert not below.selector.matches({"app": "web"})


@pytest.mark.parametrize("wanted", [0, 2, 5])
@virtually
async def test_a_deployment_that_is_scaled_scales_its_set(wanted: int) -> None:
    async with a_cluster() as cluster:
        deployment = await rolled_out(cluster)
        cluster.change(deployment, replicas=wanted)
        await passing(minutes=1)

        assert len(cluster.pods("web")) == wanted
        assert sets(cluster) == [(1, wanted)]


@pytest.mark.parametrize(
    ("replicas", "max_unavailable"),
    [
        pytest.param(1, 1, id="a single pod"),
        pytest.param(1, 0, id="a single pod that may not be missed"),
        pytest.param(4, 1, id="one after the other"),
        pytest.param(4, 0, id="none may be missing"),
        pytest.param(6, 3, id="many at once"),
    ],
)
@virtually
async def test_a_rollout_never_misses_more_pods_than_it_may(
    replicas: int, max_unavailable: int
) -> None:
    async with a_cluster() as cluster:
        deployment = await rolled_out(cluster, replicas=replicas, max_unavailable=max_unavailable)
        old = {pod.uid for pod in cluster.pods("web")}
        census = Census(cluster)
        cluster.change(deployment, revision=2, template=a_template("web", cpu=200))
        await passing(minutes=5)
        new = cluster.pods("web")

    assert census.fewest >= replicas - max_unavailable
    assert census.most <= replicas + 1
    assert len(new) == replicas
    assert old.isdisjoint(pod.uid for pod in new)
    assert all(pod.containers[0].spec.requests == {"cpu": 200, "memory": 104857600} for pod in new)
    assert sets(cluster) == [(1, 0), (2, replicas)]


@virtually
async def test_a_rollout_that_never_gets_ready_leaves_most_old_pods_alone() -> None:
    async with a_cluster() as cluster:
        deployment = await rolled_out(cluster, replicas=4)
        cluster.kubelet.broken.add("broken")
        cluster.change(deployment, revision=2, template=a_template("broken"))
        await passing(hours=1)

        assert len(cluster.pods("web")) == 3
        assert len(cluster.pods("broken")) == 2
        cluster.change(deployment, revision=3, template=a_template("web"))
        await passing(minutes=5)
        assert sets(cluster) == [(1, 0), (2, 0), (3, 4)]
        assert len(cluster.pods("broken")) == 0


@virtually
async def test_a_deployment_that_is_scaled_down_in_a_rollout_ends_up_right() -> None:
    async with a_cluster() as cluster:
        deployment = await rolled_out(cluster, replicas=6)
        cluster.change(deployment, revision=2)
        await passing(seconds=4)
        cluster.change(deployment, replicas=2)
        await passing(minutes=5)

        assert sets(cluster) == [(1, 0), (2, 2)]
        assert len(cluster.pods("web")) == 2


@virtually
async def test_only_so_many_old_sets_are_kept() -> None:
    async with a_cluster() as cluster:
        deployment = await rolled_out(cluster, replicas=1)
        for revision in range(2, 15):
            cluster.change(deployment, revision=revision)
            await passing(minutes=1)

        assert [revision for revision, _ in sets(cluster)] == list(range(4, 15))


@virtually
async def test_what_is_broken_before_and_after_is_not_swept_away() -> None:
    async with a_cluster() as cluster:
        cluster.kubelet.broken |= {"web", "broken"}
        deployment = await rolled_out(cluster, replicas=4)
        cluster.change(deployment, revision=2, template=a_template("broken"))
        await passing(hours=1)

        assert len(cluster.pods("web")) == 3
        assert len(cluster.pods("broken")) == 2
