"""Jobs: a number of pods that each have to succeed once.

A pod that fails, or is deleted before it is done, is replaced after a back-off that doubles each
time. After six failures one more ends the Job. The record of a Job holds all counts, so deleted
pods still count.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from trimtab.core.model.pods import Pod, PodPhase
from trimtab.simulation.controllers.replicas import Upkeep
from trimtab.simulation.world.objects import WorkloadObject

_BACKOFF: Final = timedelta(seconds=10)
_LONGEST_BACKOFF: Final = timedelta(minutes=10)
_FAILURES_ALLOWED: Final = 6


async def reconcile_job(upkeep: Upkeep, workload: WorkloadObject) -> timedelta | None:
    """Count ended pods and create missing ones; return the back-off to wait for first."""
    job = _counted(upkeep, workload)
    live = upkeep.live_pods(job)
    if has_succeeded(job) or has_failed(job):
        upkeep.delete(live)
        return None
    missing = _completions(job) - len(job.succeeded) - len(live)
    if missing <= 0:
        return None
    now = upkeep.world.now()
    if job.retry_at is not None and now < job.retry_at:
        return job.retry_at - now
    await upkeep.create(job, [upkeep.plan_random(job, job.template) for _ in range(missing)])
    return None


def has_succeeded(job: WorkloadObject) -> bool:
    """Return True if a Job is done."""
    return len(job.succeeded) >= _completions(job)


def has_failed(job: WorkloadObject) -> bool:
    """Return True if a Job has failed for good."""
    return len(job.failed) > _FAILURES_ALLOWED


def _completions(job: WorkloadObject) -> int:
    return 1 if job.replicas is None else job.replicas


def _counted(upkeep: Upkeep, job: WorkloadObject) -> WorkloadObject:
    """Return the Job with the pods counted that have ended since the last call."""
    if has_succeeded(job) or has_failed(job):
        return job
    known = {*job.succeeded, *job.failed}
    ended = [pod for pod in upkeep.pods(job) if pod.uid not in known]
    succeeded = [pod.uid for pod in ended if pod.phase is PodPhase.SUCCEEDED]
    failed = [pod.uid for pod in ended if _is_lost(pod)]
    retry_at = job.retry_at
    if failed:
        doubled = _BACKOFF * 2 ** min(len(job.failed) + len(failed) - 1, _FAILURES_ALLOWED)
        retry_at = upkeep.world.now() + min(doubled, _LONGEST_BACKOFF)
    counted = replace(
        job,
        succeeded=(*job.succeeded, *succeeded),
        failed=(*job.failed, *failed),
        retry_at=retry_at,
    )
    upkeep.store(counted)
    return counted


def _is_lost(pod: Pod) -> bool:
    return pod.phase is PodPhase.FAILED or (pod.is_deleting and pod.phase is not PodPhase.SUCCEEDED)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SUCCEEDED_KEPT: Final = 3
_FAILED_KEPT: Final = 1


async def reconcile_cron_job(upkeep: Upkeep, workload: WorkloadObject) -> timedelta | None:
    """Create a due Job and delete old ones; return the time until the next is due."""
    if workload.every is None:
        return None
    jobs = sorted(upkeep.world.workloads_owned_by(workload.uid), key=lambda job: job.name)
    _forget(upkeep, [job for job in jobs if has_succeeded(job)], _SUCCEEDED_KEPT)
    _forget(upkeep, [job for job in jobs if has_failed(job)], _FAILED_KEPT)
    now = upkeep.world.now()
    due_at = now - (now - _EPOCH) % workload.every
    known_since = workload.last_run_at or workload.created_at or now
    if due_at > known_since:
        # Stored first: a Job that is created twice runs its work twice.
        upkeep.store(replace(workload, last_run_at=due_at))
        upkeep.world.add_workload(_job(workload, due_at))
    return due_at + workload.every - now


def _job(workload: WorkloadObject, due_at: datetime) -> WorkloadObject:
    minutes = int((due_at - _EPOCH) / timedelta(minutes=1))
    return WorkloadObject(
        namespace=workload.namespace,
        kind="Job",
        name=f"{workload.name}-{minutes}",
        template=workload.template,
        selector=workload.selector,
        owner=workload.reference,
        replicas=workload.replicas,
    )


def _forget(upkeep: Upkeep, ended: list[WorkloadObject], kept: int) -> None:
    for job in ended[:-kept]:
        upkeep.world.workloads_of(job.kind).delete(job.namespace, job.name)
