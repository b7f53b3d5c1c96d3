"""The recommender's control loop: ticks that observe, learn, recommend and save.

The first tick runs at once. A failed tick is recorded, and the next one runs as usual. Learned data
stays in memory when `run` ends, so that `run` can be called again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, TypeVar

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import (
    NO_TRACES,
    Clock,
    Cluster,
    HistorySource,
    PressureSource,
    Tracer,
    UsageSource,
)
from trimtab.core.model.pods import Pod
from trimtab.core.usage import retention
from trimtab.core.usage.containers import PodName
from trimtab.recommender import load_pressure
from trimtab.recommender.checkpoints import CheckpointKeeper
from trimtab.recommender.load_cluster import (
    AutoscalerLoader,
    delete_removed_pods,
    load_nodes,
    load_pods,
)
from trimtab.recommender.load_history import HistoryKeeper
from trimtab.recommender.load_pressure import PressureKeeper
from trimtab.recommender.load_usage import count_oom_kills, take_in_usage
from trimtab.recommender.publish import publish
from trimtab.recommender.reports import Problem, Step, TickReport, TickResult
from trimtab.recommender.restore import CheckpointRestorer
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.state import RecommenderState
from trimtab.recommender.writes import Writers

_logger: Final = logging.getLogger(__name__)

RecordT = TypeVar("RecordT")

NOT_LISTED_YET: Final = timedelta(milliseconds=200)
"""Pause between attempts while the cluster has not been listed as a whole."""
OLDEST_VIEW: Final = timedelta(minutes=3)
"""Age that a live view of the cluster never reaches, however quiet the cluster is."""
MOST_TOLD: Final = 20
"""Maximum number of usage problems reported per tick; further ones are alike."""
LAST_WRITERS: Final = 50
"""Minimum number of concurrent writes when everything is saved before the process ends."""
WATCH_ANEW: Final = timedelta(seconds=10)
"""Pause before a watch that ended is started again (the original's value)."""


class Recommender:
    """Learns from usage, and publishes recommendations for every autoscaler that it serves."""

    def __init__(
        self,
        cluster: Cluster,
        usage: UsageSource,
        *,
        settings: RecommenderSettings,
        clock: Clock,
        history: HistorySource | None = None,
        report: Callable[[TickResult], None] | None = None,
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self._cluster = cluster
        self._source = usage
        self._settings = settings
        self._clock = clock
        self._state = RecommenderState(settings)
        self._loader = AutoscalerLoader(
            cluster.autoscalers, cluster.owners, settings, checkpoints=cluster.checkpoints
        )
        self._checkpoints = CheckpointKeeper(cluster, settings)
        self._restorer = CheckpointRestorer(cluster, settings)
        self._history = None if history is None else HistoryKeeper(history, clock, settings.history)
        self._pressure: PressureKeeper | None = None
        self._has_taken_up = True
        """True once it was checked what other leaders learned before this process led."""
        self._orphans_sought_at: datetime | None = None
        self._garbage_collected_at: datetime | None = None
        self.last_result: TickResult | None = None
        """Result of the last tick of `run`."""
        self._tracer = tracer
        self._report = report
        """Reports each tick of `run`."""

    @property
    def state(self) -> RecommenderState:
        """Everything learned so far, for reading only."""
        return self._state

    def read_pressure(self, source: PressureSource) -> None:
        """Use the signals of a source from now on, for estimators that know signals."""
        self._pressure = PressureKeeper(source, self._clock, self._settings.pressure)

    async def run(self) -> None:
        """Tick until cancelled, and watch for OOM kills all the time."""
        self._has_taken_up = False
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(self._cluster.pods.changes, self._see_pod))
            group.create_task(self._listen(self._cluster.memory_evictions, self._see_eviction))
            if self._history is not None:
                group.create_task(self._history.run())
            if self._pressure is not None:
                group.create_task(self._pressure.run())
            group.create_task(self._tick_on())

    async def tick(self) -> TickReport:
        """Run one tick: load, learn, publish, save; a failed step stops no other step."""
        if self._cluster.age() is None:
            # Before the first lists, objects that are not visible yet would count as deleted.
            return TickReport()
        if not self._take_up_again():
            return TickReport()
        report = await self._timed(Step.LOAD_AUTOSCALERS, self._load_autoscalers)
        report += await self._timed(Step.LOAD_PODS, self._load_pods)
        if self._history is not None:
            report += await self._timed(Step.LOAD_HISTORY, self._load_history)
        if self._pressure is not None:
            report += await self._timed(Step.LOAD_PRESSURE, self._load_pressure)
        report += await self._timed(Step.LOAD_USAGE, self._load_usage)
        report += await self._timed(Step.DELETE_REMOVED_PODS, self._delete_removed_pods)
        report += await self._timed(Step.PUBLISH, self._publish)
        report += await self._timed(Step.MAINTAIN_CHECKPOINTS, self._maintain_checkpoints)
        return report + await self._timed(Step.COLLECT_GARBAGE, self._collect_garbage)

    async def save_all(self, within: timedelta | None = None) -> TickReport:
        """Save everything that was learned before the process ends, as far as `within` allows.

        Nothing else is written at that time, so more writes run concurrently than in a tick.
        """
        if not self._has_taken_up:
            return TickReport()
        now = self._clock.now()
        count = max(LAST_WRITERS, self._settings.update_worker_count)
        until = None if within is None else now + within
        writers = Writers(self._clock, count, until=until, is_final=True)
        return await self._checkpoints.save_all(self._state, writers, now)

    def _take_up_again(self) -> bool:
        """Take over from the previous leader; return False while that is not possible.

        A recommender that was cut off while another one led would take its own old checkpoints
        for the newest, and overwrite better ones. So it waits until its view is recent enough.
        """
        if self._has_taken_up:
            return True
        age = self._cluster.age()
        if age is None or age > OLDEST_VIEW:
            return False
        self._has_taken_up = True
        before = self._state
        if self._restorer.take_up_again(before, self._clock.now()):
            self._state = RecommenderState(self._settings)
            if self._history is not None:
                self._history.forget()
            # Keep the watch: kills that it has seen must not count again.
            self._state.oom_watch = before.oom_watch
        return True

    async def _tick_on(self) -> None:
        while True:
            begin = self._clock.now()
            self.last_result = await self._try_tick(begin)
            self._try_to_report(self.last_result)
            # Before the first lists, or before the lead was taken up, a tick does nothing: look
            # again soon.
            is_blind = self._cluster.age() is None or not self._has_taken_up
            pause = NOT_LISTED_YET if is_blind else self._settings.interval
            # From begin to begin, so that long ticks do not stretch the interval between samples.
            taken = max(timedelta(), self._clock.now() - begin)
            await self._clock.sleep(max(timedelta(), pause - taken))

    def _try_to_report(self, result: TickResult) -> None:
        if self._report is None:
            return
        try:
            self._report(result)
        except Exception:
            # A failing report sink must not stop the loop.
            _logger.exception("a tick could not be reported")

    async def _try_tick(self, begin: datetime) -> TickResult:
        try:
            with self._tracer.span("tick"):
                return TickResult(begin, await self.tick())
        except Exception as error:
            # Any error: the next tick may succeed.
            _logger.exception("tick failed")
            return TickResult(begin, failure=error)

    async def _timed(self, step: Step, act: Callable[[], Awaitable[TickReport]]) -> TickReport:
        begin = self._clock.now()
        try:
            with self._tracer.span(step):
                report = await act()
        except ClusterError as error:
            report = TickReport(problems=(Problem(step, step, error),))
        return report + TickReport(spans=((step, self._clock.now() - begin),))

    async def _load_autoscalers(self) -> TickReport:
        report = await self._loader.load(self._state, self._clock.now())
        return report + self._restorer.restore(self._state, self._clock.now())

    async def _load_pods(self) -> TickReport:
        load_nodes(self._state, self._cluster.nodes, self._settings)
        return load_pods(self._state, self._cluster.pods, self._settings, self._clock.now())

    async def _load_history(self) -> TickReport:
        assert self._history is not None
        return await self._history.load(self._state)

    async def _load_pressure(self) -> TickReport:
        assert self._pressure is not None
        return self._pressure.load(self._state)

    async def _load_usage(self) -> TickReport:
        report = TickReport()
        try:
            columns = await self._source.fetch()
            report += take_in_usage(self._state.usage, columns, self._clock.now())
            some = [Problem(Step.LOAD_USAGE, "some usage", one) for one in columns.problems]
            report += TickReport(problems=tuple(some[:MOST_TOLD]))
        except ClusterError as error:
            report += TickReport(problems=(Problem(Step.LOAD_USAGE, "usage", error),))
        # Also without any usage: kills come from the API server, and must not wait for metrics.
        sightings = self._state.oom_watch.drain()
        now = self._clock.now()
        return report + count_oom_kills(self._state, sightings, self._settings, now)

    async def _delete_removed_pods(self) -> TickReport:
        delete_removed_pods(self._state)
        return TickReport()

    async def _publish(self) -> TickReport:
        now = self._clock.now()
        writers = self._writers(now)
        report = await publish(self._state, self._cluster, writers, self._settings, now)
        return report + TickReport(signals=tuple(load_pressure.list_signals(self._state)))

    async def _maintain_checkpoints(self) -> TickReport:
        now = self._clock.now()
        report = await self._checkpoints.save_due(self._state, self._writers(now), now)
        # The first search waits for an interval: right after a start the stores may lag.
        if self._orphans_sought_at is None:
            self._orphans_sought_at = now
        if now - self._orphans_sought_at >= self._settings.checkpoints_gc_interval:
            report += await self._checkpoints.delete_orphans(self._writers(now))
            if not self._checkpoints.has_orphans_left:
                self._orphans_sought_at = now
        return report

    async def _collect_garbage(self) -> TickReport:
        now, last = self._clock.now(), self._garbage_collected_at
        if last is not None and now - last < self._settings.garbage_interval:
            return TickReport()
        self._garbage_collected_at = now
        usage, ended = self._state.usage, frozenset(self._state.pods.ended)
        garbage = retention.collect_garbage(
            usage, now, ended=ended, abandoned=await self._abandoned(ended)
        )
        folded = retention.fold_idle(usage, now)
        report = TickReport(aggregates_forgotten=garbage.aggregates, aggregates_folded=folded)
        return report + await self._checkpoints.delete(garbage.checkpoints, self._writers(now))

    async def _abandoned(self, ended: Iterable[PodName]) -> frozenset[PodName]:
        """Return the ended pods whose workload is gone too."""
        tracked = self._state.pods.tracked
        pods = {name: tracked[name.namespace, name.name] for name in ended}
        owners = self._cluster.owners
        return frozenset([name for name, pod in pods.items() if not await owners.topmost(pod)])

    def _writers(self, now: datetime) -> Writers:
        until = now + self._settings.checkpoints_timeout
        return Writers(self._clock, self._settings.update_worker_count, until=until)

    async def _listen(
        self, listen: Callable[[], AsyncIterator[RecordT]], see: Callable[[RecordT], None]
    ) -> None:
        while True:
            try:
                async for seen in listen():
                    see(seen)
            except ClusterError:
                pass
            await self._clock.sleep(WATCH_ANEW)

    def _see_pod(self, pod: Pod) -> None:
        if self._settings.covers(pod.namespace):
            self._state.oom_watch.look(pod)

    def _see_eviction(self, eviction: MemoryEviction) -> None:
        if self._settings.covers(eviction.namespace):
            self._state.oom_watch.note_eviction(eviction)
