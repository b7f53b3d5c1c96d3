"""Moments at which a check may change its result although nothing happens."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from trimtab.core.guards import disruption_budgets
from trimtab.core.updates import candidate_cache, resize_or_evict
from trimtab.core.updates.candidates import CheckInputs
from trimtab.core.updates.plan_context import PlanContext

_INSTANT: Final = timedelta(microseconds=1)
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)


def list_moments(facts: CheckInputs, context: PlanContext) -> list[datetime]:
    """List the future moments at which a check of the pod may change its result, in order."""
    ends = [
        *(_later(begin, span) for begin, span in _spans(facts, context)),
        *_ends_of_retries(facts, context),
    ]
    # Some spans are over only after their last moment.
    found = {_later(end, extra) for end in ends if end for extra in (timedelta(), _INSTANT)}
    return sorted(each for each in found if each is not None and each > context.now)


def _spans(facts: CheckInputs, context: PlanContext) -> Iterator[tuple[datetime, timedelta]]:
    settings, memory = context.settings, facts.memory
    yield from candidate_cache.spans_of(facts.pod, facts.autoscaler, memory, settings)
    if (since := memory.resize.resize_since) is not None:
        yield since, settings.evict_after_deferred
        yield since, resize_or_evict.IN_PROGRESS_FOR
        yield since, settings.infeasible_retry_after
    if (refused := memory.resize.infeasible) is not None:
        yield refused.at, settings.infeasible_retry_after
    if (denied := memory.resize.denied) is not None:
        yield denied.at, settings.infeasible_retry_after
    owner = disruption_budgets.owner_of(facts.pod)
    if owner is not None and (restarted := context.snapshot.restarted.get(owner)) is not None:
        yield restarted, resize_or_evict.RESTART_GAP
    if (gap := context.snapshot.gaps.get(facts.pod.namespace)) is not None:
        yield gap, timedelta()
    if owner is not None and (least := context.snapshot.min_ready.get(owner)) is not None:
        yield from ((since, least) for since in context.ready_ordinals_of(owner).values())


def _ends_of_retries(facts: CheckInputs, context: PlanContext) -> Iterator[datetime | None]:
    yield facts.memory.eviction.not_before
    stop = context.snapshot.brake.find_stop(facts.workload, facts.pod.namespace)
    yield from () if stop is None else (stop.probe_at, stop.rescue_at)
    if facts.workload is not None:
        record = context.snapshot.convergence.get(facts.workload)
        yield None if record is None else record.not_before


def _later(moment: datetime, span: timedelta) -> datetime | None:
    return moment + span if span <= _END_OF_TIME - moment else None
