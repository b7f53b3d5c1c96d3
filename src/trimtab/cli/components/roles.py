"""`trimtab roles`: wires the role keeper to a real cluster, as its flags say."""

from collections.abc import Sequence
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


def _build(
    order: RolesOrder, cluster: LiveCluster, client: Client, clock: RealClock
) -> component.RunningComponent:
    settings, elector = order.settings, order.elector(cluster, clock)
    heartbeat = Heartbeat(clock.elapsed, _LONGEST_SILENCE * settings.interval)
    keeper = RoleKeeper(
        cluster,
        settings=settings,
        clock=clock,
        elapsed=clock.elapsed,
        may_act=partial(component.may_act, elector),
        report=partial(_report, heartbeat, RoleLogger()),
        tracer=client.tracer,
    )
    return component.RunningComponent(
        cluster,
        # Labels stay as they are: the next role keeper corrects those that are outdated.
        Runnable(partial(heartbeat.watch, keeper.run)),
        heartbeat,
        elector,
        pages={"/roles": lambda _: pages.show_roles(keeper.plans, is_paused=settings.paused)},
    )


def _report(heartbeat: Heartbeat, logger: RoleLogger, report: RoleReport) -> None:
    if not isinstance(report, Broken):
        heartbeat.beat()
    metrics.note(report)
    logger.log(report)
