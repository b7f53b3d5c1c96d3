"""Jobs: so many pods that have to succeed, once.

A pod that fails, or is taken away before it is done, is replaced after a while that doubles each
time; after six of them one more ends the Job. Everything a Job has counted is in its record, so
that pods which are gone still count.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from trimtab.core.pods import Pod, PodPhase
from trimtab.simulation.objects import WorkloadObject
from trimtab.simulation.upkeep import Upkeep

_BACKOFF: Final = timedelta(seconds=10)
_LONGEST_BACKOFF: Final = timedelta(minutes=10)
_FAILURES_ALLOWED: Final = 6


async def reconcile_job(upkeep: Upkeep, workload: WorkloadObject) -> timedelta | None:
    """Count what has ended and make what is missing; how long to wait first, if at all."""
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
    """Whether a Job is done."""
    return len(job.succeeded) >= _completions(job)


def has_failed(job: WorkloadObject) -> bool:
    """Whether a Job has given up."""
    return len(job.failed) > _FAILURES_ALLOWED


def _completions(job: WorkloadObject) -> int:
    return 1 if job.replicas is None else job.replicas


def _counted(upkeep: Upkeep, job: WorkloadObject) -> WorkloadObject:
    """The Job with all pods counted that have ended since the last look."""
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
