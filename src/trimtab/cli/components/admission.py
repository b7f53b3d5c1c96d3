"""`trimtab admission-controller`: wires admission to a real cluster, as its flags say."""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Final, NoReturn, TypeAlias

import structlog
from prometheus_client import REGISTRY
from structlog.contextvars import bound_contextvars

from trimtab.admission.admit import Admission
from trimtab.admission.live_lookups import LiveLookups
from trimtab.admission.logs import RateLimitedLogger
from trimtab.admission.metrics import AdmissionCollector
from trimtab.admission.overlap_guard import MAX_PATIENCE, OverlapGuard
from trimtab.admission.reports import AdmissionCounts
from trimtab.admission.review import Reviewer
from trimtab.admission.server import tls
from trimtab.admission.server.handler import Answering
from trimtab.admission.server.limits import ServerLimits
from trimtab.admission.server.server import WebhookServer
from trimtab.admission.settings import AdmissionSettings
from trimtab.admission.webhook.upkeep import UpkeepSettings
from trimtab.cli import errors
from trimtab.cli.components.admission_webhook import (
    WebhookPlace,
    WebhookSurroundings,
    find_place,
    list_advice,
    surround,
    to_upkeep_settings,
)
from trimtab.cli.errors import UsageError
from trimtab.cli.flags import admission, start
from trimtab.cli.flags.admission import AdmissionFlags, RegistrationFlags, TlsFlags
from trimtab.cli.flags.common import CommonFlags, LeaderlessFlags
from trimtab.cli.flags.types import Unused
from trimtab.cli.runtime import (
    cluster_connection,
    component,
    health,
    logs,
    process,
    tracing,
    workers,
)
from trimtab.cli.runtime.health import Heartbeat, ReadWatchdog
from trimtab.cli.runtime.process import GRACE, Runnable
from trimtab.cli.runtime.workers import WorkerProcesses
from trimtab.cluster import errors as cluster_errors
from trimtab.cluster.auth import credentials
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.ports import Tracer
from trimtab.core.model.hpa import HpaConflict

_COMMON: Final = LeaderlessFlags()
_FLAGS: Final = AdmissionFlags()

_FIRST_LOOKS: Final = timedelta(seconds=1)
_LOOK_AGAIN: Final = timedelta(minutes=1)
"""Interval between looks for targets whose owners must be fetched."""
_REPORT_INTERVAL: Final = timedelta(seconds=1)

_Order: TypeAlias = component.ParsedFlags[AdmissionFlags, AdmissionSettings]

_NAME: Final = "admission-controller"

_logger: Final = structlog.stdlib.get_logger(__name__)


def admit(
    *,
    unused: Unused = (),
    flags: AdmissionFlags = _FLAGS,
    common: LeaderlessFlags = _COMMON,
) -> int:
    """Run the admission controller until a signal ends it; return the exit code."""
    order = check(unused, flags, common.common)
    # Checked before workers are forked: they would outlive a UsageError.
    component.check_variables(common.common, flags)
    with opened(order) as endpoint:
        processes = workers.fork(_count_workers(flags.care.workers) - 1)
        if isinstance(processes, workers.Link):
            logs.set_up(common.logs)
            with bound_contextvars(component=_NAME):
                return process.run(partial(_work, order, endpoint, processes))
        advice = list_advice(flags)
        return component.run(order.order, make_part(order, endpoint, processes), advice)


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """The TLS context and the socket on which the API server connects."""

    context: ssl.SSLContext
    listener: socket.socket


@dataclass(frozen=True, slots=True)
class AdmissionOrder:
    """The checked command line of the admission controller."""

    order: _Order
    context: ssl.SSLContext
    place: WebhookPlace
    upkeep: UpkeepSettings


def check(unused: Sequence[str], flags: AdmissionFlags, common: CommonFlags) -> AdmissionOrder:
    """Check the flags; a UsageError if they are invalid."""
    make = partial(admission.to_settings, common.cluster, flags, os.environ)
    order = component.check(unused, common, flags, make)
    context = _make_context(flags.tls)
    _require_clients(context, flags.care.webhook_client_ca_file)
    _check_address(flags.registration)
    place = find_place(flags.tls, os.environ)
    upkeep = start.make_settings(
        lambda: to_upkeep_settings(common.cluster, flags, place),
        start.list_changed(common, flags),
    )
    return AdmissionOrder(order, context, place, upkeep)


