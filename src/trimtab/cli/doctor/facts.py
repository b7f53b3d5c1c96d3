"""Fetch all facts of a diagnosis at the same time, each with its own timeout."""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

from trimtab.admission.webhook.self_test import SelfTest, SelfTestOutcome
from trimtab.api.kinds.workloads import WELL_KNOWN_KINDS
from trimtab.cli.commands import read_cluster
from trimtab.cli.commands.read_cluster import ClusterView
from trimtab.cli.doctor.permissions import ask_component_rights, ask_own_rights
from trimtab.cli.runtime.history_source import PastOrder
from trimtab.cluster.address import parse_address
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.http.client import Client
from trimtab.cluster.live import diagnosis
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.live.webhook_host import LiveWebhookHost
from trimtab.core.diagnosis.api_server import Rights
from trimtab.core.diagnosis.autoscalers import AutoscalerFacts, FoundTarget, Hidden, gather
from trimtab.core.diagnosis.bounds import Bounds
from trimtab.core.diagnosis.components import STATUS_LEASE, LeaseFacts
from trimtab.core.diagnosis.findings import Unseen
from trimtab.core.diagnosis.registry import ClusterFacts, Topic
from trimtab.core.diagnosis.usage import HistoryFacts, PodName, UsageFacts
from trimtab.core.diagnosis.webhook import (
    CertificateFacts,
    Trial,
    WebhookFacts,
    list_trial_namespaces,
)
from trimtab.core.model import workloads
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.webhook.registration import MAIN, Address, Registration, ServiceAddress
from trimtab.updater.pod_owners import OwnerKey, owner_key, resolve_owners

_POLL: Final = timedelta(milliseconds=50)
_CONCURRENCY: Final = 8
_READ_AFTER: Final = timedelta(minutes=2)
"""Age at which a pod must have metrics, which need two readings."""
_BOUNDS: Final = frozenset({"limitranges", "resourcequotas"})


def lacks(sight: ClusterView, resources: Collection[str]) -> Unseen | None:
    """Return why one of these resources could not be listed; None if all were."""
    for path, error in sight.unseen.items():
        resource = path.rpartition("/")[2]
        if resource in resources:
            problem = error or TimeoutError("no answer in time")
            return diagnosis.explain_failure(problem, resource)
    return None


async def see_autoscalers(sight: ClusterView, now: datetime) -> AutoscalerFacts | Unseen:
    """Return all autoscalers with their pods."""
    lacking = lacks(
        sight,
        {"pods", "verticalpodautoscalers"} | {f"{kind.lower()}s" for kind in WELL_KNOWN_KINDS},
    )
    if lacking is not None:
        return lacking
    cluster = sight.cluster
    autoscalers = list(cluster.autoscalers)
    places = {one.namespace for one in autoscalers}
    pods = [pod for pod in cluster.pods if pod.namespace in places]
    owned = _find_owned(cluster)
    sighted = [await _sight(cluster, one, owned) for one in autoscalers]
    hidden = [
        Hidden(kind, one.namespace, one.name, str(one.error))
        for kind, store in (("vpa", cluster.autoscalers), ("pod", cluster.pods))
        for one in store.unreadable
    ]
    return gather(sighted, await _find_workloads(cluster, pods), now, hidden)


def _find_owned(cluster: LiveCluster) -> Mapping[WorkloadName, frozenset[WorkloadName]]:
    """Return all workloads below each owner."""
    found: defaultdict[WorkloadName, set[WorkloadName]] = defaultdict(set)
    for workload in cluster.workloads():
        for owner in workloads.owners_above(workload.name, cluster.owners.known):
            found[owner].add(workload.name)
    return {owner: frozenset(names) for owner, names in found.items()}


async def _sight(
    cluster: LiveCluster,
    autoscaler: Autoscaler,
    owned: Mapping[WorkloadName, frozenset[WorkloadName]],
) -> FoundTarget:
    target = autoscaler.target
    if target is None:
        return FoundTarget(autoscaler)
    name = WorkloadName(autoscaler.namespace, target.kind, target.name)
    workload = await cluster.owners.workload(name, target.api_version)
    topmost = None if workload is None else await cluster.owners.topmost(workload)
    return FoundTarget(autoscaler, workload, topmost, owned.get(name, frozenset()))


async def _find_workloads(
    cluster: LiveCluster, pods: Sequence[Pod]
) -> list[tuple[Pod, WorkloadName | None]]:
    by_owner: dict[OwnerKey, Pod] = {
        key: pod for pod in pods if (key := owner_key(pod)) is not None
    }
    found = await resolve_owners(cluster.owners, by_owner, concurrency=_CONCURRENCY)
    topmost = {key: one.topmost for key, one in found.items()}
    return [(pod, topmost.get(key) if (key := owner_key(pod)) else None) for pod in pods]


