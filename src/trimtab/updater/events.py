"""Events about acts, and conditions about holds and missed changes."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from trimtab.api.kinds import events
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Cluster
from trimtab.core.changes.outcomes import Evict, Hold, Outcome, Resize, Unboost
from trimtab.core.guards.degradation import Degradation
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, Condition
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.updates.conditions import has_news, update_conditions
from trimtab.core.updates.failed_changes import FailedChange
from trimtab.updater.actions import ActResult, server_words
from trimtab.updater.queue import Action

_Grounds: TypeAlias = tuple[Autoscaler, Sequence[Outcome], FailedChange | None, Degradation | None]
"""An autoscaler, the outcomes of its pods, its failed change and its degraded workload, if any."""


async def tell_of_act(
    cluster: Cluster,
    task: Action,
    result: ActResult,
    now: datetime,
    *,
    error: ClusterError | None = None,
) -> None:
    """Write the events of an act, with the original's reasons."""
    for event in _events(task, result, now, server_words(error)):
        await cluster.emit(event)


async def tell_of_skips(cluster: Cluster, outcomes: Iterable[Outcome], now: datetime) -> None:
    """Write an event on each pod whose resize is refused, or the end of whose boost has failed."""
    for each in outcomes:
        match each:
            case Hold(reason=HoldReason.RESIZE_INFEASIBLE):
                await cluster.emit(events.resize_skipped(each.pod, now))
            case Hold(reason=HoldReason.RESIZE_DENIED, detail=detail):
                await cluster.emit(events.resize_denied(each.pod, now, detail))
            case Hold(reason=HoldReason.UNBOOST_DELAYED, detail=detail) if detail:
                await cluster.emit(events.unboost_failed(each.pod, now, detail))
            case _:
                pass


class Conditions:
    """Finds the autoscalers whose conditions have to change, and looks only at what is new."""

    def __init__(self, *, max_misses: int) -> None:
        self._max_misses = max_misses
        self._settled: dict[AutoscalerName, _Grounds] = {}
        """Grounds on which an autoscaler was found to have the right conditions."""

    def renew(
        self,
        autoscalers: Iterable[Autoscaler],
        outcomes: Iterable[Outcome],
        misses: Mapping[AutoscalerName, FailedChange],
        stops: Mapping[AutoscalerName, Degradation],
        now: datetime,
    ) -> list[tuple[Autoscaler, tuple[Condition, ...]]]:
        """Return the autoscalers whose conditions have to change, each with its new conditions."""
        by_autoscaler: dict[AutoscalerName | None, list[Outcome]] = defaultdict(list)
        for each in outcomes:
            by_autoscaler[each.autoscaler].append(each)
        before, self._settled = self._settled, {}
        renewed = []
        for autoscaler in autoscalers:
            name = autoscaler.identity
            found = by_autoscaler.get(name, ())
            grounds = autoscaler, found, misses.get(name), stops.get(name)
            # Mostly these are the very same records, so only addresses are compared.
            wanted = None if before.get(name) == grounds else self._find_others(grounds, now)
            if wanted is None:
                self._settled[name] = grounds
            else:
                renewed.append((autoscaler, wanted))
        return renewed

    def _find_others(self, grounds: _Grounds, now: datetime) -> tuple[Condition, ...] | None:
        """Return the conditions that it should have; None if it has them."""
        if not has_news(*grounds):
            return None
        wanted = update_conditions(*grounds, max_misses=self._max_misses, now=now)
        return None if set(wanted) == set(grounds[0].conditions) else wanted


async def publish_all(
    cluster: Cluster,
    renewed: Iterable[tuple[Autoscaler, Sequence[Condition]]],
    *,
    concurrency: int,
    is_late: Callable[[], bool],
) -> int:
    """Write conditions and return the number written; the others wait for the next tick."""
    given = list(renewed)
    remaining = iter(given)
    written = 0

    async def work_off() -> None:
        nonlocal written
        for autoscaler, conditions in remaining:
            if is_late():
                return
            try:
                await cluster.publish_conditions(autoscaler, conditions)
            except ClusterError:
                continue
            written += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(given))):
            group.create_task(work_off())
    return written


def _events(task: Action, result: ActResult, now: datetime, words: str) -> Sequence[events.Event]:
    done = result is ActResult.DONE
    match task.act:
        case Evict(pod=pod, wanted=wanted) if done and task.autoscaler is not None:
            return events.evicted(pod, task.autoscaler, now, wanted)
        case Resize(pod=pod, wanted=wanted) if done:
            return (events.resized(pod, now, wanted),)
        case Unboost(pod=pod, containers=containers, is_reported=True) if done:
            return (events.unboosted(pod, containers, now, task.act.note),)
        case Unboost(pod=pod) if result in (ActResult.REFUSED, ActResult.FAILED):
            return (events.unboost_failed(pod, now, f"the API server answers: {words}"),)
        case _:
            return ()