@contextmanager
def opened(order: AdmissionOrder) -> Iterator[WebhookEndpoint]:
    """Yield the listening socket of the webhook; close it at the end of the block."""
    flags = order.order.flags
    with workers.bind(flags.care.bind_address, flags.serving.port) as listener:
        yield WebhookEndpoint(order.context, listener)


def make_part(
    order: AdmissionOrder, endpoint: WebhookEndpoint, processes: WorkerProcesses
) -> component.ComponentSpec:
    """Return the spec of the admission controller, to be built on a cluster."""
    build = partial(_build, order, endpoint, processes)
    return component.ComponentSpec(_NAME, _scope(order.order.settings), build)


def _count_workers(asked: int) -> int:
    if asked < 0:
        raise UsageError(f"--workers must be at least 0, not {asked}")
    return workers.count_workers(asked)


def _make_context(flags: TlsFlags) -> ssl.SSLContext:
    try:
        version = tls.parse_version(flags.min_tls_version)
    except ValueError as error:
        known = " or ".join(tls.TlsVersion)
        text = flags.min_tls_version
        raise UsageError(f"--min-tls-version: {text!r} is not {known}") from error
    return tls.make_context(version, tls.parse_ciphers(flags.tls_ciphers))


def _require_clients(context: ssl.SSLContext, authority: str) -> None:
    if not authority:
        return
    try:
        tls.require_clients(context, Path(authority))
    except OSError as error:
        problem = (
            credentials.describe_flaw(error)
            if isinstance(error, ssl.SSLError)
            else cluster_errors.describe(error)
        )
        raise UsageError(f"--webhook-client-ca-file: {authority}: {problem}") from error


def _check_address(given: RegistrationFlags) -> None:
    if given.register_by_url and not given.webhook_address.startswith("https://"):
        address = errors.quote(given.webhook_address)
        raise UsageError(f"--webhook-address: {address} does not begin with https://")


class _Webhook:
    """The webhook, as the first process and its workers run it, and the parts around it."""

    def __init__(
        self,
        order: _Order,
        cluster: LiveCluster,
        clock: RealClock,
        around: WebhookSurroundings,
        tracer: Tracer,
        patience: timedelta,
    ) -> None:
        settings = order.settings
        self.cluster = cluster
        self._clock = clock
        self._around = around
        logger = RateLimitedLogger(time.perf_counter)
        self._admission = Admission(cluster, settings, logger, time.perf_counter)
        self._is_prepared = asyncio.Event()
        lookups = LiveLookups(cluster.fetch_autoscaler, time.perf_counter)
        self._claims = OverlapGuard(self._admission.index, lookups, time.perf_counter)
        self.tally = AdmissionCounts(pods=self._admission.counts)
        self.answering = Answering(
            Reviewer(self._admission, self._claims, settings, logger, around.probe),
            self.tally,
            time.perf_counter,
            logger,
            tracer,
        )
        limits = ServerLimits(patience=patience)
        self.server = WebhookServer(
            self.answering, time.perf_counter, limits, process.give_back_memory
        )

    async def act(self, endpoint: WebhookEndpoint, processes: WorkerProcesses) -> None:
        """Answer reviews, renew the status lease, and collect the counts of the workers."""
        async with asyncio.TaskGroup() as group:
            group.create_task(processes.listen())
            group.create_task(self.answer(endpoint))
            group.create_task(self._promise())

    async def answer(self, endpoint: WebhookEndpoint) -> None:
        """Answer reviews, once the certificate is loaded and the cluster is listed."""
        certificates = self._around.certificates
        await certificates.load_first(endpoint.context)
        await self.cluster.synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._admission.run())
            group.create_task(self._claims.run())
            group.create_task(self.server.sweep())
            group.create_task(self._keep_prepared())
            group.create_task(self.server.listen(endpoint.listener, endpoint.context))
            _logger.info("listening", port=endpoint.listener.getsockname()[1])
            group.create_task(certificates.keep_fresh(endpoint.context))

    async def _promise(self) -> None:
        """Renew the status lease, once admission is prepared for all targets."""
        await self._is_prepared.wait()
        await self._around.lease.run()

    async def _keep_prepared(self) -> NoReturn:
        while True:
            if self._admission.prepare():
                self._is_prepared.set()
            is_prepared = self._is_prepared.is_set()
            await self._clock.sleep(_LOOK_AGAIN if is_prepared else _FIRST_LOOKS)

    def list_problems(self) -> Iterable[Exception]:
        """Return missing permissions for the registration and the keys."""
        return self._around.list_problems()

    def list_reasons(self) -> list[str]:
        """Return why the webhook does not answer; empty if it does."""
        return [] if self.server.is_open else ["the webhook is not open"]

    async def drain(self, processes: WorkerProcesses | None = None) -> None:
        """Answer the requests that have begun to arrive, and end the workers."""
        async with asyncio.TaskGroup() as group:
            if processes is not None:
                group.create_task(processes.end(GRACE))
            if not await self.server.drain(GRACE):
                _logger.warning("some requests were not answered in time")


