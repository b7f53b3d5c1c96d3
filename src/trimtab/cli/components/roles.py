"""`trimtab roles`: wires the role keeper to a real cluster, as its flags say."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from trimtab.cli.flags import roles
from trimtab.cli.flags.common import CommonFlags
from trimtab.cli.flags.roles import RolesFlags
from trimtab.cli.flags.types import Unused
from trimtab.cli.runtime import component
from trimtab.cli.runtime.health import Heartbeat
from trimtab.cli.runtime.process import Runnable
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.ports import Tracer
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.roles import metrics, pages
from trimtab.roles.controller import RoleKeeper
from trimtab.roles.logs import RoleLogger
from trimtab.roles.reports import Broken, RoleReport
from trimtab.roles.settings import RolesSettings

_COMMON: Final = CommonFlags()
_FLAGS: Final = RolesFlags()
_ELECTING_KINDS: Final = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
"""Kinds of workloads whose pods may elect a leader."""
_LONGEST_SILENCE: Final = 60
"""Maximum intervals without a tick: a tick may have to wait for the API server."""

RolesOrder: TypeAlias = component.ParsedFlags[RolesFlags, RolesSettings]


def keep_roles(
    *,
    unused: Unused = (),
    flags: RolesFlags = _FLAGS,
    common: CommonFlags = _COMMON,
) -> int:
    """Run the role keeper until a signal ends it; return the exit code."""
    order = check(unused, flags, common)
    return component.run(order, make_part(order))


def check(unused: Sequence[str], flags: RolesFlags, common: CommonFlags) -> RolesOrder:
    """Check the flags; a UsageError if they are invalid."""

    def make(_: FeatureGates) -> RolesSettings:
        return roles.to_settings(common.cluster, flags)

    return component.check(unused, common, flags, make)


def make_part(order: RolesOrder) -> component.ComponentSpec:
    """Return the spec of the role keeper, to be built on a cluster."""
    scope = Scope(
        order.settings.namespace,
        autoscalers=False,
        checkpoints=False,
        limit_ranges=False,
        leases=True,
        kinds=_ELECTING_KINDS,
    )
    return component.ComponentSpec("roles", scope, partial(_build, order))


class _Process:
    """The role keeper and the parts around it."""

    def __init__(
        self, order: RolesOrder, cluster: LiveCluster, clock: RealClock, tracer: Tracer
    ) -> None:
        self._settings = settings = order.settings
        self.cluster = cluster
        self.elector = elector = order.elector(self.cluster, clock)
        self._keeper = RoleKeeper(
            self.cluster,
            settings=settings,
            clock=clock,
            elapsed=clock.elapsed,
            may_act=lambda: elector is None or elector.leads(),
            report=self._tell,
            tracer=tracer,
        )
        self.heartbeat = Heartbeat(clock.elapsed, _LONGEST_SILENCE * settings.interval)
        self._narrator = RoleLogger()

    async def act(self) -> None:
        with self.heartbeat.expected():
            await self._keeper.run()

    async def finish(self) -> None:
        """Leave the labels as they are: the next role keeper corrects those that are outdated."""

    def show(self, _: Mapping[str, str]) -> bytes:
        return pages.show_roles(self._keeper.plans, is_paused=self._settings.paused)

    def _tell(self, news: RoleReport) -> None:
        if not isinstance(news, Broken):
            self.heartbeat.beat()
        metrics.note(news)
        self._narrator.log(news)


def _build(
    order: RolesOrder, cluster: LiveCluster, client: Client, clock: RealClock
) -> component.RunningComponent:
    running = _Process(order, cluster, clock, client.tracer)
    return component.RunningComponent(
        running.cluster,
        Runnable(running.act, running.finish),
        running.heartbeat,
        running.elector,
        pages={"/roles": running.show},
    )
