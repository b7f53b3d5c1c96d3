"""`trimtab updater`: wires the updater to a real cluster, as its flags say."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from trimtab.cli.flags import updater
from trimtab.cli.flags.common import CommonFlags
from trimtab.cli.flags.types import Unused
from trimtab.cli.flags.updater import UpdaterFlags
from trimtab.cli.runtime import component
from trimtab.cli.runtime.health import Heartbeat
from trimtab.cli.runtime.process import Runnable
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.ports import Tracer
from trimtab.core.model.hpa import HpaConflict
from trimtab.updater import logs, pages
from trimtab.updater.controller import Updater
from trimtab.updater.decisions import Decisions
from trimtab.updater.metrics import UpdaterMeter
from trimtab.updater.pages import show_plan
from trimtab.updater.reports import News, PlanMade, ViewNotReady
from trimtab.updater.settings import UpdaterSettings

_COMMON: Final = CommonFlags()
_FLAGS: Final = UpdaterFlags()

UpdaterOrder: TypeAlias = component.ParsedFlags[UpdaterFlags, UpdaterSettings]


def update(
    *,
    unused: Unused = (),
    flags: UpdaterFlags = _FLAGS,
    common: CommonFlags = _COMMON,
) -> int:
    """Run the updater until a signal ends it; return the exit code."""
    order = check(unused, flags, common)
    return component.run(order, make_part(order))


def check(unused: Sequence[str], flags: UpdaterFlags, common: CommonFlags) -> UpdaterOrder:
    """Check the flags; a UsageError if they are invalid."""
    make = partial(updater.to_settings, common.cluster, flags, os.environ)
    return component.check(unused, common, flags, make)


def make_part(order: UpdaterOrder) -> component.ComponentSpec:
    """Return the spec of the updater, to be built on a cluster."""
    scope = Scope(
        order.settings.namespace,
        checkpoints=False,
        nodes=True,
        quotas=True,
        namespaces=True,
        horizontals=order.settings.hpa_conflict is HpaConflict.HOLD,
    )
    return component.ComponentSpec("updater", scope, partial(_build, order))


class _Process:
    """The updater and the parts around it."""

    def __init__(
        self, order: UpdaterOrder, cluster: LiveCluster, clock: RealClock, tracer: Tracer
    ) -> None:
        settings = self._settings = order.settings
        self.cluster = cluster
        self.elector = order.elector(self.cluster, clock)
        self.updater = Updater(
            self.cluster,
            settings=settings,
            clock=clock,
            may_act=self._may_act,
            tell=self._tell,
            tracer=tracer,
        )
        silence = component.INTERVALS_UNTIL_DEAD * settings.interval
        self.heartbeat = Heartbeat(clock.elapsed, silence)
        self._decisions = Decisions()
        self._meter = UpdaterMeter(lambda: self.updater.report.waiting)

    async def act(self) -> None:
        with self.heartbeat.expected():
            await self.updater.run()

    async def finish(self) -> None:
        """Do nothing: a plan needs no saved state."""

    def show_plan(self, query: Mapping[str, str]) -> bytes:
        return show_plan(
            self.updater.last_plan,
            self._decisions,
            self.updater.report,
            query,
            is_paused=self._settings.plan.paused,
        )

    def explain(self, query: Mapping[str, str]) -> bytes:
        waiting = self.updater.report.waiting
        return pages.show_page(self.updater.last_look, self._settings.plan, waiting, query)

    def _may_act(self) -> bool:
        return self.elector is None or self.elector.leads()

    def _tell(self, news: News) -> None:
        if isinstance(news, ViewNotReady) or (isinstance(news, PlanMade) and news.is_all):
            self.heartbeat.beat()
        changed = self._decisions.hear(news)
        logs.log_report(news, changed)
        self._meter.note(news, changed, self._decisions.held)


def _build(
    order: UpdaterOrder, cluster: LiveCluster, client: Client, clock: RealClock
) -> component.RunningComponent:
    running = _Process(order, cluster, clock, client.tracer)
    return component.RunningComponent(
        running.cluster,
        Runnable(running.act, running.finish, running.updater.drain),
        running.heartbeat,
        running.elector,
        pages={"/plan": running.show_plan, "/explain/pods": running.explain},
    )
