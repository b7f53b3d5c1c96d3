"""How a report learns: usage is watched for a while, or read from Prometheus."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final

from trimtab.api.decoding import DecodeError
from trimtab.cli.absences import require_namespace, tell_absence, tell_unreadable
from trimtab.cli.failures import FailedError
from trimtab.cli.flag_types import format_long_span, format_span
from trimtab.cli.history import PastOrder
from trimtab.cli.report_sight import find_visible, look_around, surround
from trimtab.cli.viewing import ViewFlags, joined, namespace_of, seen
from trimtab.cluster.adapter import LiveCluster
from trimtab.cluster.clock import RealClock
from trimtab.cluster.credentials import Connection
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import UsageSource
from trimtab.cluster.usage import MetricsApi
from trimtab.core.recommendation import MIB, RecommendationSettings
from trimtab.core.records import dataclass
from trimtab.core.selectors import Selector
from trimtab.core.sizing import Totals, WorkloadSizing, add_up, size_group
from trimtab.recommender.bystander import Bystander, HistoryProgress, Sight
from trimtab.recommender.settings import HistorySettings, RecommenderSettings

_BETWEEN_READINGS: Final = timedelta(seconds=15)
"""As often as a metrics server usually reads."""
_BETWEEN_LOOKS: Final = timedelta(milliseconds=200)
_ESTIMATES: Final = RecommendationSettings(
    # What is read, and written into patches, by people.
    memory=replace(RecommendationSettings().memory, rounding=MIB)
)
_PODS_CHOSEN: Final = "pods that --selector matches"
_NO_METRICS: Final = "is there a metrics server? --prometheus-address does without"


@dataclass(frozen=True, slots=True)
class Order:
    """What the report is to be about."""

    view: ViewFlags
    selector: Selector
    watch_for: timedelta
    least_samples: int
    past: PastOrder | None
    """Where history is; None if usage is to be watched."""
    history: HistorySettings

    @property
    def source(self) -> str:
        """From what is learned, for people."""
        if self.past is None:
            return f"{format_span(self.watch_for)} of the metrics API"
        return f"{format_long_span(self.history.length)} of Prometheus"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found."""

    workloads: Sequence[WorkloadSizing]
    totals: Totals
    source: str
    """From what it was learned, for people."""
    notes: tuple[str, ...] = ()
    """What is missing, for people."""
    hidden: int = 0
    """How many workloads are in the totals and not shown."""


async def make_report(order: Order, connection: Connection, clock: RealClock) -> Report:
    """What is requested beside what is recommended; a FailedError if there is nothing to see."""
    namespace = namespace_of(order.view, connection)
    async with joined(connection, clock) as client:
        visible = await find_visible(client, namespace)
        async with seen(client, visible.scope, connection) as cluster:
            sight = await look_around(cluster, visible, order.selector)
            around = surround(cluster, sight.groups, visible.nodes, order.least_samples)
            if not sight.groups:
                await require_namespace(client, namespace)
                has_pods = any(True for _ in cluster.pods)
                raise FailedError(tell_absence(_PODS_CHOSEN if has_pods else "pods", namespace))
            hidden = tuple(_list_hidden(cluster))
        bystander, notes = await _learn(order, sight, clock, MetricsApi(client, namespace))
    sized = [size_group(*conclusion, around) for conclusion in bystander.conclude()]
    totals = add_up(sized, visible.nodes)
    return Report(sized, totals, order.source, (*visible.notes, *hidden, *notes))


def _list_hidden(cluster: LiveCluster) -> Iterator[str]:
    """What is left out although it is there."""
    for kind, store in (("autoscaler", cluster.autoscalers), ("pod", cluster.pods)):
        for one in store.unreadable:
            yield f"as if it were not there: {tell_unreadable(kind, one)}"


async def _learn(
    order: Order, sight: Sight, clock: RealClock, metrics: UsageSource
) -> tuple[Bystander, tuple[str, ...]]:
    settings = RecommenderSettings(history=order.history, recommendations=_ESTIMATES)
    if order.past is None:
        bystander = Bystander(sight, settings, clock)
        await bystander.begin()
        await _watch(bystander, metrics, order.watch_for, clock)
        return bystander, ()
    async with order.past.source(clock, lambda _: None) as source:
        bystander = Bystander(sight, settings, clock, source)
        await bystander.begin()
        progress = await _read_history(bystander, clock)
    return bystander, _judge_history(progress)


async def _watch(
    bystander: Bystander, metrics: UsageSource, span: timedelta, clock: RealClock
) -> None:
    """Read usage again and again until the time is over."""
    begin = clock.now()
    with _progress() as tell:
        while True:
            try:
                bystander.take_in(await metrics.fetch())
            except (ClusterError, DecodeError) as error:
                problem = f"no usage from the metrics API: {error}; {_NO_METRICS}"
                raise FailedError(problem) from error
            past = clock.now() - begin
            if past >= span:
                return
            tell(f"watching usage: {past.seconds} s of {format_span(span)}")
            await clock.sleep(min(_BETWEEN_READINGS, span - past))


async def _read_history(bystander: Bystander, clock: RealClock) -> HistoryProgress:
    assert bystander.history is not None
    reading = asyncio.create_task(bystander.history.run())
    try:
        with _progress() as tell:
            while not (progress := await bystander.advance_history()).is_over:
                tell(f"reading history: {progress.done} of {progress.all} namespaces")
                await clock.sleep(_BETWEEN_LOOKS)
            return progress
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _judge_history(progress: HistoryProgress) -> tuple[str, ...]:
    """What could not be read, for people; a FailedError if that is all of it."""
    problems = progress.problems
    if problems and not progress.done:
        raise FailedError(f"no history: {next(iter(problems.values()))}")
    return tuple(f"no history of {name}: {problem}" for name, problem in sorted(problems.items()))


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Where one line after the other replaces the last; nothing is left in the end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        yield _rewrite
    finally:
        _rewrite("")


def _rewrite(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
