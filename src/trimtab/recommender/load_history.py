"""History: past usage, read beside the ticks and learned namespace by namespace.

A namespace is read in parts, oldest first. A part that cannot be read is retried after a delay, and
earlier parts are not read again. Until a namespace has been read, its autoscalers show a condition,
and missing history lowers none of their recommendations (F14).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from trimtab.cluster.errors import ClusterError, TooMuchHistoryError
from trimtab.cluster.ports import Clock, HistorySource
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.resources import Resource
from trimtab.core.usage import history_samples
from trimtab.core.usage.history import HistoryReplay
from trimtab.core.usage.history_samples import PodTrace, Shard
from trimtab.recommender.reports import Problem, Step, TickReport
from trimtab.recommender.settings import HistorySettings
from trimtab.recommender.state import RecommenderState

_logger: Final = logging.getLogger(__name__)

_MOST_MOMENTS: Final = 10_000
"""Prometheus refuses queries for more than 11 000 moments."""
_DEAD_PER_LIVE: Final = 2
"""Estimated number of ended containers for each running one."""


@dataclass(slots=True)
class _Reading:
    """A namespace that is being read."""

    state: RecommenderState
    namespace: str
    names: tuple[AutoscalerName, ...]
    shards: deque[Shard]
    """Parts that are still to be read, in order."""
    replay: HistoryReplay | None = None
    """Samples read so far; None before the pods of the past are known."""
    problem: str = ""
    """Latest read error."""


@dataclass(slots=True)
class HistoryKeeper:
    """Reads history for new autoscalers, a few namespaces at a time."""

    source: HistorySource
    clock: Clock
    settings: HistorySettings
    _readings: dict[str, _Reading] = field(default_factory=dict, init=False)
    """Unfinished readings, by namespace."""
    _queue: asyncio.Queue[_Reading] = field(default_factory=asyncio.Queue, init=False)
    """Readings that no worker has taken; at most one per namespace."""
    _settled: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set once nothing is left to read, or a read has failed."""
    _news: TickReport = field(default_factory=TickReport, init=False)
    """Report since the last call of `load`."""
    _has_waited: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Read requested history until cancelled; a later run continues unfinished readings."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self.settings.workers):
                group.create_task(self._work())

    def forget(self) -> None:
        """Drop all requests made so far."""
        self._readings.clear()
        self._queue = asyncio.Queue()

    async def load(self, state: RecommenderState) -> TickReport:
        """Request the history of new autoscalers, and report the results of earlier requests.

        The first call waits for history, but not for long. So the first recommendations of a new
        process use history if it is available.
        """
        self._ask(state)
        if self._readings and not self._has_waited:
            await self._wait()
        self._has_waited = True
        self._mark(state)
        news, self._news = self._news, TickReport()
        return news

    def _ask(self, state: RecommenderState) -> None:
        outstanding: dict[str, list[AutoscalerName]] = {}
        for name in _outstanding(state):
            outstanding.setdefault(name.namespace, []).append(name)
        for namespace, names in outstanding.items():
            if namespace not in self._readings:
                shards = deque(self._plan(state, namespace))
                reading = _Reading(state, namespace, tuple(names), shards)
                self._readings[namespace] = reading
                self._queue.put_nowait(reading)

    def _plan(self, state: RecommenderState, namespace: str) -> Iterator[Shard]:
        usage = state.usage
        live = int(usage.aggregates.ints("feeders")[usage.links.rows_in(namespace)].sum())
        # So that an answer fits in memory, as far as the number of containers can be guessed.
        moments = self.settings.most_samples // (1 + _DEAD_PER_LIVE * live)
        return history_samples.plan_shards(
            namespace,
            end=self.clock.now(),
            length=self.settings.length,
            step=self.settings.resolution,
            most_moments=min(max(moments, 1), _MOST_MOMENTS),
        )

    async def _wait(self) -> None:
        self._settled.clear()
        try:
            async with asyncio.timeout(self.settings.patience.total_seconds()):
                await self._settled.wait()
        except TimeoutError:
            return

    def _mark(self, state: RecommenderState) -> None:
        """Record in every autoscaler's state whether its history is outstanding."""
        outstanding = set(_outstanding(state))
        for name, subject in state.subjects.items():
            reading = self._readings.get(name.namespace)
            subject.fetches_history = name in outstanding
            if name not in outstanding:
                subject.history_problem, subject.history_missed_at = "", None
                continue
            subject.history_problem = "" if reading is None else reading.problem
            subject.history_missed_at = subject.history_missed_at or self.clock.now()

    async def _work(self) -> None:
        failures = 0
        while True:
            reading = await self._queue.get()
            try:
                # Per worker, not per namespace: failures mostly mean that the server is down.
                failures = failures + 1 if await self._fails(reading) else 0
                if failures:
                    await self.clock.sleep(self.settings.delay(failures))
            finally:
                if self._is_wanted(reading):
                    self._queue.put_nowait(reading)

    async def _fails(self, reading: _Reading) -> bool:
        """Read a namespace; return True if something could not be read."""
        try:
            await self._read(reading)
        except ClusterError as error:
            self._note_failure(reading, error)
            return True
        except Exception as error:
            # Any error: recommendations do not depend on history.
            _logger.exception("history failed")
            self._note_failure(reading, error)
            return True
        return False

    def _is_wanted(self, reading: _Reading) -> bool:
        return self._readings.get(reading.namespace) is reading

    async def _read(self, reading: _Reading) -> None:
        if reading.replay is None and reading.shards:
            reading.replay = await self._begin(reading)
        while reading.shards:
            await self._read_part(reading)
        if self._is_wanted(reading):
            self._finish(reading)

    async def _begin(self, reading: _Reading) -> HistoryReplay:
        whole = Shard(
            reading.namespace,
            reading.shards[0].begin,
            reading.shards[-1].end,
            reading.shards[0].step,
        )
        traces = await self._fetch_pods(whole)
        usage, served = reading.state.usage, reading.state.served
        names = [name for name in reading.names if name in served]
        pods = history_samples.restore_pods(
            traces, _known_names(reading.state, reading.namespace, names)
        )
        return HistoryReplay(usage, reading.namespace, names, pods)

    async def _fetch_pods(self, shard: Shard) -> list[PodTrace]:
        """Return past pods; split the time span while an answer is too large."""
        try:
            return list(await self.source.fetch_pods(shard))
        except TooMuchHistoryError:
            halves = history_samples.halve(shard)
            if not halves:
                raise
        return [trace for half in halves for trace in await self._fetch_pods(half)]

    async def _read_part(self, reading: _Reading) -> None:
        shard, replay = reading.shards[0], reading.replay
        assert replay is not None
        try:
            cpu = await self.source.fetch_usage(Resource.CPU, shard)
            memory = await self.source.fetch_usage(Resource.MEMORY, shard)
        except TooMuchHistoryError:
            halves = history_samples.halve(shard)
            if not halves:
                raise
            reading.shards.popleft()
            # `extendleft` puts each in front of the one before, so the halves are turned round.
            reading.shards.extendleft(reversed(halves))
            return
        # The state was rebuilt while the answer was on its way (`forget`).
        if not self._is_wanted(reading):
            reading.shards.clear()
            return
        now = self.clock.now()
        self._news += TickReport(
            past_cpu=replay.add(Resource.CPU, cpu, now),
            past_memory=replay.add(Resource.MEMORY, memory, now),
        )
        reading.shards.popleft()

    def _finish(self, reading: _Reading) -> None:
        subjects, learners = reading.state.subjects, reading.state.usage.links.learners
        assert reading.replay is not None
        finished = reading.replay.finish(self.clock.now())
        for name in finished:
            if name in subjects:
                subjects[name].history_of = learners[name].selector
        reading.state.publications.held.seed_again(finished)
        del self._readings[reading.namespace]
        self._news += TickReport(histories=1)
        # Only now: the first tick waits for all of them.
        if not self._readings:
            self._settled.set()

    def _note_failure(self, reading: _Reading, error: Exception) -> None:
        reading.problem = str(error)
        problem = Problem(Step.LOAD_HISTORY, reading.namespace, error)
        if self._is_wanted(reading):
            self._news += TickReport(problems=(problem,))
        self._settled.set()


def _outstanding(state: RecommenderState) -> Iterator[AutoscalerName]:
    """Yield the served autoscalers that select pods whose history is not loaded."""
    learners = state.usage.links.learners
    for name, subject in state.served.items():
        selector = learners[name].selector
        if selector is not None and subject.history_of != selector:
            yield name


def _known_names(
    state: RecommenderState, namespace: str, autoscalers: Iterable[AutoscalerName]
) -> Iterator[str]:
    """Yield the label names that selectors and pods of a namespace use."""
    usage = state.usage
    for name in autoscalers:
        selector = usage.links.learners[name].selector
        yield from () if selector is None else (one.key for one in selector.requirements)
    for row in usage.links.rows_in(namespace):
        yield from (key for key, _ in usage.aggregates.key(row).labels)
