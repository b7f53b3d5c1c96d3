from datetime import timedelta

import pytest
from msgspec import structs
from simulation.bare_cluster import (
    BareCluster,
    a_cluster,
    a_template,
    a_workload,
    passing,
    virtually,
)

from trimtab.core.model.pods import Pod, PodPhase
from trimtab.simulation.controllers.jobs import has_failed, has_succeeded
from trimtab.simulation.world.objects import WorkloadObject


def a_job(*, replicas: int = 2, runs_for: timedelta = timedelta(seconds=30)) -> WorkloadObject:
    template = a_template("work", runs_for=runs_for)
    return a_workload("Job", "work", replicas=replicas, template=template)


def job(cluster: BareCluster) -> WorkloadObject:
    found = cluster.world.workloads_of("Job").find("default", "work")
    assert found is not None
    return found


def fail(cluster: BareCluster, pod: Pod) -> None:
    cluster.world.pods.put(structs.replace(pod, phase=PodPhase.FAILED, ready_since=None))


@virtually
async def test_a_job_is_done_when_all_its_pods_have_succeeded() -> None:
    async with a_cluster() as cluster:
        stored = cluster.world.add_workload(a_job())
        await passing(minutes=10)
        pods = list(cluster.world.pods)

        assert has_succeeded(job(cluster))
        assert [pod.phase for pod in pods] == [PodPhase.SUCCEEDED] * 2
        assert {pod.owner for pod in pods} == {stored.reference}
        assert set(job(cluster).succeeded) == {pod.uid for pod in pods}


@virtually
async def test_a_job_selects_its_pods_by_an_identity_of_its_own() -> None:
    async with a_cluster() as cluster:
        stored = cluster.world.add_workload(a_job())
        await passing(seconds=10)
        pods = cluster.pods("work")

    assert all(stored.selector.matches(pod.labels) for pod in pods)
    assert not stored.selector.matches({"app": "work"})
    assert stored.known.replicas is None
    assert stored.reference.api_version == "batch/v1"


@pytest.mark.parametrize("is_deleted", [True, False])
@virtually
async def test_a_pod_that_does_not_get_done_is_replaced_after_a_while(*, is_deleted: bool) -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_job(replicas=1))
        await passing(seconds=10)
        (pod,) = cluster.pods("work")
        if is_deleted:
            cluster.serving.delete_pod(pod)
        else:
            fail(cluster, pod)
        await passing(seconds=8)
        waiting = cluster.pods("work")
        await passing(minutes=2)

        assert waiting == []
        assert has_succeeded(job(cluster))
        assert job(cluster).failed == (pod.uid,)


@virtually
async def test_each_failure_doubles_the_while_until_the_job_gives_up() -> None:
    waits = []
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_job(replicas=1, runs_for=timedelta(hours=1)))
        for _ in range(7):
            await passing(seconds=10)
            (pod,) = cluster.pods("work")
            fail(cluster, pod)
            began = cluster.world.now()
            while not cluster.pods("work") and not has_failed(job(cluster)):
                await passing(seconds=1)
            waits.append(round((cluster.world.now() - began) / timedelta(seconds=10)))
        await passing(hours=1)

        assert waits == [1, 2, 4, 8, 16, 32, 0]
        assert cluster.pods("work") == []


@virtually
async def test_a_job_that_gave_up_ends_what_still_runs() -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_job(replicas=8, runs_for=timedelta(hours=1)))
        await passing(seconds=10)
        for pod in cluster.pods("work")[:7]:
            fail(cluster, pod)
        await passing(minutes=1)

        assert len(job(cluster).failed) == 7
        assert cluster.pods("work") == []


@virtually
async def test_pods_that_were_counted_still_count_when_they_are_gone() -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_job())
        await passing(minutes=1)
        for pod in cluster.world.pods:
            cluster.serving.delete_pod(pod)
        await passing(hours=1)

        assert len(cluster.world.pods) == 0
        assert has_succeeded(job(cluster))