def _scope(settings: AdmissionSettings) -> Scope:
    return Scope(
        settings.namespace,
        pods=False,
        checkpoints=False,
        nodes=settings.caps_to_nodes,
        optional_quotas=True,
        horizontals=settings.hpa_conflict is HpaConflict.HOLD,
    )


def _make_webhook(
    order: AdmissionOrder, cluster: LiveCluster, client: Client, clock: RealClock
) -> _Webhook:
    asked = order.order
    around = surround(
        asked.flags,
        asked.settings,
        order.upkeep,
        order.place,
        cluster=cluster,
        client=client,
        clock=clock,
    )
    # Half of the timeout is left for the answer itself.
    half = timedelta(seconds=order.upkeep.registration.timeout_seconds) / 2
    patience = min(MAX_PATIENCE, half)
    return _Webhook(asked, cluster, clock, around, client.tracer, patience)


def _build(
    order: AdmissionOrder,
    endpoint: WebhookEndpoint,
    processes: WorkerProcesses,
    cluster: LiveCluster,
    client: Client,
    clock: RealClock,
) -> component.RunningComponent:
    running = _make_webhook(order, cluster, client, clock)
    REGISTRY.register(
        AdmissionCollector(
            lambda: (running.tally, *processes.tallies), lambda: running.server.connections
        )
    )
    return component.RunningComponent(
        running.cluster,
        Runnable(
            partial(running.act, endpoint, processes), wind_down=partial(running.drain, processes)
        ),
        Heartbeat(clock.elapsed, GRACE),
        elector=None,
        list_problems=running.list_problems,
        list_reasons=running.list_reasons,
        # Pods that were evicted at the last moment must still get their new size.
        ends_last=True,
    )


async def _work(
    order: AdmissionOrder, endpoint: WebhookEndpoint, link: workers.Link, stop: asyncio.Event
) -> None:
    """Answer reviews in a worker, until a signal or the loss of its parent or the cluster."""
    clock = RealClock()

    async def report(tally: AdmissionCounts) -> None:
        await link.report(tally, _REPORT_INTERVAL)
        stop.set()

    async with (
        tracing.traced(_NAME, os.environ) as tracer,
        cluster_connection.connected(
            order.order.common.cluster, clock, os.environ, tracer=tracer
        ) as client,
    ):
        scope = _scope(order.order.settings)
        cluster = LiveCluster(client, scope, clock=clock, random=SystemRandom())
        running = _make_webhook(order, cluster, client, clock)
        timeout = order.order.common.cluster.read_timeout
        watchdog = ReadWatchdog(cluster.required_reads, clock.elapsed, timeout)

        async def end_when_blind() -> None:
            flaws = await health.wait_for_flaws(watchdog.flaws, clock)
            _logger.error("a worker ends: it cannot read the cluster", flaws=flaws)
            stop.set()

        async with asyncio.TaskGroup() as group:
            background = (
                group.create_task(running.cluster.run()),
                group.create_task(running.answer(endpoint)),
                group.create_task(report(running.tally)),
                group.create_task(end_when_blind()),
            )
            await stop.wait()
            await running.drain()
            for task in background:
                task.cancel()
