"""`trimtab admission-controller`: wires admission to a real cluster, as its flags say."""

import asyncio
import os
import socket
import ssl
import time
from functools import partial
from random import SystemRandom
from typing import Annotated, Final, TypeAlias

import structlog
from cyclopts import Parameter
from prometheus_client import REGISTRY

from trimtab.admission import tls
from trimtab.admission.admitting import Admission
from trimtab.admission.answering import Answering
from trimtab.admission.claims import Claims
from trimtab.admission.metrics import AdmissionCollector
from trimtab.admission.reviewing import Reviewer
from trimtab.admission.serving import WebhookServer
from trimtab.admission.settings import AdmissionSettings
from trimtab.admission.tallies import Tally
from trimtab.admission.upkeep import UpkeepSettings
from trimtab.cli import component, listening, starting
from trimtab.cli.admission_flags import AdmissionFlags, TlsFlags, to_settings
from trimtab.cli.admission_upkeep import (
    Place,
    Surroundings,
    find_place,
    surround,
    to_upkeep_settings,
)
from trimtab.cli.flags import LeaderlessFlags
from trimtab.cli.health import Heartbeat
from trimtab.cli.process import GRACE, Duty
from trimtab.cli.usage import UsageError
from trimtab.cluster.adapter import LiveCluster, Scope
from trimtab.cluster.client import Client
from trimtab.cluster.clock import RealClock

_COMMON: Final = LeaderlessFlags()
_FLAGS: Final = AdmissionFlags()

_Order: TypeAlias = component.Order[AdmissionFlags, AdmissionSettings]

_logger: Final = structlog.stdlib.get_logger(__name__)


def admit(
    *stray: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    flags: AdmissionFlags = _FLAGS,
    common: LeaderlessFlags = _COMMON,
) -> int:
    """Run until told to end."""
    make = partial(to_settings, common.cluster, flags, os.environ)
    order = component.check(stray, common.common, flags, make)
    context = _make_context(flags.tls)
    place = find_place(flags.tls, os.environ)
    upkeep = starting.make_settings(
        lambda: to_upkeep_settings(common.cluster, flags, place),
        starting.list_changed(common.common, flags),
    )
    with listening.bind(flags.care.bind_address, flags.serving.port) as listener:
        build = partial(_build, order, context, listener, (place, upkeep))
        return component.run("admission-controller", order, build)


def _make_context(flags: TlsFlags) -> ssl.SSLContext:
    try:
        version = tls.parse_version(flags.min_tls_version)
    except ValueError as error:
        known = " or ".join(tls.TlsVersion)
        text = flags.min_tls_version
        raise UsageError(f"--min-tls-version: {text!r} is not {known}") from error
    return tls.make_context(version, tls.parse_ciphers(flags.tls_ciphers))


class _Process:
    """The admission controller and what it needs around it."""

    def __init__(
        self,
        order: _Order,
        cluster: LiveCluster,
        clock: RealClock,
        around: Surroundings,
    ) -> None:
        settings = order.settings
        self.cluster = cluster
        self._around = around
        self._admission = Admission(cluster, settings)
        claims = Claims(self._admission.index, clock)
        self.tally = Tally(pods=self._admission.counts)
        self.answering = Answering(
            Reviewer(self._admission, claims, settings, around.probe),
            self.tally,
            time.perf_counter,
        )
        self.server = WebhookServer(self.answering, time.perf_counter)
        REGISTRY.register(
            AdmissionCollector(lambda: (self.tally,), lambda: self.server.connections)
        )

    async def act(self, context: ssl.SSLContext, listener: socket.socket) -> None:
        """Answer whoever asks, as soon as there is anything to answer from."""
        await self._around.certificates.load_first(context)
        await self.cluster.synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._admission.run())
            group.create_task(self.server.sweep())
            await self.server.listen(listener, context)
            _logger.info("listening", port=listener.getsockname()[1])
            group.create_task(self._around.certificates.keep_fresh(context))
            group.create_task(self._around.lease.run())

    def list_reasons(self) -> list[str]:
        """Why nobody is answered."""
        return [] if self.server.is_open else ["the webhook is not open"]

    async def drain(self) -> None:
        """Answer what has begun to come, and nothing more."""
        if not await self.server.drain(GRACE):
            _logger.warning("some requests were not answered in time")

    async def finish(self) -> None:
        """Nothing is to be saved."""


def _build(
    order: _Order,
    context: ssl.SSLContext,
    listener: socket.socket,
    registered: tuple[Place, UpkeepSettings],
    client: Client,
    clock: RealClock,
) -> component.Component:
    settings = order.settings
    scope = Scope(settings.namespace, pods=False, checkpoints=False, nodes=settings.caps_to_nodes)
    cluster = LiveCluster(client, scope, clock=clock, random=SystemRandom())
    place, upkeep = registered
    around = surround(
        order.flags, order.settings, upkeep, place, cluster=cluster, client=client, clock=clock
    )
    running = _Process(order, cluster, clock, around)
    return component.Component(
        cluster,
        Duty(partial(running.act, context, listener), running.finish, running.drain),
        Heartbeat(clock.elapsed, GRACE),
        elector=None,
        list_reasons=running.list_reasons,
    )
