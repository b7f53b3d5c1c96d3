"""Usage from the external metrics API, for clusters whose usage another system measures.

The API has no list of all containers: each metric is queried by the labels of pods. A request
names many pods; a few requests run at once, for a bounded time. An answer that fails or cannot be
decoded takes nothing from the others. The first answers show whether a server takes many pods in
one request; if not, each pod gets a request of its own.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from typing import Final, TypeAlias

from trimtab.api.usage import external_metrics
from trimtab.api.usage.external_metrics import ExternalReading, PodGroup
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ApiError, ClusterError, ForbiddenError, UnreachableError
from trimtab.cluster.http import paths
from trimtab.cluster.http.api_server import ApiServer
from trimtab.cluster.ports import Clock
from trimtab.core.model import selectors
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector

MOST_PODS: Final = 50
"""Maximum number of pods in one request; their names have to fit into its address."""
AT_ONCE: Final = 10
"""Maximum number of requests in flight."""
_VERSION: Final = "external.metrics.k8s.io/v1beta1"
_POD: Final = "pod"
"""Label of a metric that names its pod (the original's)."""

_Row: TypeAlias = tuple[str, str, str, float, int, int, bool, bool]


class LateError(ClusterError):
    """The time was too short to ask for all pods."""


class _Manner(Enum):
    """Way in which a server is asked for pods."""

    UNKNOWN = auto()
    TOGETHER = auto()
    SINGLY = auto()


@dataclass(frozen=True, slots=True)
class _Question:
    """One metric of some pods."""

    resource: Resource
    metric: str
    group: PodGroup

    def about(self, *pods: str) -> "_Question":
        return replace(self, group=replace(self.group, pods=pods))

    @property
    def selector(self) -> str:
        pods = self.group.pods
        these = (
            LabelRequirement(_POD, Operator.IN, pods)
            if pods[1:]
            else selectors.equality(_POD, pods[0])
        )
        return selectors.format_selector(Selector((*self.group.selector.requirements, these)))


@dataclass(slots=True)
class _Harvest:
    """Results of the requests of one turn."""

    rows: list[_Row] = field(default_factory=list)
    problems: list[Exception] = field(default_factory=list)
    failures: list[ClusterError] = field(default_factory=list)
    answered: int = 0


@dataclass(slots=True)
class ExternalMetricsApi:
    """The external metrics API (`external.metrics.k8s.io`) as a source of samples."""

    server: ApiServer
    metrics: Mapping[Resource, str]
    """The name of the metric that is the usage of a resource."""
    container_label: str
    """Label of a metric that names its container."""
    clock: Clock
    within: timedelta = timedelta(seconds=30)
    """After this time no further request begins; the next turn begins with the rest."""
    _manner: _Manner = field(default=_Manner.UNKNOWN, init=False)
    _next: int = field(default=0, init=False)
    """Position from which the next turn goes on, if the last one was cut short."""

    async def fetch(self, groups: Sequence[PodGroup]) -> UsageColumns:
        """Return the newest readings of these pods, with the problems of parts that are missing."""
        questions = deque(self._questions(groups))
        questions.rotate(-self._next)
        total, harvest = len(questions), _Harvest()
        until = self.clock.now() + self.within

        async def work() -> None:
            while questions and self.clock.now() < until:
                await self._ask(questions.popleft(), harvest)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(AT_ONCE, total)):
                workers.create_task(work())
        self._next = (self._next + total - len(questions)) % total if questions else 0
        if questions:
            harvest.problems.append(LateError(f"{len(questions)} of {total} were not asked for"))
        if harvest.failures and not harvest.answered:
            raise harvest.failures[0]
        columns = UsageColumns(*zip(*harvest.rows, strict=True))
        return replace(columns, problems=(*harvest.failures, *harvest.problems))

    def _questions(self, groups: Sequence[PodGroup]) -> Iterator[_Question]:
        for group in groups:
            for begin in range(0, len(group.pods), MOST_PODS):
                some = replace(group, pods=group.pods[begin : begin + MOST_PODS])
                for resource, metric in self.metrics.items():
                    yield _Question(resource, metric, some)

    async def _ask(self, question: _Question, harvest: _Harvest) -> None:
        try:
            if len(question.group.pods) == 1 or self._manner is _Manner.SINGLY:
                await self._ask_singly(question, harvest)
            else:
                await self._ask_together(question, harvest)
        except ClusterError as error:
            harvest.failures.append(error)
        except DecodeError as error:
            harvest.problems.append(error)

    async def _ask_singly(self, question: _Question, harvest: _Harvest) -> None:
        for pod in question.group.pods:
            about = question.about(pod)
            readings = await self._read(about, harvest)
            harvest.rows += _rows(about, readings, self.container_label, only=pod)

    async def _ask_together(self, question: _Question, harvest: _Harvest) -> None:
        readings: Sequence[ExternalReading] = ()
        failure = None
        try:
            readings = await self._read(question, harvest)
        except ApiError as error:
            failure = error
        if any(_POD in reading.labels for reading in readings):
            self._manner = _Manner.TOGETHER
            harvest.rows += _rows(question, readings, self.container_label)
        elif readings or await self._knows_one_of(question, failure):
            self._manner = _Manner.SINGLY
            await self._ask_singly(question, harvest)
        elif failure is not None:
            raise failure

    async def _knows_one_of(self, question: _Question, failure: ApiError | None) -> bool:
        """Return True if a server without an answer for many pods has one for the first of them."""
        is_hopeless = isinstance(failure, ForbiddenError | UnreachableError)
        if is_hopeless or self._manner is not _Manner.UNKNOWN:
            return False
        try:
            return bool(await self._read(question.about(question.group.pods[0]), _Harvest()))
        except ClusterError:
            return False

    async def _read(self, question: _Question, harvest: _Harvest) -> Sequence[ExternalReading]:
        path = paths.collection(_VERSION, question.metric, question.group.namespace)
        data = await self.server.fetch(path, {"labelSelector": question.selector})
        listing = external_metrics.decode_external_metrics(question.resource, data)
        harvest.answered += 1
        harvest.problems += [one.error for one in listing.unreadable]
        return listing.items


def _rows(
    question: _Question, readings: Sequence[ExternalReading], container_label: str, only: str = ""
) -> Iterator[_Row]:
    """Yield the rows of pods that were asked for; if `only` one was, all readings are its own."""
    pods = frozenset(question.group.pods)
    is_cpu = question.resource is Resource.CPU
    for reading in readings:
        pod = reading.labels.get(_POD, only)
        container = reading.labels.get(container_label, "")
        if container and pod in pods:
            amounts = (reading.amount, 0) if is_cpu else (0, reading.amount)
            place = (question.group.namespace, pod, container)
            yield (*place, reading.time, *amounts, is_cpu, not is_cpu)
