"""The actor: takes tasks from the agenda at their pace, checks them again, acts, and remembers."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from trimtab.cluster.errors import BudgetError, ClusterError, TooManyRequestsError
from trimtab.cluster.ports import NO_TRACES, Clock, Cluster, Tracer
from trimtab.core.changes.outcomes import Act, Evict, Hold, Outcome, Resize, Unboost
from trimtab.core.guards import convergence, degradation, disruption_budgets
from trimtab.core.guards.eviction_brake import LACKS_AFTER
from trimtab.core.model import autoscalers
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Pod
from trimtab.core.updates import pod_history, resize_or_evict
from trimtab.core.updates.resize_or_evict import Restart
from trimtab.updater.actions import ActResult, carry_out, is_denial, server_words
from trimtab.updater.events import tell_of_act
from trimtab.updater.pod_owners import owner_key
from trimtab.updater.queue import Action, ActionLane, ActionQueue
from trimtab.updater.reports import Acted, ActionOutcome, HeldWhileActing, ReportSink, tell_nobody
from trimtab.updater.settings import UpdaterSettings
from trimtab.updater.state import UpdaterMemory

_logger: Final = logging.getLogger(__name__)
_SENT: Final = frozenset({ActResult.DONE, ActResult.UNKNOWN})
_MOST_WORDS: Final = 512
"""Maximum number of characters that are kept of the API server's message."""
_BUSY_FOR: Final = timedelta(seconds=1)
"""Pause for a server that does not say how long to wait."""


@dataclass(frozen=True, slots=True)
class ActorHooks:
    """Permission for acts, and callbacks after them."""

    may_act: Callable[[], bool]
    look_again: Callable[[Pod], None]
    """Called if the pod differs from what the plan was made for."""
    look_later: Callable[[Pod, datetime], None]
    """Called with the time at which the successor of the pod should exist."""
    tell: ReportSink = tell_nobody
    tracer: Tracer = NO_TRACES