def see_bounds(sight: ClusterView) -> Bounds | Unseen:
    """Return the limit ranges and quotas of the namespaces that have autoscalers."""
    lacking = lacks(sight, _BOUNDS)
    if lacking is not None:
        return lacking
    cluster = sight.cluster
    places = {one.namespace for one in cluster.autoscalers}
    return Bounds(
        {place: cluster.limit_ranges(place) for place in places},
        {place: cluster.quotas(place) for place in places},
    )


def list_measurable(sight: ClusterView, now: datetime) -> list[PodName] | Unseen:
    """Return the pods that should have metrics by now."""
    lacking = lacks(sight, {"pods"})
    if lacking is not None:
        return lacking
    return [
        (pod.namespace, pod.name)
        for pod in sight.cluster.pods
        if pod.phase is PodPhase.RUNNING
        and not pod.is_deleting
        and any(container.is_running for container in pod.containers)
        and pod.started_at is not None
        and now - pod.started_at > _READ_AFTER
    ]


_SILENCE_SECONDS: Final = 3
"""Time after which a message says what the command waits for."""
_WORD_BYTES: Final = 8
_OF_SIGHT: Final = frozenset({Topic.AUTOSCALERS, Topic.BOUNDS, Topic.USAGE})
"""Topics that need the views of all pods."""


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Topics to examine, and how to reach them."""

    topics: frozenset[Topic]
    namespace: str = ""
    """Empty for all namespaces."""
    as_components: bool = False
    webhook_address: str = ""
    """The host:port of the webhook's certificate, if not the registered one."""
    past: PastOrder | None = None
    patience: timedelta = timedelta(seconds=15)


