"""`trimtab recommender`: wires the recommender to a real cluster, as its flags say."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
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
from trimtab.cluster.usage.metrics_api import MetricsApi
from trimtab.cluster.usage.prometheus_client import Exchange
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.resources import Resource
from trimtab.recommender import logs, pages
from trimtab.recommender.controller import Recommender
from trimtab.recommender.load_usage import ExternalUsage
from trimtab.recommender.metrics import RecommenderMeter, note_query
from trimtab.recommender.reports import TickResult
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.status_metrics import RecommendationExporter

_COMMON: Final = CommonFlags()
_FLAGS: Final = RecommenderFlags()

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
    scope = Scope(
        order.settings.namespace,
        pending_pods=False,
        limit_ranges=False,
        nodes=True,
        memory_evictions=True,
        horizontals=order.settings.hpa_conflict is not HpaConflict.IGNORE,
    )
    return component.ComponentSpec("recommender", scope, partial(_build, order, past))


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


def tell_sources(flags: RecommenderFlags, past: PastOrder | None) -> Iterator[str]:
    """Yield a remark for each source of usage besides the metrics API."""
    if flags.learning.use_external_metrics:
        for resource, metric in _external_metrics(flags).items():
            yield f"usage of {resource} is read from the external metric {metric}"
    if past is not None:
        yield "what was used before the recommender came is read from Prometheus"


class _Process:
    """The recommender and the parts around it."""

    def __init__(
        self,
        order: RecommenderOrder,
        past: PastOrder | None,
        cluster: LiveCluster,
        client: Client,
        clock: RealClock,
    ) -> None:
        settings = self._settings = order.settings
        self._now = clock.now
        self._sources = tuple(tell_sources(order.flags, past))
        self._client = client
        self._history = None if past is None else past.source(clock, _note_query)
        self.cluster = cluster
        self._recommender = Recommender(
            self.cluster,
            self._choose_usage(order, clock),
            settings=settings,
            clock=clock,
            history=self._history,
            report=self._tell,
            tracer=client.tracer,
        )
        silence = component.INTERVALS_UNTIL_DEAD * settings.interval
        self.heartbeat = Heartbeat(clock.elapsed, silence)
        self._meter = RecommenderMeter()

    def _choose_usage(self, order: RecommenderOrder, clock: RealClock) -> UsageSource:
        """Return the source of samples that the flags name."""
        flags, settings = order.flags, order.settings
        if not flags.learning.use_external_metrics:
            return MetricsApi(self._client, settings.namespace)
        metrics = ExternalMetricsApi(
            self._client,
            _external_metrics(flags),
            flags.history.container_name_label,
            clock,
            # The rest of a tick needs time too.
            within=settings.interval / 2,
        )
        return ExternalUsage(metrics, lambda: self._recommender.state)

    async def act(self) -> None:
        with self.heartbeat.expected():
            async with self._history or nullcontext():
                await self._recommender.run()

    async def save(self) -> None:
        # Unsaved state is lost, so the rate limit is lifted; parallel requests stay bounded.
        self._client.hurry()
        logs.log_saving(await self._recommender.save_all(within=SAVING))

    def explain(self, query: Mapping[str, str]) -> bytes:
        origin = Origin(NumbersFrom.RECOMMENDER, self._now(), remarks=self._sources)
        return pages.show_page(self._recommender.state, self._settings, query, origin)

    def list_problems(self) -> Iterable[Exception]:
        turnout = self._recommender.last_result
        report = turnout and turnout.report
        return [problem.error for problem in report.problems] if report else []

    def _tell(self, turnout: TickResult) -> None:
        if turnout.failure is None:
            self.heartbeat.beat()
        knowledge = self._recommender.state
        logs.log_tick(turnout, knowledge)
        if self._history is not None and turnout.report is not None and turnout.report.histories:
            logs.log_history(turnout.report.histories, self._history.conventions())
        self._meter.note(turnout, knowledge)


def _note_query(exchange: Exchange) -> None:
    note_query(exchange.status, exchange.method, exchange.span)


def _build(
    order: RecommenderOrder,
    past: PastOrder | None,
    cluster: LiveCluster,
    client: Client,
    clock: RealClock,
) -> component.RunningComponent:
    running = _Process(order, past, cluster, client, clock)
    if order.flags.loop.export_recommendations:
        REGISTRY.register(RecommendationExporter(running.cluster.autoscalers))
    return component.RunningComponent(
        running.cluster,
        Runnable(running.act, running.save),
        running.heartbeat,
        order.elector(running.cluster, clock),
        running.list_problems,
        pages={"/explain/numbers": running.explain},
    )
