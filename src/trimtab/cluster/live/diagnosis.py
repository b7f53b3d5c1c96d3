"""Facts about a cluster for a diagnosis: each fact by itself, in its time, whatever else fails.

`core.diagnosis` interprets the facts. A fact that cannot be read is a fact, too (`Unseen`).
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from trimtab.api.admission import certificates
from trimtab.api.crds import comparison, definitions
from trimtab.api.kinds import (
    access_reviews,
    deployments,
    discovery,
    hpa,
    leases,
    webhook_configurations,
)
from trimtab.api.kinds.access_reviews import Question
from trimtab.api.wire import lists
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.auth import credentials
from trimtab.cluster.errors import ApiError, ClusterError, ForbiddenError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.leader_election import is_ours
from trimtab.cluster.ports import Clock
from trimtab.cluster.usage.metrics_api import MetricsApi
from trimtab.core.diagnosis.api_server import ClockFacts, Definition, ServerFacts
from trimtab.core.diagnosis.components import LEASES, STATUS_LEASE, HeldLease, Installed
from trimtab.core.diagnosis.findings import Unseen
from trimtab.core.diagnosis.usage import PodName, UsageFacts
from trimtab.core.diagnosis.webhook import CertificateFacts, Mutator
from trimtab.core.model.hpa import Horizontal
from trimtab.core.webhook.registration import Registration, ServiceAddress

_T = TypeVar("_T")

_VERSION: Final = "/version"
_OF_OBJECTS: Final = ("/api/", "/apis/")
_DEFINITIONS: Final = paths.collection("apiextensions.k8s.io/v1", "customresourcedefinitions")
_MUTATORS: Final = paths.collection(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"
)
_DEPLOYMENTS: Final = ("apps/v1", "deployments")
_REVIEWS: Final = "authorization.k8s.io/v1"
_LEASES: Final = frozenset({*LEASES.values(), STATUS_LEASE})
_BUT_FOR_NODES: Final = {"fieldSelector": "metadata.namespace!=kube-node-lease"}
_PAGE: Final = "500"
_MOST_QUESTIONS: Final = 8
"""Maximum number of questions in flight."""
_HALF_A_SECOND: Final = timedelta(milliseconds=500)
_GREETING_SECONDS: Final = 3
_BIND: Final = "bind the chart's role for doctor to yourself, or ask an administrator"


async def attempt(fetch: Awaitable[_T], what: str, patience: timedelta) -> _T | Unseen:
    """Return what is fetched, or the reason why it could not be read in time."""
    try:
        async with asyncio.timeout(patience.total_seconds()):
            return await fetch
    except TimeoutError:
        return Unseen(f"{what}: no answer within {patience.total_seconds():.0f} s")
    except (ClusterError, DecodeError) as error:
        return explain_failure(error, what)


def explain_failure(error: Exception, what: str) -> Unseen:
    """Explain a failure in plain words."""
    if isinstance(error, ForbiddenError):
        path = error.request.rpartition(" ")[2]
        if not path.startswith(_OF_OBJECTS):
            # A path outside the resource API: no list, and no resource.
            return Unseen(f"{what}: you may not get {path}", _BIND)
        if error.right is not None:
            return Unseen(f"{what}: you may not {error.right}", _BIND)
    return Unseen(f"{what}: {error}")


async def list_all(
    client: Client,
    path: str,
    decode: Callable[[bytes], _T],
    parameters: Mapping[str, str] | None = None,
) -> list[_T]:
    """List all objects of a collection that can be read, page by page."""
    found: list[_T] = []
    token = ""
    while True:
        asked = {**(parameters or {}), "limit": _PAGE} | ({"continue": token} if token else {})
        page = lists.decode_list(await client.fetch(path, asked), decode)
        found += page.items
        # A token is good for some minutes; an expired one is a 410, which the caller reports.
        token = page.continue_token
        if not token:
            return found


async def list_widely(
    client: Client,
    place: tuple[str, str],
    namespace: str,
    decode: Callable[[bytes], _T | None],
    parameters: Mapping[str, str] | None = None,
) -> list[_T]:
    """List the objects of all namespaces that decode to something.

    Where that is not allowed, list those of the given namespace. If it has none, raise the
    refusal: there may be some elsewhere.
    """
    try:
        found = await list_all(client, paths.collection(*place), decode, parameters)
    except ForbiddenError:
        if not namespace:
            raise
        found = await list_all(client, paths.collection(*place, namespace), decode, parameters)
        if not any(each is not None for each in found):
            # They may be in namespaces that we may not read.
            raise
    return [each for each in found if each is not None]


async def fetch_server(client: Client) -> ServerFacts:
    """Fetch the API server's version and capabilities."""
    version = discovery.decode_git_version(await client.fetch(_VERSION))
    try:
        names = discovery.decode_resource_names(await client.fetch("/api/v1"))
    except ClusterError as error:
        return ServerFacts(version, explain_failure(error, "what the server can do"))
    return ServerFacts(version, "pods/resize" in names)


