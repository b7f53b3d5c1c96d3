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
from trimtab.core.model.hpa import HpaConflict
from trimtab.updater import logs, pages
from trimtab.updater.controller import Updater
from trimtab.updater.decisions import Decisions
from trimtab.updater.metrics import UpdaterMeter
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


def _build(
    order: UpdaterOrder, cluster: LiveCluster, client: Client, clock: RealClock
) -> component.RunningComponent:
    settings, elector = order.settings, order.elector(cluster, clock)
    heartbeat = Heartbeat(clock.elapsed, component.INTERVALS_UNTIL_DEAD * settings.interval)
    decisions = Decisions()
    meter = UpdaterMeter(lambda: running.report.waiting)

    def report(news: News) -> None:
        if isinstance(news, ViewNotReady) or (isinstance(news, PlanMade) and news.is_all):
            heartbeat.beat()
        changed = decisions.hear(news)
        logs.log_report(news, changed)
        meter.note(news, changed, decisions.held)

    def show_plan(query: Mapping[str, str]) -> bytes:
        return pages.show_plan(
            running.last_plan,
            decisions,
            running.report,
            query,
            is_paused=settings.plan.paused,
            waiting=running.count_waiting(),
        )

    def explain(query: Mapping[str, str]) -> bytes:
        waiting = running.report.waiting
        return pages.show_page(running.last_look, settings.plan, waiting, query)

    running = Updater(
        cluster,
        settings=settings,
        clock=clock,
        may_act=partial(component.may_act, elector),
        tell=report,
        tracer=client.tracer,
    )
    return component.RunningComponent(
        cluster,
        # A plan needs no saved state.
        Runnable(partial(heartbeat.watch, running.run), wind_down=running.drain),
        heartbeat,
        elector,
        pages={"/plan": show_plan, "/explain/pods": explain},
    )
