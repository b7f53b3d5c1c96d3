"""All facts of a diagnosis, fetched at the same time, each within its own."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, cast

from trimtab.admission.self_testing import Outcome, SelfTest
from trimtab.cli.doctor_rights import ask_component_rights, ask_own_rights
from trimtab.cli.doctor_sight import list_measurable, see_autoscalers, see_bounds
from trimtab.cli.history import PastOrder
from trimtab.cli.viewing import Sight, looking
from trimtab.cluster import examining
from trimtab.cluster.adapter import Scope
from trimtab.cluster.address import parse_address
from trimtab.cluster.client import Client
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.webhook_host import LiveWebhookHost
from trimtab.core.diagnosis import Unseen
from trimtab.core.diagnosis_admission import (
    CertificateFacts,
    Trial,
    WebhookFacts,
    list_trial_namespaces,
)
from trimtab.core.diagnosis_checks import Facts, Topic
from trimtab.core.diagnosis_components import STATUS_LEASE, LeaseFacts
from trimtab.core.diagnosis_server import Rights
from trimtab.core.diagnosis_usage import HistoryFacts, UsageFacts
from trimtab.core.records import dataclass
from trimtab.core.registration import (
    MAIN,
    Address,
    Registration,
    ServiceAddress,
)

_SILENCE_SECONDS: Final = 3
"""After so long people want to know what is waited for."""
_WORD_BYTES: Final = 8
_OF_SIGHT: Final = frozenset({Topic.AUTOSCALERS, Topic.BOUNDS, Topic.USAGE})
"""What follows from a look at all pods."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be looked at, and how."""

    topics: frozenset[Topic]
    namespace: str = ""
    """Empty for all namespaces."""
    as_components: bool = False
    webhook_address: str = ""
    """Where the webhook shows its certificate, if not where it is registered."""
    past: PastOrder | None = None
    patience: timedelta = timedelta(seconds=15)


class Examination:
    """One look at everything that was ordered."""

    def __init__(self, client: Client, order: Order, clock: RealClock) -> None:
        self._client = client
        self._order = order
        self._clock = clock
        self._ways: dict[Topic, Callable[[], Awaitable[object]]] = {
            Topic.SERVER: lambda: examining.fetch_server(client),
            Topic.CLOCK: lambda: examining.fetch_clock(client, clock),
            Topic.RIGHTS: self._fetch_rights,
            Topic.DEFINITIONS: lambda: examining.fetch_definitions(client),
            Topic.WEBHOOK: self._fetch_webhook,
            Topic.CERTIFICATE: self._fetch_certificate,
            Topic.HISTORY: self._fetch_history,
            Topic.LEASES: self._fetch_leases,
            Topic.INSTALLED: lambda: examining.fetch_installed(client, order.namespace),
            Topic.HORIZONTALS: lambda: examining.fetch_horizontals(client, order.namespace),
        }

    async def run(self, tell: Callable[[str], None]) -> Facts:
        """The facts; who waits for long is told what for."""
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
        return cast("Callable[..., Facts]", Facts)(**found, **seen)

    async def _attempt(self, topic: Topic, fetch: Awaitable[object]) -> object:
        return await examining.attempt(fetch, topic.value, self._order.patience)

    async def _see(self) -> dict[str, object]:
        order, now = self._order, self._clock.now()
        scope = Scope(order.namespace, checkpoints=False, quotas=True)
        async with looking(self._client, scope, self._clock, order.patience) as sight:
            return {
                Topic.AUTOSCALERS: await self._attempt(
                    Topic.AUTOSCALERS, see_autoscalers(sight, now)
                ),
                Topic.BOUNDS: see_bounds(sight),
                Topic.USAGE: await self._attempt(Topic.USAGE, self._fetch_usage(sight)),
            }

    async def _fetch_usage(self, sight: Sight) -> UsageFacts | Unseen:
        now = self._clock.now()
        expected = list_measurable(sight, now)
        if isinstance(expected, Unseen):
            return expected
        namespace = self._order.namespace
        return await examining.fetch_usage(self._client, namespace, expected, now)

    async def _fetch_rights(self) -> Sequence[Rights]:
        client, order = self._client, self._order
        own = await ask_own_rights(client, order.namespace, order.patience)
        if not order.as_components:
            return [own]
        fetch = examining.fetch_installed(client, order.namespace)
        installed = await examining.attempt(fetch, "components", order.patience)
        return [own, *await ask_component_rights(client, installed, order.patience)]

    async def _fetch_leases(self) -> LeaseFacts:
        leases = await examining.fetch_leases(self._client, self._order.namespace)
        skew = timedelta()
        with suppress(ClusterError, ValueError):
            # Leases are judged by the cluster's clock, not by that of this machine.
            skew = (await examining.fetch_clock(self._client, self._clock)).skew
        return LeaseFacts(self._clock.now() + skew, leases)

    async def _fetch_webhook(self) -> WebhookFacts:
        mutators, registration = await examining.fetch_registrations(self._client)
        webhook = registration and registration.find(MAIN)
        # What is known already must not be lost to a webhook that hangs.
        patience = self._order.patience / 3
        addresses: int | Unseen | None = None
        if webhook and isinstance(webhook.address, ServiceAddress):
            counting = examining.count_addresses(self._client, webhook.address)
            addresses = await examining.attempt(counting, "the webhook's Service", patience)
        trying = self._try_pods(registration)
        trial = await examining.attempt(trying, "a pod that was tried", patience)
        return WebhookFacts(mutators, addresses, trial)

    async def _try_pods(self, registration: Registration | None) -> Trial | Unseen:
        """What became of a pod where the admission controller runs: it answers no others."""
        if registration is None:
            return Unseen("no pod was tried, for there is no webhook")
        found: Trial | Unseen = Unseen("no pod was tried")
        for namespace in list_trial_namespaces(registration, await self._lease_namespaces()):
            found = await self._try_pod(namespace)
            if not isinstance(found, Unseen) and found.has_passed:
                break
        return found

    async def _lease_namespaces(self) -> list[str]:
        with suppress(ClusterError):
            leases = await examining.fetch_leases(self._client, self._order.namespace)
            return [one.namespace for one in leases if one.name == STATUS_LEASE]
        return []

    async def _try_pod(self, namespace: str) -> Trial | Unseen:
        result = await SelfTest(
            LiveWebhookHost(self._client), namespace, make_word=_make_word, tell=lambda _: None
        ).run()
        if result.outcome in (Outcome.RIGHT_MISSING, Outcome.UNREACHABLE):
            return Unseen(
                f"no pod was tried: {result.detail}",
                f"allow yourself to create pods in {namespace} (it is a dry run: none is made)",
            )
        return Trial(result.has_passed, result.detail)

    async def _fetch_certificate(self) -> CertificateFacts | None:
        _, registration = await examining.fetch_registrations(self._client)
        webhook = registration and registration.find(MAIN)
        if not webhook:
            return None
        host, port = self._place(webhook.address)
        return await examining.fetch_certificate(host, port, webhook.bundle, self._clock.now())

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
