"""CronJobs: a Job at every full interval since the epoch, and an end to old ones."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from trimtab.simulation.jobs import has_failed, has_succeeded
from trimtab.simulation.objects import WorkloadObject
from trimtab.simulation.upkeep import Upkeep

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SUCCEEDED_KEPT: Final = 3
_FAILED_KEPT: Final = 1


async def reconcile_cron_job(upkeep: Upkeep, workload: WorkloadObject) -> timedelta | None:
    """Make the Job that is due and forget old ones; how long until the next is due."""
    if workload.every is None:
        return None
    jobs = sorted(upkeep.world.workloads_owned_by(workload.uid), key=lambda job: job.name)
    _forget(upkeep, [job for job in jobs if has_succeeded(job)], _SUCCEEDED_KEPT)
    _forget(upkeep, [job for job in jobs if has_failed(job)], _FAILED_KEPT)
    now = upkeep.world.now()
    due_at = now - (now - _EPOCH) % workload.every
    known_since = workload.last_run_at or workload.created_at or now
    if due_at > known_since:
        # Written down first: whoever makes a Job twice runs somebody's work twice.
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