class Examination:
    """One examination of a cluster, for the topics of its options."""

    def __init__(self, client: Client, order: DoctorOptions, clock: RealClock) -> None:
        self._client = client
        self._order = order
        self._clock = clock
        self._ways: dict[Topic, Callable[[], Awaitable[object]]] = {
            Topic.SERVER: lambda: diagnosis.fetch_server(client),
            Topic.CLOCK: lambda: diagnosis.fetch_clock(client, clock),
            Topic.RIGHTS: self._fetch_rights,
            Topic.DEFINITIONS: lambda: diagnosis.fetch_definitions(client),
            Topic.WEBHOOK: self._fetch_webhook,
            Topic.CERTIFICATE: self._fetch_certificate,
            Topic.HISTORY: self._fetch_history,
            Topic.LEASES: self._fetch_leases,
            Topic.INSTALLED: lambda: diagnosis.fetch_installed(client, order.namespace),
            Topic.HORIZONTALS: lambda: diagnosis.fetch_horizontals(client, order.namespace),
        }

    async def run(self, tell: Callable[[str], None]) -> ClusterFacts:
        """Fetch and return the facts; report every few seconds what is still pending."""
        wanted = self._order.topics
        tasks = {
            topic: asyncio.create_task(self._attempt(topic, way()))
            for topic, way in self._ways.items()
            if topic in wanted
        }
        seeing = asyncio.create_task(self._see()) if wanted & _OF_SIGHT else None
        names = {task: topic.value for topic, task in tasks.items()}
        names |= {seeing: "pods and autoscalers"} if seeing else {}
        try:
            await _wait(names, tell)
        finally:
            for task in names:
                task.cancel()
        found = {topic.value: task.result() for topic, task in tasks.items()}
        seen = seeing.result() if seeing else {}
        return cast("Callable[..., ClusterFacts]", ClusterFacts)(**found, **seen)

    async def _attempt(self, topic: Topic, fetch: Awaitable[object]) -> object:
        return await diagnosis.attempt(fetch, topic.value, self._order.patience)

    async def _see(self) -> dict[str, object]:
        order, now = self._order, self._clock.now()
        scope = Scope(order.namespace, checkpoints=False, quotas=True)
        async with read_cluster.looking(self._client, scope, self._clock, order.patience) as sight:
            return {
                Topic.AUTOSCALERS: await self._attempt(
                    Topic.AUTOSCALERS, see_autoscalers(sight, now)
                ),
                Topic.BOUNDS: see_bounds(sight),
                Topic.USAGE: await self._attempt(Topic.USAGE, self._fetch_usage(sight)),
            }

    async def _fetch_usage(self, sight: ClusterView) -> UsageFacts | Unseen:
        now = self._clock.now()
        expected = list_measurable(sight, now)
        if isinstance(expected, Unseen):
            return expected
        namespace = self._order.namespace
        return await diagnosis.fetch_usage(self._client, namespace, expected, now)

    async def _fetch_rights(self) -> Sequence[Rights]:
        client, order = self._client, self._order
        own = await ask_own_rights(client, order.namespace, order.patience)
        if not order.as_components:
            return [own]
        fetch = diagnosis.fetch_installed(client, order.namespace)
        installed = await diagnosis.attempt(fetch, "components", order.patience)
        return [own, *await ask_component_rights(client, installed, order.patience)]

    async def _fetch_leases(self) -> LeaseFacts:
        leases = await diagnosis.fetch_leases(self._client, self._order.namespace)
        skew = timedelta()
        with suppress(ClusterError, ValueError):
            # Leases are compared with the cluster's clock, not with this machine's.
            skew = (await diagnosis.fetch_clock(self._client, self._clock)).skew
        return LeaseFacts(self._clock.now() + skew, leases)

    async def _fetch_webhook(self) -> WebhookFacts:
        mutators, registration = await diagnosis.fetch_registrations(self._client)
        webhook = registration and registration.find(MAIN)
        # A webhook that hangs must not use up the time of the whole topic.
        patience = self._order.patience / 3
        addresses: int | Unseen | None = None
        if webhook and isinstance(webhook.address, ServiceAddress):
            counting = diagnosis.count_addresses(self._client, webhook.address)
            addresses = await diagnosis.attempt(counting, "the webhook's Service", patience)
        trying = self._try_pods(registration)
        trial = await diagnosis.attempt(trying, "a trial pod", patience)
        return WebhookFacts(mutators, addresses, trial)

    async def _try_pods(self, registration: Registration | None) -> Trial | Unseen:
        """Dry-run a pod in the namespaces of the self-test, until one gets its patch."""
        if registration is None:
            return Unseen("no trial pod was sent, because no webhook is registered")
        found: Trial | Unseen = Unseen("no trial pod was sent")
        for namespace in list_trial_namespaces(registration, await self._lease_namespaces()):
            found = await self._try_pod(namespace)
            if not isinstance(found, Unseen) and found.has_passed:
                break
        return found

    async def _lease_namespaces(self) -> list[str]:
        with suppress(ClusterError):
            leases = await diagnosis.fetch_leases(self._client, self._order.namespace)
            return [one.namespace for one in leases if one.name == STATUS_LEASE]
        return []

    async def _try_pod(self, namespace: str) -> Trial | Unseen:
        result = await SelfTest(
            LiveWebhookHost(self._client), namespace, make_word=_make_word, tell=lambda _: None
        ).run()
        if result.outcome in (SelfTestOutcome.RIGHT_MISSING, SelfTestOutcome.UNREACHABLE):
            return Unseen(
                f"no trial pod was sent: {result.detail}",
                f"allow yourself to create pods in {namespace} (it is a dry run: none is made)",
            )
        return Trial(result.has_passed, result.detail)

    async def _fetch_certificate(self) -> CertificateFacts | None:
        _, registration = await diagnosis.fetch_registrations(self._client)
        webhook = registration and registration.find(MAIN)
        if not webhook:
            return None
        host, port = self._place(webhook.address)
        return await diagnosis.fetch_certificate(host, port, webhook.bundle, self._clock.now())

    def _place(self, address: Address) -> tuple[str, int]:
        if self._order.webhook_address:
            host, _, port = self._order.webhook_address.rpartition(":")
            return host, int(port)
        if isinstance(address, ServiceAddress):
            return f"{address.name}.{address.namespace}.svc", address.port
        parsed = parse_address(address)
        return parsed.host, parsed.port

    async def _fetch_history(self) -> HistoryFacts | None:
        past = self._order.past
        if past is None:
            return None
        source = past.source(self._clock, lambda _: None)
        try:
            async with source:
                series = await source.count_series()
                return HistoryFacts(past.queries.address, source.conventions(), series)
        except ClusterError as error:
            return HistoryFacts(past.queries.address, {}, {}, str(error))


async def _wait(names: dict[asyncio.Task[object], str], tell: Callable[[str], None]) -> None:
    pending = set(names)
    while pending:
        _, pending = await asyncio.wait(pending, timeout=_SILENCE_SECONDS)
        if pending:
            tell(f"still waiting for {', '.join(sorted(names[task] for task in pending))}")


def _make_word() -> str:
    return secrets.token_hex(_WORD_BYTES)
