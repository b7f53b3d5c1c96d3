"""Collect the facts of a report: pods by workload, autoscalers, checkpoints, limits, nodes.

The caller needs only permissions to read, and few of them. Where autoscalers, checkpoints or nodes
cannot be read, the report does without them, and a note says so.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeVar

from trimtab.admission import target_index
from trimtab.api.kinds import hpa
from trimtab.api.kinds.nodes import decode_node
from trimtab.api.wire import lists
from trimtab.api.wire.codec import DecodeError
from trimtab.cli.commands import read_cluster
from trimtab.cli.commands.read_cluster import ViewFlags
from trimtab.cli.errors import FailedError
from trimtab.cli.flags import types
from trimtab.cli.output import empty_results, progress
from trimtab.cli.runtime.history_source import PastOrder
from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError, ForbiddenError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.ports import Owners, UsageSource
from trimtab.cluster.usage.metrics_api import MetricsApi
from trimtab.core.model.hpa import Horizontal, Marking, scaling_among
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.model.recommendation import MIB, RecommendationSettings
from trimtab.core.model.selectors import Selector
from trimtab.core.report import sizes, virtual_autoscalers
from trimtab.core.report.sizes import ReportTotals, SizeBounds, WorkloadSizing
from trimtab.core.report.virtual_autoscalers import Group, Owned
from trimtab.core.sizing import daemon_sets
from trimtab.core.sizing.node_capacity import NodeRooms
from trimtab.recommender.dry_run import Bystander, DryRunInputs, HistoryProgress
from trimtab.recommender.settings import HistorySettings, RecommenderSettings
from trimtab.updater.pod_owners import OwnerKey, owner_key, resolve_targets

_RecordT = TypeVar("_RecordT")

_ASKED_AT_ONCE: Final = 10
_MOST_LEVELS: Final = 32


@dataclass(frozen=True, slots=True)
class Visible:
    """The part of a cluster that the caller may read, with notes on the rest."""

    scope: Scope
    nodes: tuple[Node, ...] = ()
    horizontals: tuple[Horizontal, ...] = ()
    notes: tuple[str, ...] = ()


async def find_visible(client: Client, namespace: str) -> Visible:
    """Find what the caller may read in a namespace, or in all if it is empty."""
    notes = []
    autoscalers = await _is_shown(client, paths.autoscalers(namespace))
    checkpoints = autoscalers and await _is_shown(client, paths.checkpoints(namespace))
    if not autoscalers:
        notes.append("autoscalers cannot be seen here: as if there were none")
    elif not checkpoints:
        notes.append("checkpoints cannot be seen: what autoscalers have learned is not known")
    nodes = await _list(client, paths.collection("v1", "nodes"), decode_node)
    if not nodes:
        notes.append("nodes cannot be seen: which part of one a pod takes is not known")
    scaled = paths.collection("autoscaling/v2", "horizontalpodautoscalers", namespace)
    horizontals = await _list(client, scaled, hpa.decode_horizontal)
    if horizontals is None:
        notes.append("horizontal autoscalers cannot be seen: what is left to them is not known")
    scope = Scope(namespace, autoscalers=autoscalers, checkpoints=checkpoints)
    return Visible(scope, nodes or (), horizontals or (), tuple(notes))


async def look_around(cluster: LiveCluster, visible: Visible, selector: Selector) -> DryRunInputs:
    """Return the pods that the selector matches, by workload and autoscaler."""
    autoscalers = await resolve_targets(
        cluster.owners, cluster.autoscalers, concurrency=_ASKED_AT_ONCE
    )
    chosen = [pod for pod in cluster.pods if selector.matches(pod.labels)]
    groups = virtual_autoscalers.group_pods(await _find_owners(cluster.owners, chosen), autoscalers)
    marking = Marking(scaling_among(visible.horizontals, cluster.owners.known).of)
    marked = [replace(group, autoscaler=marking.mark(group.autoscaler)) for group in groups]
    return DryRunInputs(marked, cluster.owners, visible.nodes, tuple(cluster.checkpoints))


def surround(
    cluster: LiveCluster, groups: Iterable[Group], nodes: tuple[Node, ...], least_samples: int
) -> SizeBounds:
    """Return the limit ranges, nodes and minimum samples that bound the sizes of groups."""
    namespaces = {group.workload.namespace for group in groups}
    ranges = {name: tuple(cluster.limit_ranges(name)) for name in namespaces}
    by_name = {node.name: node for node in nodes}
    autoscalers = cluster.autoscalers.index(target_index.target_name)
    daemons = daemon_sets.list_daemons(cluster.daemon_sets, autoscalers.under, cluster.limit_ranges)
    return SizeBounds(ranges, by_name, NodeRooms(nodes, daemons), least_samples)


async def _is_shown(client: Client, path: str) -> bool:
    try:
        await client.fetch(path, {"limit": "1"})
    except (NotFoundError, ForbiddenError):
        return False
    return True


async def _list(
    client: Client, path: str, decode: Callable[[bytes], _RecordT]
) -> tuple[_RecordT, ...] | None:
    """List all objects under a path; None if they cannot be read."""
    try:
        return lists.decode_list(await client.fetch(path), decode).items
    except (NotFoundError, ForbiddenError, DecodeError):
        return None


async def _find_owners(owners: Owners, pods: Iterable[Pod]) -> list[Owned]:
    """Return each pod with its workload, which is looked up once per owner."""
    known: dict[OwnerKey, Owned] = {}
    found = []
    for pod in pods:
        key = owner_key(pod)
        if key is None:
            found.append(Owned(pod, None))
            continue
        if key not in known:
            known[key] = await _find_workload(owners, pod)
        found.append(replace(known[key], pod=pod))
    return found


async def _find_workload(owners: Owners, pod: Pod) -> Owned:
    """Find the topmost workload, with its API version from the owner reference to it."""
    topmost = await owners.topmost(pod)
    owner: OwnerReference | None = pod.owner
    for _ in range(_MOST_LEVELS):
        if owner is None or topmost is None:
            break
        name = WorkloadName(pod.namespace, owner.kind, owner.name)
        workload = await owners.workload(name, owner.api_version)
        if name == topmost:
            return Owned(pod, workload, owner.api_version)
        owner = None if workload is None else workload.owner
    return Owned(pod, None)


_BETWEEN_READINGS: Final = timedelta(seconds=15)
"""Usual interval of a metrics server."""
_BETWEEN_LOOKS: Final = timedelta(milliseconds=200)
_ESTIMATES: Final = RecommendationSettings(
    # People read these amounts and copy them into patches, so they are whole MiB.
    memory=replace(RecommendationSettings().memory, rounding=MIB)
)
_PODS_CHOSEN: Final = "pods that --selector matches"
_NO_METRICS: Final = "is there a metrics server? --prometheus-address does without"


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The checked options of a report."""

    view: ViewFlags
    selector: Selector
    watch_for: timedelta
    least_samples: int
    past: PastOrder | None
    """The source of history; None to watch usage instead."""
    history: HistorySettings

    @property
    def source(self) -> str:
        """Source of the usage, for people."""
        if self.past is None:
            return f"{types.format_span(self.watch_for)} of the metrics API"
        return f"{types.format_long_span(self.history.length)} of Prometheus"


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """The sizes of all workloads, with their totals."""

    workloads: Sequence[WorkloadSizing]
    totals: ReportTotals
    source: str
    """Source of the usage, for people."""
    notes: tuple[str, ...] = ()
    """Notes on what is missing, for people."""
    hidden: int = 0
    """Number of workloads in the totals that are not shown."""


