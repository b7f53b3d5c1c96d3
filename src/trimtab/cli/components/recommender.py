"""`trimtab recommender`: wires the recommender to a real cluster, as its flags say."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from prometheus_client import REGISTRY

from trimtab.api.explain.recommendation import NumbersFrom, Origin
from trimtab.cli.flags import recommender
from trimtab.cli.flags.common import CommonFlags
from trimtab.cli.flags.recommender import RecommenderFlags
from trimtab.cli.flags.types import Unused
from trimtab.cli.runtime import component, history_source
from trimtab.cli.runtime.health import Heartbeat
from trimtab.cli.runtime.history_source import PROMETHEUS, PastOrder
from trimtab.cli.runtime.process import SAVING, Runnable
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.ports import UsageSource
from trimtab.cluster.usage.external_metrics import ExternalMetricsApi
from trimtab.cluster.usage.kubelet_pressure import KubeletPressure
from trimtab.cluster.usage.metrics_api import MetricsApi
from trimtab.cluster.usage.prometheus_client import Exchange
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.resources import Resource
from trimtab.recommender import logs, pages
from trimtab.recommender.controller import Recommender
from trimtab.recommender.load_usage import ExternalUsage
from trimtab.recommender.metrics import RecommenderMeter, note_query
from trimtab.recommender.reports import TickResult
from trimtab.recommender.settings import PressureOrigin, RecommenderSettings
from trimtab.recommender.status_metrics import RecommendationExporter

_COMMON: Final = CommonFlags()
_FLAGS: Final = RecommenderFlags()


@dataclass(frozen=True, slots=True)
class Orders:
    """The Prometheus for each purpose; None where the flags want none."""

    past: PastOrder | None
    pressure: PastOrder | None


RecommenderOrder: TypeAlias = component.ParsedFlags[RecommenderFlags, RecommenderSettings]


def recommend(
    *,
    unused: Unused = (),
    flags: RecommenderFlags = _FLAGS,
    common: CommonFlags = _COMMON,
) -> int:
    """Run the recommender until a signal ends it; return the exit code."""
    order = check(unused, flags, common)
    return component.run(order, make_part(order), list_advice(flags))


def check(unused: Sequence[str], flags: RecommenderFlags, common: CommonFlags) -> RecommenderOrder:
    """Check the flags; a UsageError if they are invalid."""
    return component.check(
        unused, common, flags, partial(recommender.to_settings, common.cluster, flags)
    )


def make_part(order: RecommenderOrder) -> component.ComponentSpec:
    """Return the spec of the recommender, to be built on a cluster."""
    past = history_source.order_history(order.flags, os.environ)
    pressed = _order_pressure(order)
    scope = Scope(
        order.settings.namespace,
        pending_pods=False,
        limit_ranges=False,
        nodes=True,
        memory_evictions=True,
        horizontals=order.settings.hpa_conflict is not HpaConflict.IGNORE,
    )
    return component.ComponentSpec(
        "recommender", scope, partial(_build, order, Orders(past, pressed))
    )


def _order_pressure(order: RecommenderOrder) -> PastOrder | None:
    """Return the Prometheus to read pressure from, if the flags want it."""
    if order.settings.pressure.origin is not PressureOrigin.PROMETHEUS:
        return None
    return history_source.order_prometheus(order.flags.history, os.environ)


def list_advice(flags: RecommenderFlags) -> list[str]:
    """Return warnings about flags whose effect may surprise."""
    findings = {
        f"--storage={flags.loop.storage} is unknown: history comes from checkpoints": (
            flags.loop.storage not in ("", "checkpoint", PROMETHEUS)
        ),
        "--use-external-metrics reads nothing without the name of a metric": (
            flags.learning.use_external_metrics and not _external_metrics(flags)
        ),
        "--min-checkpoints is deprecated and has no effect": (
            flags.loop.min_checkpoints != _FLAGS.loop.min_checkpoints
        ),
        "--humanize-memory is deprecated: use --round-memory-bytes": (
            flags.estimates.humanize_memory
        ),
    }
    return [advice for advice, applies in findings.items() if applies]


def _external_metrics(flags: RecommenderFlags) -> dict[Resource, str]:
    """The external metric of each resource that has one."""
    named = {
        Resource.CPU: flags.learning.external_metrics_cpu_metric,
        Resource.MEMORY: flags.learning.external_metrics_memory_metric,
    }
    return {resource: metric for resource, metric in named.items() if metric}


def list_remarks(flags: RecommenderFlags, past: PastOrder | None) -> Iterator[str]:
    """Yield a remark for each source of usage besides the metrics API."""
    if flags.loop.pressure_source is not PressureOrigin.NONE:
        yield f"signals of pressure are read from {flags.loop.pressure_source}"
    if flags.learning.use_external_metrics:
        for resource, metric in _external_metrics(flags).items():
            yield f"usage of {resource} is read from the external metric {metric}"
    if past is not None:
        yield "what was used before the recommender came is read from Prometheus"


def _note_query(exchange: Exchange) -> None:
    note_query(exchange.status, exchange.method, exchange.span)


def _choose_usage(
    order: RecommenderOrder, client: Client, clock: RealClock, running: Callable[[], Recommender]
) -> UsageSource:
    """Return the source of samples that the flags name."""
    flags, settings = order.flags, order.settings
    if not flags.learning.use_external_metrics:
        return MetricsApi(client, settings.namespace)
    metrics = ExternalMetricsApi(
        client,
        _external_metrics(flags),
        flags.history.container_name_label,
        clock,
        # The rest of a tick needs time too.
        within=settings.interval / 2,
    )
    return ExternalUsage(metrics, lambda: running().state)


def _kubelets(
    settings: RecommenderSettings, cluster: LiveCluster, client: Client, clock: RealClock
) -> KubeletPressure | None:
    """Return the kubelets as a source of pressure, if the flags want them."""
    if settings.pressure.origin is not PressureOrigin.KUBELET:
        return None
    return KubeletPressure(
        client,
        lambda: {pod.node_name for pod in cluster.pods if pod.node_name},
        clock,
        settings.recommendations.cost.pressure,
        # Less than the patience of the reader, so that what came counts.
        within=settings.pressure.timeout * 0.8,
    )


def _build(
    order: RecommenderOrder,
    orders: Orders,
    cluster: LiveCluster,
    client: Client,
    clock: RealClock,
) -> component.RunningComponent:
    settings = order.settings
    heartbeat = Heartbeat(clock.elapsed, component.INTERVALS_UNTIL_DEAD * settings.interval)
    past, pressed = orders.past, orders.pressure
    history = None if past is None else past.source(clock, _note_query)
    pressure = None if pressed is None else history_source.build_pressure(pressed, settings, clock)
    remarks = tuple(list_remarks(order.flags, past))
    meter = RecommenderMeter()

    def report(result: TickResult) -> None:
        if result.failure is None:
            heartbeat.beat()
        logs.log_tick(result, running.state)
        if history is not None and result.report is not None and result.report.histories:
            logs.log_history(result.report.histories, history.conventions())
        meter.note(result, running.state)

    async def act() -> None:
        async with history or nullcontext(), pressure or nullcontext():
            await running.run()

    async def save() -> None:
        # Unsaved state is lost, so the rate limit is lifted; parallel requests stay bounded.
        client.hurry()
        logs.log_saving(await running.save_all(within=SAVING))

    def explain(query: Mapping[str, str]) -> bytes:
        origin = Origin(NumbersFrom.RECOMMENDER, clock.now(), remarks=remarks)
        return pages.show_page(running.state, settings, query, origin)

    def list_problems() -> Iterable[Exception]:
        last = running.last_result
        return [each.error for each in last.report.problems] if last and last.report else []

    running = Recommender(
        cluster,
        _choose_usage(order, client, clock, lambda: running),
        settings=settings,
        clock=clock,
        history=history,
        report=report,
        tracer=client.tracer,
    )
    if (signals := pressure or _kubelets(settings, cluster, client, clock)) is not None:
        running.read_pressure(signals)
    if order.flags.loop.export_recommendations:
        REGISTRY.register(RecommendationExporter(cluster.autoscalers))
    return component.RunningComponent(
        cluster,
        Runnable(partial(heartbeat.watch, act), save),
        heartbeat,
        order.elector(cluster, clock),
        list_problems,
        pages={"/explain/numbers": explain},
    )
