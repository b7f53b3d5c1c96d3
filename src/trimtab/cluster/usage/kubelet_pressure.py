"""Signals of pressure from the kubelets, through the proxy of the API server.

Needs the right to get `nodes/proxy`, which is checked before it is used (decision 0032). Two pages
of a node make rates, so a node counts from its second page on. A node that is slow or fails stops
no other one. The nodes that there was no time for are the first ones the next time.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from trimtab.api.kinds import access_reviews
from trimtab.api.kinds.access_reviews import Question
from trimtab.api.usage import cadvisor
from trimtab.api.usage.cadvisor import NodeCounters, Series
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.http import paths
from trimtab.cluster.http.api_server import ApiServer
from trimtab.cluster.ports import Clock
from trimtab.core.model.estimation import PressureSettings
from trimtab.core.usage.pressure import PressureGathering, PressureReadings

_NODES: Final = paths.collection("v1", "nodes")
_REVIEWS: Final = paths.collection("authorization.k8s.io/v1", "selfsubjectaccessreviews")
_RIGHT: Final = Question("get", "nodes/proxy")
_MOST_AT_ONCE: Final = 4
_LEAST_SECONDS: Final = 10.0
"""A shorter time between two pages says too little."""


@dataclass(frozen=True, slots=True)
class _Page:
    """The counters of a node, and when they were read."""

    counters: NodeCounters
    seconds: float

    def time_of(self, series: Series) -> float:
        return self.counters.times.get(series, self.seconds)


@dataclass(slots=True)
class _Read:
    """One read of all nodes."""

    waiting: Iterator[str]
    """Nodes that nothing has asked yet."""
    gathering: PressureGathering = field(default_factory=PressureGathering)
    asked: dict[str, None] = field(default_factory=dict)
    """Nodes that have not answered yet, in the order in which they were asked."""
    problems: list[ClusterError] = field(default_factory=list)
    has_answer: bool = False
    """True once a node has answered."""


@dataclass(slots=True)
class KubeletPressure:
    """The kubelets of some nodes as a source of pressure."""

    server: ApiServer
    nodes: Callable[[], Iterable[str]]
    """Returns the names of the nodes that matter now."""
    clock: Clock
    settings: PressureSettings
    within: timedelta
    """Maximum time of one read; what came until then counts."""
    _pages: dict[str, _Page] = field(default_factory=dict, init=False)
    """The last page of each node."""
    _last: str = field(default="", init=False)
    """The node that was asked last."""

    async def fetch(self) -> PressureReadings:
        """Return the containers that are under pressure now."""
        if not await self._may_read():
            raise ClusterError(f"missing right for --pressure-source=kubelet: {_RIGHT}")
        names = self._in_turn()
        standing = frozenset(names)
        self._pages = {name: page for name, page in self._pages.items() if name in standing}
        read, seconds = _Read(iter(names)), self.within.total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for _ in range(_MOST_AT_ONCE):
                    group.create_task(self._work(read))
        # A few that were asked last may be well, but not all of them while none has answered.
        late = [f"no answer of node {name} within {seconds:g} s" for name in read.asked]
        problems = [*read.problems, *map(ClusterError, late)]
        if problems and not read.has_answer:
            raise problems[0]
        read.gathering.unreadable += len(read.problems)
        return read.gathering.readings()

    def _in_turn(self) -> list[str]:
        """Return the nodes, beginning after the one that was asked last."""
        names = sorted(set(self.nodes()))
        return [name for name in names if name > self._last] + [
            name for name in names if name <= self._last
        ]

    async def _work(self, read: _Read) -> None:
        for name in read.waiting:
            self._last = name
            read.asked[name] = None
            try:
                path = paths.item(_NODES, name, "proxy") + "/metrics/cadvisor"
                page = await self.server.fetch(path)
            except ClusterError as error:
                del read.asked[name]
                read.problems.append(error)
                continue
            del read.asked[name]
            read.has_answer = True
            # A page may have megabytes; meanwhile the loop has other work to do.
            counters = await asyncio.to_thread(cadvisor.decode_counters, page)
            self._compare(name, _Page(counters, self.clock.now().timestamp()), read.gathering)

    def _compare(self, name: str, page: _Page, gathering: PressureGathering) -> None:
        """Add what changed on a node since its last page."""
        gathering.unreadable += page.counters.unreadable
        before = self._pages.get(name)
        self._pages[name] = page
        for series, after in page.counters.by_series.items():
            earlier = None if before is None else before.counters.by_series.get(series)
            if before is None or earlier is None:
                continue
            seconds = page.time_of(series) - before.time_of(series)
            if seconds < _LEAST_SECONDS:
                # The kubelet has not measured again: wait for its next numbers.
                page.counters.by_series[series] = earlier
                page.counters.times[series] = before.time_of(series)
                continue
            for measure, strength in cadvisor.strengths_between(earlier, after, seconds).items():
                if strength >= self.settings.threshold(measure):
                    gathering.add(series[:3], measure, page.time_of(series), strength)

    async def _may_read(self) -> bool:
        question = access_reviews.encode_question(_RIGHT)
        try:
            answer = access_reviews.decode_answer(await self.server.post(_REVIEWS, question))
        except DecodeError:
            return True
        return answer is not False
