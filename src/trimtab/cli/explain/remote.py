"""Explanations by running components, asked by address or through the API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import SystemRandom
from typing import Final, TypeVar

import msgspec

from trimtab.api.explain import recommendation
from trimtab.api.explain.pods import PodsPage, decode_pods
from trimtab.api.explain.recommendation import NumbersPage
from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.codec import DecodeError
from trimtab.cli.errors import FailedError, UsageError
from trimtab.cluster.auth import credentials
from trimtab.cluster.auth.credentials import Connection, FixedCredentials, Identity
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError, ForbiddenError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.live import diagnosis, page_reviews
from trimtab.core.diagnosis.components import Component, Installed
from trimtab.core.model.pods import Pod
from trimtab.core.webhook.page_access import PAGES_TOKEN

NUMBERS: Final = "/explain/numbers"
PODS: Final = "/explain/pods"

USUAL_PLACE: Final = "trimtab-system"
"""The namespace of the install guide."""
_SCHEMES: Final = ("http://", "https://")
_ASKED: Final = (Component.RECOMMENDER, Component.UPDATER)
_ELSEWHERE: Final = "--components-namespace says where else they are, --from at which address"
_NOTHING: Final = b"null"
_PATIENCE_SECONDS: Final = 5
"""Timeout of a request to a component."""

_PageT = TypeVar("_PageT", NumbersPage, PodsPage)


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """The autoscaler or pod that components are asked about."""

    namespace: str
    autoscaler: str = ""
    pod: str = ""

    def parameters(self) -> Mapping[str, str]:
        """Return the parameters of the URL's query."""
        values = {"namespace": self.namespace, "autoscaler": self.autoscaler, "pod": self.pod}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class Answers:
    """Pages that components returned; None where there was no answer."""

    numbers: NumbersPage | None = None
    pods: PodsPage | None = None
    remarks: tuple[str, ...] = ()


async def ask_addresses(
    addresses: Sequence[str], question: ExplainQuery, fetch_token: Callable[[], Awaitable[str]]
) -> Answers:
    """Ask the components at some addresses; a FailedError if one does not answer."""
    numbers, pods = None, None
    for address in addresses:
        async with _visiting(await _find_identity(address, fetch_token), address) as client:
            numbers = numbers or await _visit(
                client, address, NUMBERS, question, recommendation.decode_numbers
            )
            pods = pods or await _visit(client, address, PODS, question, decode_pods)
    return Answers(numbers, pods)


async def ask_through_server(client: Client, place: str, question: ExplainQuery) -> Answers:
    """Ask the components through the API server, as far as the caller may.

    They are those of the namespace `place`, or else those that `doctor` finds.
    """
    try:
        found = await _find_components(client, place, question.namespace)
        chosen = choose_components(found, question.namespace, place)
    except (ClusterError, DecodeError) as error:
        return Answers(remarks=(f"components cannot be looked for: {error}",))
    if isinstance(chosen, str):
        return Answers(remarks=(chosen,))
    answers = Answers()
    for each in chosen:
        answers = await _ask_component(client, each, question, answers)
    return answers


def choose_components(
    found: Sequence[Installed], namespace: str, place: str = ""
) -> Sequence[Installed] | str:
    """Choose the recommenders and updaters to ask about a namespace; a remark if there are none.

    All of them are in one namespace. Any Deployment can pretend to be a component and return any
    answer. So among several namespaces the usual one is chosen, or the caller has to choose.
    """
    able = [
        one
        for one in found
        if one.is_ours and one.component in _ASKED and one.watched in ("", namespace)
    ]
    places = sorted({one.namespace for one in able})
    if not able:
        where = f" in {place}" if place else ""
        return f"no component that serves {namespace} was found{where}; {_ELSEWHERE}"
    if len(places) > 1 and USUAL_PLACE not in places:
        return f"components run in {', '.join(places)}; --components-namespace says which to ask"
    chosen = places[0] if len(places) == 1 else USUAL_PLACE
    return [one for one in able if one.namespace == chosen]


async def _find_components(client: Client, place: str, namespace: str) -> list[Installed]:
    try:
        return await diagnosis.find_components(client, namespace, place=place)
    except ForbiddenError:
        if place:
            raise
        # Tenants may have permissions for this namespace only.
        return await diagnosis.find_components(client, namespace, place=USUAL_PLACE)