async def fetch_clock(client: Client, clock: Clock) -> ClockFacts:
    """Return the time on both sides, in the middle of a request."""
    begin = clock.now()
    date = await client.fetch_date(_VERSION)
    end = clock.now()
    try:
        # A Date header has whole seconds.
        there = parsedate_to_datetime(date).astimezone(UTC) + _HALF_A_SECOND
    except ValueError as error:
        raise DecodeError("Date", f"not a time: {date!r}") from error
    # As in NTP: the answer was made at some time in between, and the middle errs least.
    return ClockFacts(begin + (end - begin) / 2, there)


async def fetch_missing(
    client: Client, questions: Sequence[Question], account: tuple[str, str] | None = None
) -> tuple[str, ...]:
    """Return those of the rights that are missing, as people read them."""
    kind = "selfsubjectaccessreviews" if account is None else "subjectaccessreviews"
    path = paths.collection(_REVIEWS, kind)
    turns = asyncio.Semaphore(_MOST_QUESTIONS)

    async def ask(question: Question) -> bool:
        async with turns:
            answer = await client.post(path, access_reviews.encode_question(question, account))
            return access_reviews.decode_answer(answer) is True

    answers = await asyncio.gather(*(ask(question) for question in questions))
    return tuple(str(one) for one, may in zip(questions, answers, strict=True) if not may)


async def fetch_definitions(client: Client) -> list[Definition]:
    """Compare our resource definitions with those in the cluster."""
    found = []
    for wanted in definitions.definitions():
        name = comparison.name_of(wanted)
        try:
            data = await client.fetch(paths.item(_DEFINITIONS, name))
        except NotFoundError:
            found.append(Definition(name, is_there=False))
        else:
            found.append(comparison.compare_definition(wanted, data))
    return found


async def fetch_registrations(client: Client) -> tuple[tuple[Mutator, ...], Registration | None]:
    """Return all webhooks that see new pods, in the order of their calls, and our registration."""
    documents = await list_all(client, _MUTATORS, bytes)
    found = [webhook_configurations.decode_mutators(one) for one in documents]
    # Whether all of others' registrations can be read does not matter.
    ours = [
        document
        for document, group in zip(documents, found, strict=True)
        if any(one.is_ours for one in group)
    ]
    return webhook_configurations.order_mutators(found), webhook_configurations.decode_registration(
        ours[0]
    ) if ours else None


async def count_addresses(client: Client, service: ServiceAddress) -> int:
    """Count the ready addresses behind a Service."""
    place = paths.collection("discovery.k8s.io/v1", "endpointslices", service.namespace)
    selector = {"labelSelector": f"kubernetes.io/service-name={service.name}"}
    found = await list_all(client, place, deployments.decode_ready_addresses, selector)
    return len(frozenset().union(*found))