async def make_report(
    order: ReportOptions, connection: Connection, clock: RealClock
) -> ClusterReport:
    """Compare requests with recommendations; a FailedError if pods or usage cannot be read."""
    namespace = read_cluster.namespace_of(order.view, connection)
    async with read_cluster.joined(connection, clock) as client:
        visible = await find_visible(client, namespace)
        async with read_cluster.seen(client, visible.scope, connection) as cluster:
            sight = await look_around(cluster, visible, order.selector)
            around = surround(cluster, sight.groups, visible.nodes, order.least_samples)
            if not sight.groups:
                await empty_results.require_namespace(client, namespace)
                has_pods = any(True for _ in cluster.pods)
                raise FailedError(
                    empty_results.describe_absence(_PODS_CHOSEN if has_pods else "pods", namespace)
                )
            hidden = tuple(_list_hidden(cluster))
        bystander, notes = await _learn(order, sight, clock, MetricsApi(client, namespace))
    sized = [sizes.size_group(*conclusion, around) for conclusion in bystander.conclude()]
    totals = sizes.add_up(sized, visible.nodes)
    return ClusterReport(sized, totals, order.source, (*visible.notes, *hidden, *notes))


def _list_hidden(cluster: LiveCluster) -> Iterator[str]:
    """Yield notes on objects that exist and could not be decoded."""
    for kind, store in (("autoscaler", cluster.autoscalers), ("pod", cluster.pods)):
        for one in store.unreadable:
            yield f"as if it were not there: {empty_results.describe_unreadable(kind, one)}"


async def _learn(
    order: ReportOptions, sight: DryRunInputs, clock: RealClock, metrics: UsageSource
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
        read = await _read_history(bystander, clock)
    return bystander, _judge_history(read)


async def _watch(
    bystander: Bystander, metrics: UsageSource, span: timedelta, clock: RealClock
) -> None:
    """Read usage repeatedly until the time is over."""
    begin = clock.now()
    with progress.shown(span.total_seconds(), has_lines=False) as shown:
        while True:
            try:
                bystander.take_in(await metrics.fetch())
            except (ClusterError, DecodeError) as error:
                problem = f"no usage from the metrics API: {error}; {_NO_METRICS}"
                raise FailedError(problem) from error
            past = clock.now() - begin
            if past >= span:
                return
            watched = f"watching usage: {past.seconds} s of {types.format_span(span)}"
            shown.show(past.total_seconds(), watched)
            await clock.sleep(min(_BETWEEN_READINGS, span - past))


async def _read_history(bystander: Bystander, clock: RealClock) -> HistoryProgress:
    assert bystander.history is not None
    reading = asyncio.create_task(bystander.history.run())
    try:
        with progress.shown(1.0, has_lines=False) as shown:
            while not (read := await bystander.advance_history()).is_over:
                text = f"reading history: {read.done} of {read.all} namespaces"
                shown.show(read.done / max(read.all, 1), text)
                await clock.sleep(_BETWEEN_LOOKS)
            return read
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _judge_history(read: HistoryProgress) -> tuple[str, ...]:
    """Return notes on history that could not be read; a FailedError if that is all of it."""
    problems = read.problems
    if problems and not read.done:
        raise FailedError(f"no history: {next(iter(problems.values()))}")
    return tuple(f"no history of {name}: {problem}" for name, problem in sorted(problems.items()))
