"""Where explanations come from: components that run, asked by address or through the API server."""

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
"""A component that does not answer by then is done without."""

_PageT = TypeVar("_PageT", NumbersPage, PodsPage)


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """What is asked of components."""

    namespace: str
    autoscaler: str = ""
    pod: str = ""

    def parameters(self) -> Mapping[str, str]:
        """The same as the query of an address."""
        told = {"namespace": self.namespace, "autoscaler": self.autoscaler, "pod": self.pod}
        return {name: value for name, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class Answers:
    """What components said; None where none did."""

    numbers: NumbersPage | None = None
    pods: PodsPage | None = None
    remarks: tuple[str, ...] = ()


async def ask_addresses(
    addresses: Sequence[str], question: ExplainQuery, fetch_token: Callable[[], Awaitable[str]]
) -> Answers:
    """What the components at some addresses say; a FailedError if one does not answer."""
    numbers, pods = None, None
    for address in addresses:
        async with _visiting(await _find_identity(address, fetch_token), address) as client:
            numbers = numbers or await _visit(
                client, address, NUMBERS, question, recommendation.decode_numbers
            )
            pods = pods or await _visit(client, address, PODS, question, decode_pods)
    return Answers(numbers, pods)


async def ask_through_server(client: Client, place: str, question: ExplainQuery) -> Answers:
    """Return what the components say, as far as we may ask them.

    They are those of one place, or else those that `doctor` finds.
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

    They are all in one namespace. Whoever may make a Deployment can make it look like a component,
    and have it say anything, so between several namespaces only a person can choose.
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
        # Tenants may see no other namespace but this one.
        return await diagnosis.find_components(client, namespace, place=USUAL_PLACE)


async def _ask_component(
    client: Client, component: Installed, question: ExplainQuery, known: Answers
) -> Answers:
    """Return what is known once the pods of a component were asked, too."""
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
    """Refuse what is no address of a component."""
    for each in addresses:
        if not each.startswith(_SCHEMES):
            raise UsageError(f"--from: {each!r} is not an address such as https://localhost:8942")


async def _find_identity(address: str, fetch_token: Callable[[], Awaitable[str]]) -> Identity:
    """Return what shows the component at an address that we may ask it.

    Its certificate says nothing of who it is, so it gets a token that is worthless elsewhere.
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
        # Another component, which has no such page.
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
    """The way to the pods of a component: through the API server, with a token if need be."""

    client: Client
    scheme: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    async def __call__(
        self, pod: Pod, page: str, question: ExplainQuery, decode: Callable[[bytes], _PageT]
    ) -> _PageT | None:
        # Without a port the API server takes the first one that the pod names: this one's.
        named = f"{self.scheme}:{pod.name}:" if self.scheme else pod.name
        path = f"{paths.item(paths.pods(pod.namespace), named, 'proxy')}{page}"
        answer = await _ask(self.client, path, question, decode, self.headers)
        return None if answer is None else _sign(answer, pod)


async def _find_way(client: Client, component: Installed) -> _Way:
    """Return the way to the pods of a component; a ClusterError if there is no token for it."""
    if not component.is_secure:
        return _Way(client)
    # The API server keeps our own credentials to itself when it passes a request on.
    token = await page_reviews.fetch_pages_token(client, component.namespace)
    return _Way(client, "https", ((PAGES_TOKEN, token),))


def _sign(page: _PageT, pod: Pod) -> _PageT:
    """The page, which says first who told it."""
    remarks = (f"told by the pod {pod.name} in {pod.namespace}", *page.remarks)
    return msgspec.structs.replace(page, remarks=remarks)