async def fetch_certificate(host: str, port: int, bundle: str, now: datetime) -> CertificateFacts:
    """Return the certificate at an address, and whether clients with the bundle trust it."""
    authorities = certificates.read_bundle(bundle)
    try:
        shown = certificates.read_certificate(await _greet(host, port, credentials.trust_anyone()))
    except (OSError, DecodeError) as error:
        unseen = Unseen(
            f"no certificate was seen at {host}:{port} ({type(error).__name__}); a Service is "
            "reached only from within the cluster",
            "kubectl port-forward the webhook's Service, and name that by --webhook-address",
        )
        return CertificateFacts(now, authorities, unseen, unseen)
    return CertificateFacts(now, authorities, shown, await _is_believed(host, port, bundle))


async def _is_believed(host: str, port: int, bundle: str) -> bool | Unseen:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The server name is the API server's choice, so it is not checked here.
    context.check_hostname = False
    try:
        context.load_verify_locations(cadata=bundle)
        await _greet(host, port, context)
    except (ssl.SSLError, ValueError):
        return False
    except OSError as error:
        return Unseen(f"no handshake with {host}:{port}: {error}")
    return True


async def _greet(host: str, port: int, context: ssl.SSLContext) -> bytes:
    """Return the certificate that a server presents in a handshake."""
    async with asyncio.timeout(_GREETING_SECONDS):
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        shown: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return shown.getpeercert(binary_form=True) or b""
    finally:
        writer.transport.abort()


async def fetch_leases(client: Client, namespace: str) -> list[HeldLease]:
    """List all leases that have a name of ours."""
    place = ("coordination.k8s.io/v1", "leases")
    return await list_widely(client, place, namespace, _decode_lease, _BUT_FOR_NODES)


def _decode_lease(data: bytes) -> HeldLease | None:
    lease = leases.decode_lease(data)
    if lease.name not in _LEASES:
        return None
    return HeldLease(
        lease.namespace,
        lease.name,
        lease.holder,
        is_ours(lease.holder),
        lease.renewed_at,
        lease.duration or timedelta(seconds=15),
    )


async def find_components(client: Client, namespace: str, *, place: str = "") -> list[Installed]:
    """Find the Deployments of components: in one place, or wherever they are.

    Where all namespaces may not be listed, only the namespace that is looked at counts.
    """
    if place:
        found = await list_all(
            client, paths.collection(*_DEPLOYMENTS, place), deployments.decode_component
        )
        return [each for each in found if each is not None]
    return await list_widely(client, _DEPLOYMENTS, namespace, deployments.decode_component)


async def list_pods(client: Client, one: Installed, decode: Callable[[bytes], _T]) -> list[_T]:
    """List the pods of a component; none if its Deployment does not say which they are."""
    if not one.labels:
        return []
    selector = ",".join(f"{key}={value}" for key, value in sorted(one.labels.items()))
    return await list_all(client, paths.pods(one.namespace), decode, {"labelSelector": selector})


async def fetch_installed(client: Client, namespace: str) -> list[Installed]:
    """List all Deployments of components, with the problems of their pods."""
    found = await find_components(client, namespace)
    return [await _ask_pods(client, one) for one in found]


async def _ask_pods(client: Client, one: Installed) -> Installed:
    try:
        pods = await list_pods(client, one, bytes)
    except ForbiddenError:
        return one
    for pod in pods:
        one = deployments.with_pod(one, pod)
    return one


async def fetch_horizontals(client: Client, namespace: str) -> list[Horizontal]:
    """List all HorizontalPodAutoscalers."""
    path = paths.collection("autoscaling/v2", "horizontalpodautoscalers", namespace)
    return await list_all(client, path, hpa.decode_horizontal)


async def fetch_usage(
    client: Client, namespace: str, expected: Sequence[PodName], now: datetime
) -> UsageFacts:
    """Return the usage that the metrics API reports; that it does not answer is a fact as well."""
    try:
        answer = await MetricsApi(client, namespace).fetch()
    except ForbiddenError:
        raise
    except ApiError as error:
        return UsageFacts(now, {}, expected, str(error))
    times = [datetime.fromtimestamp(each, UTC) for each in answer.times]
    names = zip(answer.namespaces, answer.pods, strict=True)
    return UsageFacts(now, dict(zip(names, times, strict=True)), expected)