class Actor:
    """Carries out the tasks of the agenda."""

    def __init__(
        self,
        cluster: Cluster,
        agenda: ActionQueue,
        memory: UpdaterMemory,
        *,
        settings: UpdaterSettings,
        clock: Clock,
        superior: ActorHooks,
    ) -> None:
        self._cluster = cluster
        self._agenda = agenda
        self._memory = memory
        self._settings = settings
        self._clock = clock
        self._superior = superior
        self._is_draining = False
        self._slots = asyncio.Semaphore(settings.concurrency)
        self.deeds: Counter[ActionOutcome] = Counter()
        """Numbers of acts by kind and result, since the last tick began."""
        self.held: dict[str, Outcome] = {}
        """Holds that came up while acting, by the uid of the pod."""

    async def work_off(
        self, lane: ActionLane, group: asyncio.TaskGroup, until: datetime | None = None
    ) -> None:
        """Begin tasks of the lane as they become due: up to a moment, or for ever."""
        while until is None or lane:
            await lane.filled()
            now = self._clock.now()
            wait = lane.time_to_next(now)
            if not wait:
                await self._begin_next(lane, group)
            elif until is not None and now + wait > until:
                return
            else:
                await self._clock.sleep(wait)

    async def drain(self) -> None:
        """Begin nothing more, and return when everything that was begun has been answered."""
        self._is_draining = True
        for _ in range(self._settings.concurrency):
            await self._slots.acquire()

    async def _begin_next(self, lane: ActionLane, group: asyncio.TaskGroup) -> None:
        await self._slots.acquire()
        # A turn may have replaced all tasks while there was no slot.
        task = lane.take() if lane else None
        objection = None if task is None else self._objection(task)
        if task is None or objection is not None:
            self._slots.release()
            if task is not None and objection is not None:
                self._count(task, objection)
            return
        lane.count_begun(task)
        self._memory.under_way.add(task.act.pod.uid)
        if isinstance(task.act, Evict):
            # Before it is sent: its effect is not known until the view shows it.
            self._memory.evicted[task.act.pod.uid] = self._clock.now()
        elif _restarts_ready_pod(task.act):
            restart = Restart(task.act.pod, self._clock.now())
            self._memory.last_restarts[task.act.pod.namespace] = restart
        group.create_task(self._carry_out(lane, task))

    def _objection(self, task: Action) -> ActResult | None:
        """Return the reason against an act that was planned a while ago; None if it may begin."""
        planned = task.act.pod
        if self._is_draining or not self._superior.may_act() or self._is_withdrawn(task):
            return ActResult.WITHDRAWN
        if isinstance(task.act, Evict) and not self._memory.brake().may_evict(
            task.workload, planned.namespace, self._clock.now(), is_rescue=True
        ):
            # Earlier evictions turned out to lack successors since it was planned.
            return ActResult.WITHDRAWN
        pod = self._cluster.pods.find(planned.namespace, planned.name)
        if pod is None or pod.uid != planned.uid or pod.is_deleting:
            return ActResult.OUTDATED
        if pod.uid in self._memory.under_way or pod.uid in self._memory.evicted:
            # A turn came between the act and its effect, and planned it again.
            return ActResult.OUTDATED
        if pod.resource_version != planned.resource_version or self._comes_too_soon(task):
            self._superior.look_again(pod)
            return ActResult.OUTDATED
        return None

    def _comes_too_soon(self, task: Action) -> bool:
        """Return True if another pod of the namespace was restarted since the act was planned.

        The end of a boost is exempt: the plan alone delays it.
        """
        act = task.act
        takes_ready_pod = act.pod.ready_since is not None and (
            isinstance(act, Evict) or _restarts_ready_pod(act)
        )
        if isinstance(act, Unboost) or not takes_ready_pod:
            return False
        gaps = self._memory.restart_gaps(self._cluster.pods.find, self._clock.now())
        return act.pod.namespace in gaps

    def _is_withdrawn(self, task: Action) -> bool:
        """True if its autoscaler was edited or deleted, or it or the namespace is paused."""
        autoscaler = task.autoscaler
        namespace = self._cluster.namespaces.find("", task.act.pod.namespace)
        if namespace is not None and namespace.is_paused:
            return True
        if autoscaler is None:
            return False
        found = self._cluster.autoscalers.find(autoscaler.namespace, autoscaler.name)
        same = found is not None and (found.uid, found.generation) == (
            autoscaler.uid,
            autoscaler.generation,
        )
        return not same or found is None or autoscalers.is_paused(found)

    async def _carry_out(self, lane: ActionLane, task: Action) -> None:
        try:
            result, error = await self._send(task.act)
            now = self._clock.now()
            self._count(task, result, error)
            remember(self._memory, task, result, now, error=error)
            self._react(lane, task, result, error)
            if isinstance(task.act, Evict) and result in _SENT:
                self._superior.look_later(task.act.pod, now + LACKS_AFTER)
            await tell_of_act(self._cluster, task, result, now, error=error)
        except Exception:
            # One malformed object must not stop all the others for ever.
            _logger.exception("act failed")
            self._count(task, ActResult.FAILED)
        finally:
            self._memory.under_way.discard(task.act.pod.uid)
            self._slots.release()

    async def _send(self, act: Act) -> tuple[ActResult, ClusterError | None]:
        about = {
            "trimtab.act": type(act).__name__,
            "k8s.namespace.name": act.pod.namespace,
            "k8s.pod.name": act.pod.name,
        }
        with self._superior.tracer.span("act", about) as span:
            result, error = await carry_out(self._cluster, act)
            span.note("trimtab.result", result.value)
            return result, error

    def _react(
        self, lane: ActionLane, task: Action, result: ActResult, error: ClusterError | None
    ) -> None:
        now = self._clock.now()
        match result:
            case ActResult.PROTECTED:
                self._hold_protected(task, error)
            case ActResult.BUSY:
                lane.close_until(now + _time_to_wait(error))
                lane.put_back(task)
            case ActResult.UNKNOWN:
                lane.close_until(now + _BUSY_FOR)
            case _:
                pass
        if isinstance(task.act, Unboost) and result not in (ActResult.DONE, ActResult.OUTDATED):
            # The plan must show it, and set the time of the next attempt. A late view would
            # only lead to the same plan once more.
            self._superior.look_again(task.act.pod)

    def _hold_protected(self, task: Action, error: ClusterError | None) -> None:
        """Hold all pods of the owner: a budget that protects one usually protects its siblings."""
        now = self._clock.now()
        # An answer other than that of a budget says what to mend.
        words = "" if isinstance(error, BudgetError) else server_words(error)[:_MOST_WORDS]
        owner = owner_key(task.act.pod)
        siblings = self._agenda.evictions.take_where(
            lambda other: owner_key(other.act.pod) == owner
        )
        acts = [each.act for each in (task, *siblings)]
        until = now + self._settings.interval / 2
        protected = partial(pod_history.after_protection, until=until)
        reason = HoldReason.POD_DISRUPTION_BUDGET
        holds = [Hold(act.pod, act.autoscaler, reason, withheld=act, detail=words) for act in acts]
        for hold in holds:
            self._memory.amend(hold.pod, hold.autoscaler, protected)
            self.held[hold.pod.uid] = hold
        self._superior.tell(HeldWhileActing(now, holds))

    def _count(self, task: Action, result: ActResult, error: ClusterError | None = None) -> None:
        self.deeds[ActionOutcome(type(task.act).__name__, result)] += 1
        self._superior.tell(Acted(self._clock.now(), task, result, error))


