"""The updater: observe, plan, act, remember and report, every minute and at urgent changes.

A turn plans everything or a part, and puts the acts on an agenda, from which the actor takes them
at the permitted pace. Turns never overlap, acts may. An act that was sent and does not show yet is
remembered and counts as done.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.cluster.ports import NO_TRACES, Clock, Cluster, Tracer
from trimtab.core.changes.outcomes import Evict, Hold, Outcome
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Pod
from trimtab.core.updates import plan
from trimtab.updater import events
from trimtab.updater.actor import Actor, ActorHooks
from trimtab.updater.admission_liveness import AdmissionLiveness
from trimtab.updater.last_plan import LastPlan, Look
from trimtab.updater.observe import Observation, Observer
from trimtab.updater.pod_watch import Alarms, PodWatch
from trimtab.updater.queue import Action, ActionQueue
from trimtab.updater.reports import (
    PlanMade,
    ReportSink,
    Stopwatch,
    TickFailed,
    TickReport,
    TickStep,
    ViewNotReady,
    count_holds,
    count_kinds,
    tell_nobody,
)
from trimtab.updater.settings import UpdaterSettings
from trimtab.updater.state import UpdaterMemory

_logger: Final = logging.getLogger(__name__)
_UNTIL_NEXT_LOOK: Final = timedelta(milliseconds=200)
"""Interval of looks while the cluster has not been seen as a whole."""
_SHARE_WHILE_ACTING: Final = 0.25
"""Share of the requests in flight that conditions may use while acts wait."""


def _always() -> bool:
    return True


class Updater:
    """Brings running pods to their recommendation, or reports why not."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        settings: UpdaterSettings,
        clock: Clock,
        may_act: Callable[[], bool] = _always,
        tell: ReportSink = tell_nobody,
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._memory = UpdaterMemory()
        self._observer = Observer(cluster, settings, self._memory)
        self._admission = AdmissionLiveness(cluster, settings, clock)
        self._watch = PodWatch(self._observer, self._note_pod)
        self._agenda = ActionQueue(settings.pace, clock.now(), self._memory)
        self._successor_alarms = Alarms(clock, self._look_for_successor)
        self._may_act = may_act
        self._tell_news = tell
        self._tracer = tracer
        self._actor = Actor(
            cluster,
            self._agenda,
            self._memory,
            settings=settings,
            clock=clock,
            superior=ActorHooks(
                may_act, self._watch.mark, self._successor_alarms.set_one, tell, tracer
            ),
        )
        self._alarms = Alarms(clock, self._watch.mark)
        self._planner = plan.Planner(settings.plan)
        self._conditions = events.Conditions(max_misses=settings.plan.max_misses)
        self._turn = asyncio.Lock()
        self._last_plan = LastPlan()
        self._last_look: Look | None = None
        self._planned = TickReport(clock.now(), is_blind=True)

    @property
    def last_plan(self) -> Collection[Outcome]:
        """The outcome of each pod in the last plans, with the holds that came up since."""
        return tuple({**self._last_plan.outcomes, **self._actor.held}.values())

    @property
    def last_look(self) -> Look | None:
        """The last plan of all pods, with the present memory and the holds that came up since.

        None before the first.
        """
        if self._last_look is None:
            return None
        snapshot, planned, at = self._last_look
        outcomes = {each.pod.uid: each for each in planned} | self._actor.held
        memory = self._memory.of_all()
        return Look(replace(snapshot, pod_memory=memory), list(outcomes.values()), at)

    @property
    def report(self) -> TickReport:
        """The last tick in numbers, with all acts since it began."""
        return replace(self._planned, acted=dict(self._actor.deeds), waiting=len(self._agenda))

    def count_waiting(self) -> Mapping[str, int]:
        """Return by namespace the number of acts that are planned and not begun."""
        return self._agenda.count_by_namespace()

    async def run(self) -> None:
        """Tick at once and at every interval, and plan changes in between, for ever."""
        self._agenda.fill(())
        # Another process may have led and acted since this one last did.
        self._memory.begin_anew()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.follow(self._cluster.pods))
            group.create_task(self._tick_forever())
            group.create_task(self._plan_changes())
            group.create_task(self._alarms.run())
            group.create_task(self._successor_alarms.run())
            for lane in self._agenda.lanes:
                group.create_task(self._actor.work_off(lane, group))

    async def drain(self) -> None:
        """Begin nothing more, and return when everything that was begun has been answered."""
        await self._actor.drain()

    async def tick(self) -> TickReport:
        """Plan everything, and do what the pace allows until the next tick would be due."""
        until = self._clock.now() + self._settings.interval
        await self._plan_all()
        async with asyncio.TaskGroup() as group:
            for lane in self._agenda.lanes:
                group.create_task(self._actor.work_off(lane, group, until))
        await self._tell()
        return self.report

    def _note_pod(self, pod: Pod) -> None:
        self._memory.note_pod(pod, self._clock.now())

    def _look_for_successor(self, evicted: Pod) -> None:
        if self._observer.is_watched(evicted):
            self._watch.mark(evicted)

    async def _tick_forever(self) -> None:
        interval = self._settings.interval
        while True:
            due = self._clock.now() + interval
            was_blind = self._is_blind()
            await self._guard("tick", self._plan_all)
            if was_blind:
                await self._wait_for_sight(due)
                continue
            await self._wait_to_tell(due)
            await self._guard("tell", self._tell)
            await self._clock.sleep(max(due - self._clock.now(), timedelta()))

    async def _wait_for_sight(self, due: datetime) -> None:
        """After a blind tick, return when the cluster is seen or the next tick is due."""
        while self._is_blind() and self._clock.now() < due:
            await self._clock.sleep(_UNTIL_NEXT_LOOK)

    async def _wait_to_tell(self, due: datetime) -> None:
        """Return when the first acts are answered, and all of them where no pace spreads them out.

        Without a pace acts and conditions would compete for the API server, and most conditions
        would be outdated soon after they are written.
        """
        patience = min(self._settings.telling_after, self._settings.interval)
        await self._clock.sleep(patience)
        while not self._settings.pace.is_limited and self._agenda:
            if self._clock.now() + patience >= due:
                return
            await self._clock.sleep(patience)

    async def _plan_changes(self) -> None:
        while True:
            await self._watch.changed()
            await self._clock.sleep(self._settings.gathering)
            await self._guard("turn", self._plan_part)

    async def _plan_all(self) -> None:
        async with self._turn:
            watch = Stopwatch(self._clock)
            now = watch.begun_at
            self._actor.deeds.clear()
            self._watch.take_changed()
            if self._is_blind():
                self._planned = TickReport(now, is_blind=True)
                self._tell_news(ViewNotReady(now))
                return
            absence = await self._admission.find_absence()
            alive = absence is None
            watch.end(TickStep.LOOK_FOR_ADMISSION)
            seen = await self._observer.observe(now, admission_alive=alive)
            self._memory.forget_others(seen.workloads)
            watch.end(TickStep.OBSERVE)
            outcomes = self._plan(seen, now)
            watch.end(TickStep.PLAN)
            self._watch.remember(each.pod for each in seen.snapshot.pods)
            self._last_plan.replace_all(outcomes)
            self._last_look = Look(seen.snapshot, outcomes, now)
            self._actor.held.clear()
            self._agenda.fill(_tasks(outcomes, seen))
            self._alarms.set_for(outcomes)
            self._learn(outcomes, now, alive=alive)
            watch.end(TickStep.FILL_AGENDA)
            made = PlanMade(now, outcomes, seen.autoscalers, is_all=True, spans=watch.spans)
            self._tell_news(replace(made, absence=absence))

    async def _plan_part(self) -> None:
        async with self._turn:
            changed = self._watch.take_changed()
            if not changed or self._is_blind():
                return
            now = self._clock.now()
            alive = await self._admission.is_alive()
            restarting = frozenset(self._memory.last_restarts)
            seen = await self._observer.observe_part(changed, now, admission_alive=alive)
            outcomes = self._plan(seen, now)
            self._last_plan.replace_part(outcomes, seen.owners)
            self._agenda.fill(_tasks(outcomes, seen), seen.owners)
            for namespace in sorted(restarting.difference(self._memory.last_restarts)):
                self._alarms.ring_early(namespace)
            self._alarms.set_for(outcomes)
            self._tell_news(PlanMade(now, outcomes, seen.autoscalers, is_all=False))

    def _plan(self, seen: Observation, now: datetime) -> list[Outcome]:
        with self._tracer.span("plan", {"trimtab.pods": len(seen.snapshot.pods)}):
            return self._plan_with_memory(seen, now)

    def _plan_with_memory(self, seen: Observation, now: datetime) -> list[Outcome]:
        snapshot = seen.snapshot
        # A new governor must not shrink a pod yet, so the plan has to know of it.
        if self._memory.recall(self._planner.match(snapshot), now):
            memory = self._memory.of_pods(seen.workloads)
            snapshot = replace(snapshot, pod_memory=memory)
        return self._planner.plan(snapshot, now)

    def _is_blind(self) -> bool:
        """True if the view of the cluster is too old to act on, or not complete yet."""
        age = self._cluster.age()
        return age is None or age > self._settings.max_view_age

    def _learn(self, outcomes: Collection[Outcome], now: datetime, *, alive: bool) -> None:
        held = count_holds(outcomes)
        surging = frozenset(
            each.pod.namespace
            for each in outcomes
            if isinstance(each, Hold) and each.reason is HoldReason.SURGE
        )
        self._memory.learn_shares(self._planner.count_wishes(outcomes), surging, now)
        self._planned = TickReport(
            now,
            is_admission_alive=alive,
            planned=count_kinds(outcomes),
            held=held,
            surging=surging,
        )

    async def _guard(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            with self._tracer.span(name):
                await work()
        except Exception as error:
            # One malformed object must not stop all the others for ever.
            _logger.exception("turn failed")
            self._tell_news(TickFailed(self._clock.now(), error))

    async def _tell(self) -> None:
        if not self._may_act() or self._planned.is_blind:
            return
        now, outcomes, settings = self._clock.now(), self.last_plan, self._settings
        await events.tell_of_skips(self._cluster, outcomes, now)
        renewed = self._conditions.renew(
            self._observer.autoscalers(),
            outcomes,
            self._memory.misses_by_autoscaler(),
            self._memory.stops_by_autoscaler(settings.plan.degraded_after, now),
            now,
        )
        # While acts wait they keep most of what the API server can take. The next tick may not
        # wait for all conditions to be written.
        share = _SHARE_WHILE_ACTING if self._agenda else 1.0
        await events.publish_all(
            self._cluster,
            renewed,
            concurrency=math.ceil(share * settings.concurrency),
            is_late=lambda: self._clock.now() >= now + settings.interval,
        )


def _tasks(outcomes: Iterable[Outcome], seen: Observation) -> list[Action]:
    """Return the acts among the outcomes, with what is needed to carry them out and review them."""
    acts = [each for each in outcomes if not isinstance(each, Hold)]
    evicting = {seen.workloads[act.pod.uid] for act in acts if isinstance(act, Evict)}
    members = seen.members({workload for workload in evicting if workload is not None})
    ready = seen.ready({seen.workloads[act.pod.uid] for act in acts})
    tasks = []
    for act in acts:
        workload = seen.workloads[act.pod.uid]
        tasks.append(
            Action(
                act,
                None if act.autoscaler is None else seen.autoscalers[act.autoscaler],
                workload,
                frozenset() if workload is None else members.get(workload, frozenset()),
                ready[workload],
            )
        )
    return tasks
