from dataclasses import replace
from datetime import timedelta

from simulation.bare_cluster import (
    BareCluster,
    a_cluster,
    a_template,
    a_workload,
    passing,
    virtually,
)

from trimtab.core.model.pods import PodPhase
from trimtab.simulation.world.objects import WorkloadObject


def a_cron_job(*, minutes: int = 5, runs_for: timedelta = timedelta(seconds=30)) -> WorkloadObject:
    template = a_template("tidy", runs_for=runs_for)
    every = timedelta(minutes=minutes)
    return a_workload("CronJob", "tidy", replicas=None, template=template, every=every)


def jobs(cluster: BareCluster) -> list[str]:
    return sorted(job.name for job in cluster.world.workloads_of("Job"))


@virtually
async def test_a_job_comes_at_every_full_interval() -> None:
    async with a_cluster() as cluster:
        await passing(seconds=30)
        stored = cluster.world.add_workload(a_cron_job())
        await passing(minutes=4)
        early = jobs(cluster)
        await passing(minutes=6)
        (first, second) = cluster.world.workloads_of("Job")

    assert early == []
    assert {first.owner, second.owner} == {stored.reference}
    # Named after the minutes since 1970, as the real ones.
    assert int(second.name.removeprefix("tidy-")) - int(first.name.removeprefix("tidy-")) == 5
    assert int(first.name.removeprefix("tidy-")) % 5 == 0


@virtually
async def test_its_pods_carry_the_labels_of_its_template_and_it_has_no_replicas() -> None:
    async with a_cluster() as cluster:
        stored = cluster.world.add_workload(a_cron_job())
        await passing(minutes=5, seconds=10)
        (pod,) = cluster.pods("tidy")

    assert stored.known.replicas is None
    assert stored.selector.matches(pod.labels)
    assert pod.owner is not None
    assert pod.owner.kind == "Job"


@virtually
async def test_only_the_last_few_jobs_are_kept_with_their_pods() -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_cron_job())
        await passing(hours=2, minutes=2)

        assert len(jobs(cluster)) == 3
        assert len(cluster.world.pods) == 3
        assert [pod.phase for pod in cluster.world.pods] == [PodPhase.SUCCEEDED] * 3


@virtually
async def test_a_job_that_is_still_at_work_is_never_taken_away() -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_cron_job(runs_for=timedelta(days=1)))
        await passing(hours=1, minutes=1)

        assert len(cluster.pods("tidy")) == len(jobs(cluster)) == 12


@virtually
async def test_a_job_that_somebody_deleted_does_not_come_back() -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_cron_job(minutes=60))
        await passing(hours=1, minutes=1)
        (job,) = cluster.world.workloads_of("Job")
        cluster.delete(job)
        await passing(minutes=30)

        assert jobs(cluster) == []
        assert len(cluster.world.pods) == 0


@virtually
async def test_a_change_of_the_interval_holds_from_then_on() -> None:
    async with a_cluster() as cluster:
        stored = cluster.world.add_workload(a_cron_job(minutes=60))
        await passing(minutes=1)
        cluster.change(stored, every=timedelta(minutes=10))
        await passing(minutes=20)

        assert len(jobs(cluster)) == 2


@virtually
async def test_a_cron_job_without_an_interval_never_runs() -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(replace(a_cron_job(), every=None))
        await passing(hours=5)

        assert jobs(cluster) == []