def remember(
    memory: UpdaterMemory,
    task: Action,
    result: ActResult,
    now: datetime,
    *,
    error: ClusterError | None = None,
) -> None:
    """Remember the result of the task."""
    act = task.act
    _note_restart(memory, act, result, now)
    match act:
        case Evict():
            _note_eviction(memory, act, result, now)
        case Resize():
            _note_resize(memory, act, result, now, error=error)
        case Unboost():
            _note_unboost(memory, act, result, now, error=error)
    if task.workload is not None and result in _SENT:
        memory.forget_standing(task.workload, act.pod)
    if not isinstance(act, Unboost) and result in _SENT:
        _expect(memory, task, act, now, is_answered=result is ActResult.DONE)
        _note_change(memory, task, act, now)


def _note_eviction(memory: UpdaterMemory, act: Evict, result: ActResult, now: datetime) -> None:
    if result not in _SENT:
        memory.evicted.pop(act.pod.uid, None)
        return
    memory.last_evicted[act.pod.namespace] = now
    if (owner := disruption_budgets.owner_of(act.pod)) is not None:
        memory.disturbed[owner] = now


def _note_resize(
    memory: UpdaterMemory,
    act: Resize,
    result: ActResult,
    now: datetime,
    *,
    error: ClusterError | None,
) -> None:
    match result:
        case ActResult.DONE:
            change = partial(pod_history.after_resize, pod=act.pod, now=now, wanted=act.wanted)
        case ActResult.UNKNOWN:
            change = partial(pod_history.after_silence, pod=act.pod, now=now, wanted=act.wanted)
        case ActResult.REFUSED if is_denial(error):
            words = f"the API server answers: {server_words(error)[:_MOST_WORDS]}"
            change = partial(pod_history.after_denial, wanted=act.wanted, now=now, words=words)
        case ActResult.REFUSED:
            change = partial(pod_history.after_refusal, wanted=act.wanted, now=now)
        case _:
            return
    memory.amend(act.pod, act.autoscaler, change)


def _note_unboost(
    memory: UpdaterMemory,
    act: Unboost,
    result: ActResult,
    now: datetime,
    *,
    error: ClusterError | None,
) -> None:
    match result:
        case ActResult.DONE:
            change = partial(pod_history.after_unboost, act=act, now=now)
        case ActResult.UNKNOWN:
            change = partial(pod_history.after_silent_unboost, act=act, now=now)
        case ActResult.OUTDATED:
            return
        case _:
            words = server_words(error) or result.value
            change = partial(pod_history.after_failed_unboost, now=now, error=words)
    memory.amend(act.pod, act.autoscaler, change)


def _note_restart(memory: UpdaterMemory, act: Act, result: ActResult, now: datetime) -> None:
    restarts = not isinstance(act, Evict) and resize_or_evict.restarts_containers(
        act.pod, act.wanted
    )
    last = memory.last_restarts.get(act.pod.namespace)
    if restarts and result not in _SENT and last is not None and last.pod.uid == act.pod.uid:
        del memory.last_restarts[act.pod.namespace]
    if restarts and result in _SENT and (owner := disruption_budgets.owner_of(act.pod)) is not None:
        memory.restarted[owner] = now


def _restarts_ready_pod(act: Act) -> bool:
    if isinstance(act, Evict) or act.pod.ready_since is None:
        return False
    return resize_or_evict.restarts_containers(act.pod, act.wanted)


def _note_change(memory: UpdaterMemory, task: Action, act: Evict | Resize, now: datetime) -> None:
    if task.workload is not None:
        record = degradation.after_change(
            memory.changed.get(task.workload),
            autoscaler=act.autoscaler,
            generation=None if task.autoscaler is None else task.autoscaler.generation,
            ready=task.ready,
            now=now,
        )
        memory.note_change(task.workload, record)


def _expect(
    memory: UpdaterMemory, task: Action, act: Evict | Resize, now: datetime, *, is_answered: bool
) -> None:
    if task.workload is not None:
        expectation = convergence.expect(act, task.workload, task.known, now)
        if expectation is not None:
            memory.expect(replace(expectation, is_answered=is_answered))


def _time_to_wait(error: ClusterError | None) -> timedelta:
    asked = error.retry_after if isinstance(error, TooManyRequestsError) else None
    return asked or _BUSY_FOR