async def _ask_component(
    client: Client, component: Installed, question: ExplainQuery, known: Answers
) -> Answers:
    """Ask the pods of a component for the pages that are still missing."""
    numbers, pods, remarks = known.numbers, known.pods, [*known.remarks]
    try:
        copies = await diagnosis.list_pods(client, component, decode_pod)
        ask = await _find_way(client, component)
    except (ClusterError, DecodeError) as error:
        remark = f"the pods of {component.place} cannot be asked: {error}"
        return replace(known, remarks=(*remarks, remark))
    for pod in copies:
        try:
            if component.component is Component.UPDATER:
                pods = pods or await ask(pod, PODS, question, decode_pods)
            else:
                numbers = numbers or await ask(
                    pod, NUMBERS, question, recommendation.decode_numbers
                )
        except (ClusterError, DecodeError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            remarks.append(f"{pod.namespace}/{pod.name} could not be asked: {why}")
    return Answers(numbers, pods, tuple(remarks))


def check_addresses(addresses: Sequence[str]) -> None:
    """Raise a UsageError for an address that is not http or https."""
    for each in addresses:
        if not each.startswith(_SCHEMES):
            raise UsageError(f"--from: {each!r} is not an address such as https://localhost:8942")


async def _find_identity(address: str, fetch_token: Callable[[], Awaitable[str]]) -> Identity:
    """Return the identity for requests to the component at an address.

    Its certificate does not prove who it is, so it gets a token that is worthless elsewhere.
    """
    if not address.startswith("https://"):
        return Identity()
    try:
        return Identity(credentials.trust_anyone(), ((PAGES_TOKEN, await fetch_token()),))
    except (ClusterError, DecodeError) as error:
        raise FailedError(f"no token for {address}: {error}") from error


@asynccontextmanager
async def _visiting(identity: Identity, address: str) -> AsyncIterator[Client]:
    clock = RealClock()
    connection = Connection(address.rstrip("/"), FixedCredentials(identity))
    budget = RequestBudget(clock, rate=0, burst=1)
    async with Client(connection, clock=clock, random=SystemRandom(), budget=budget) as client:
        yield client


async def _visit(
    client: Client,
    address: str,
    path: str,
    question: ExplainQuery,
    decode: Callable[[bytes], _PageT],
) -> _PageT | None:
    try:
        return await _ask(client, path, question, decode)
    except NotFoundError:
        # Components of other kinds lack this page.
        return None
    except (ClusterError, DecodeError, TimeoutError) as error:
        why = str(error) or "no answer in time"
        raise FailedError(f"no explanation at {address}: {why}") from error


async def _ask(
    client: Client,
    path: str,
    question: ExplainQuery,
    decode: Callable[[bytes], _PageT],
    headers: tuple[tuple[str, str], ...] = (),
) -> _PageT | None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        data = await client.fetch(path, question.parameters(), headers=headers)
    return None if data.strip() == _NOTHING else decode(data)


@dataclass(frozen=True, slots=True)
class _Way:
    """Requests to the pods of a component through the API server, with a token if need be."""

    client: Client
    scheme: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    async def __call__(
        self, pod: Pod, page: str, question: ExplainQuery, decode: Callable[[bytes], _PageT]
    ) -> _PageT | None:
        # Without a port the API server takes the pod's first one, which serves pages.
        named = f"{self.scheme}:{pod.name}:" if self.scheme else pod.name
        path = f"{paths.item(paths.pods(pod.namespace), named, 'proxy')}{page}"
        answer = await _ask(self.client, path, question, decode, self.headers)
        return None if answer is None else _sign(answer, pod)


async def _find_way(client: Client, component: Installed) -> _Way:
    """Return the access to the pods of a component; a ClusterError without a token for it."""
    if not component.is_secure:
        return _Way(client)
    # The API server does not forward our own credentials to the pod.
    token = await page_reviews.fetch_pages_token(client, component.namespace)
    return _Way(client, "https", ((PAGES_TOKEN, token),))


def _sign(page: _PageT, pod: Pod) -> _PageT:
    """Return the page with a first remark that names the pod it comes from."""
    remarks = (f"answered by the pod {pod.name} in {pod.namespace}", *page.remarks)
    return msgspec.structs.replace(page, remarks=remarks)
