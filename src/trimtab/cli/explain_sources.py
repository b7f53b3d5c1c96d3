"""Where explanations come from: components that run, asked by address or through the API server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import SystemRandom
from typing import Final, TypeVar

import msgspec

from trimtab.api.decoding import DecodeError
from trimtab.api.explained_numbers import NumbersPage, decode_numbers
from trimtab.api.explained_pods import PodsPage, decode_pods
from trimtab.api.lists import decode_list
from trimtab.api.pods import decode_pod
from trimtab.cli.failures import FailedError
from trimtab.cli.usage import UsageError
from trimtab.cluster import paths
from trimtab.cluster.budget import RequestBudget
from trimtab.cluster.client import Client
from trimtab.cluster.clock import RealClock
from trimtab.cluster.credentials import Connection, FixedCredentials, Identity
from trimtab.cluster.errors import ClusterError, NotFoundError
from trimtab.core.pods import Pod
from trimtab.core.records import dataclass

NUMBERS: Final = "/explain/numbers"
PODS: Final = "/explain/pods"

_COMPONENTS: Final = {
    "labelSelector": "app.kubernetes.io/part-of=trimtab,"
    "app.kubernetes.io/component in (recommender,updater)"
}
_COMPONENT: Final = "app.kubernetes.io/component"
_ELSEWHERE: Final = "--components-namespace says where else they are"
_NOTHING: Final = b"null"
_PATIENCE_SECONDS: Final = 5
"""A component that does not answer by then is done without."""

_PageT = TypeVar("_PageT", NumbersPage, PodsPage)


@dataclass(frozen=True, slots=True)
class Question:
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


async def ask_addresses(addresses: Sequence[str], question: Question) -> Answers:
    """What the components at some addresses say; a FailedError if one does not answer."""
    numbers, pods = None, None
    for address in addresses:
        async with _visiting(address) as client:
            numbers = numbers or await _visit(client, address, NUMBERS, question, decode_numbers)
            pods = pods or await _visit(client, address, PODS, question, decode_pods)
    return Answers(numbers, pods)


async def ask_through_server(client: Client, place: str, question: Question) -> Answers:
    """What the components in a namespace say, as far as we may ask them.

    Nowhere else is looked for them: whoever may make a pod can give it any label.
    """
    try:
        data = await client.fetch(paths.pods(place), _COMPONENTS)
        found = decode_list(data, decode_pod).items
    except (ClusterError, DecodeError) as error:
        return Answers(remarks=(f"nobody tells which components run in {place}: {error}",))
    if not found:
        return Answers(remarks=(f"no component runs in {place}; {_ELSEWHERE}",))
    numbers, pods, remarks = None, None, []
    for pod in found:
        try:
            if pod.labels.get(_COMPONENT) == "updater":
                pods = pods or await _ask_pod(client, pod, PODS, question, decode_pods)
            else:
                numbers = numbers or await _ask_pod(client, pod, NUMBERS, question, decode_numbers)
        except (ClusterError, DecodeError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            remarks.append(f"{pod.namespace}/{pod.name} could not be asked: {why}")
    return Answers(numbers, pods, tuple(remarks))


def check_addresses(addresses: Sequence[str]) -> None:
    """Refuse what is no address of a component."""
    for each in addresses:
        if not each.startswith("http://"):
            raise UsageError(f"--from: {each!r} is not an address such as http://localhost:8942")


@asynccontextmanager
async def _visiting(address: str) -> AsyncIterator[Client]:
    clock = RealClock()
    connection = Connection(address.rstrip("/"), FixedCredentials(Identity()))
    budget = RequestBudget(clock, rate=0, burst=1)
    async with Client(connection, clock=clock, random=SystemRandom(), budget=budget) as client:
        yield client


async def _visit(
    client: Client,
    address: str,
    path: str,
    question: Question,
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
    client: Client, path: str, question: Question, decode: Callable[[bytes], _PageT]
) -> _PageT | None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        data = await client.fetch(path, question.parameters())
    return None if data.strip() == _NOTHING else decode(data)


async def _ask_pod(
    client: Client, pod: Pod, page: str, question: Question, decode: Callable[[bytes], _PageT]
) -> _PageT | None:
    answer = await _ask(client, _proxied(pod, page), question, decode)
    return None if answer is None else _sign(answer, pod)


def _sign(page: _PageT, pod: Pod) -> _PageT:
    """The page, which says first who told it."""
    remarks = (f"told by the pod {pod.name} in {pod.namespace}", *page.remarks)
    return msgspec.structs.replace(page, remarks=remarks)


def _proxied(pod: Pod, page: str) -> str:
    # Without a port the API server takes the first one that the pod names, which is this one's.
    return f"{paths.item(paths.pods(pod.namespace), pod.name, 'proxy')}{page}"
