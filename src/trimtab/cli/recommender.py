"""`trimtab recommender`: wires the recommender to a real cluster, as its flags say."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import SystemRandom
from typing import Annotated, Final

from cyclopts import Parameter
from prometheus_client import REGISTRY

from trimtab.cli import logs, process, starting
from trimtab.cli.flags import CommonFlags
from trimtab.cli.health import Heartbeat, list_obstacles, watch_obstacles
from trimtab.cli.http_server import Probes, parse_address, serving
from trimtab.cli.joining import connected, election_settings
from trimtab.cli.recommender_flags import RecommenderFlags, to_settings
from trimtab.cluster.adapter import LiveCluster, Scope
from trimtab.cluster.client import Client
from trimtab.cluster.clock import RealClock
from trimtab.cluster.election import ElectionSettings, Elector
from trimtab.cluster.usage import MetricsApi
from trimtab.recommender import telling
from trimtab.recommender.exporting import RecommendationExporter
from trimtab.recommender.loop import Recommender
from trimtab.recommender.metrics import Meter
from trimtab.recommender.reports import Turnout
from trimtab.recommender.settings import RecommenderSettings

_INTERVALS_UNTIL_DEAD: Final = 5
"""The original's: after so many intervals without a tick that succeeded we are not healthy."""
_COMMON: Final = CommonFlags()
_FLAGS: Final = RecommenderFlags()


@dataclass(frozen=True, slots=True)
class _Order:
    """What a command line asks for, checked."""

    common: CommonFlags
    flags: RecommenderFlags
    settings: RecommenderSettings
    election: ElectionSettings


def recommend(
    *stray: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    flags: RecommenderFlags = _FLAGS,
    common: CommonFlags = _COMMON,
) -> int:
    """Run until told to end."""
    order, warnings = _check(stray, flags, common)
    logs.set_up(common.logs)
    starting.tell_of_start("recommender", common, flags, warnings)
    return process.run(partial(_run, order))


def _check(
    stray: Sequence[str], flags: RecommenderFlags, common: CommonFlags
) -> tuple[_Order, list[str]]:
    """What the flags ask for, and warnings; a UsageError if that makes no sense."""
    warnings = list(starting.list_unknown(stray, starting.list_flags(common, flags)))
    gates, flaws = starting.parse_gates(common.cluster.feature_gates)
    settings = starting.make_settings(
        lambda: to_settings(common.cluster, flags, gates), starting.list_changed(common, flags)
    )
    parse_address(flags.loop.address)
    election = election_settings(common.election, flags.loop.leader_elect_resource_name)
    return _Order(common, flags, settings, election), [*warnings, *flaws, *_advice(flags)]


def _advice(flags: RecommenderFlags) -> list[str]:
    """What is asked for and not there yet, or not for long any more."""
    findings = {
        "--storage=prometheus is not available yet: history comes from checkpoints": (
            flags.loop.storage == "prometheus"
        ),
        "--use-external-metrics is not available yet: usage comes from metrics.k8s.io": (
            flags.learning.use_external_metrics
        ),
        "--min-checkpoints is deprecated and has no effect": (
            flags.loop.min_checkpoints != _FLAGS.loop.min_checkpoints
        ),
        "--humanize-memory is deprecated: use --round-memory-bytes": (
            flags.estimates.humanize_memory
        ),
    }
    return [advice for advice, applies in findings.items() if applies]


class _Process:
    """The recommender and what it needs around it."""

    def __init__(self, order: _Order, client: Client, clock: RealClock) -> None:
        settings = order.settings
        self._clock = clock
        scope = Scope(
            settings.namespace, pending_pods=False, limit_ranges=False, memory_evictions=True
        )
        self.cluster = LiveCluster(client, scope, clock=clock, random=SystemRandom())
        self._recommender = Recommender(
            self.cluster,
            MetricsApi(client, settings.namespace),
            settings=settings,
            clock=clock,
            tell=self._tell,
        )
        self.elector = (
            Elector(self.cluster, order.election, clock=clock, elapsed=clock.elapsed)
            if order.common.election.leader_elect
            else None
        )
        self._heartbeat = Heartbeat(clock.elapsed, _INTERVALS_UNTIL_DEAD * settings.interval)
        self._meter = Meter()

    @property
    def probes(self) -> Probes:
        return Probes(self._heartbeat.flaws, self.obstacles)

    async def act(self) -> None:
        with self._heartbeat.expected():
            await self._recommender.run()

    async def save(self) -> None:
        telling.tell_of_saving(await self._recommender.save_all())

    async def settle(self) -> None:
        """Let the garbage collector leave alone what is listed at the start: it stays."""
        await self.cluster.synced()
        await process.spare_garbage_collection(self._clock)

    def obstacles(self) -> list[str]:
        """What keeps it from its work now."""
        turnout = self._recommender.last_turnout
        report = turnout and turnout.report
        others = [problem.error for problem in report.problems] if report else []
        if self.elector is not None and self.elector.problem is not None:
            others.append(self.elector.problem)
        return list_obstacles(self.cluster, others)

    def _tell(self, turnout: Turnout) -> None:
        if turnout.failure is None:
            self._heartbeat.beat()
        knowledge = self._recommender.knowledge
        telling.tell(turnout, knowledge)
        self._meter.note(turnout, knowledge)


async def _run(order: _Order, stop: asyncio.Event) -> None:
    clock = RealClock()
    async with connected(order.common.cluster, clock, os.environ) as client:
        running = _Process(order, client, clock)
        if order.flags.loop.export_recommendations:
            REGISTRY.register(RecommendationExporter(running.cluster.autoscalers))
        async with serving(order.flags.loop.address, running.probes), asyncio.TaskGroup() as group:
            background = (
                group.create_task(running.cluster.run()),
                group.create_task(running.settle()),
                group.create_task(watch_obstacles(running.obstacles, clock)),
            )
            await process.serve(process.Duty(running.act, running.save), stop, running.elector)
            for task in background:
                task.cancel()
