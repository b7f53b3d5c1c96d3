"""The pages that Prometheus and a kubelet read."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from itertools import pairwise

import aiohttp
import pytest
from prometheus_client import REGISTRY, Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from structlog.testing import capture_logs

from trimtab.cli.errors import FailedError, UsageError
from trimtab.cli.runtime.http_server import parse_address, serving
from trimtab.cli.runtime.pages import Probes


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def probes(*flaws: str, obstacles: Sequence[str] = ()) -> Probes:
    return Probes(health=lambda: flaws, readiness=lambda: obstacles)


async def ask(address: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
        return answer.status, await answer.text()


async def test_a_component_that_is_well_says_ok() -> None:
    address = free_address()
    async with serving(address, probes()):
        healthy, ready = await ask(address, "/health-check"), await ask(address, "/readyz")

    assert (healthy, ready) == ((200, "OK"), (200, "OK"))


async def test_a_component_that_is_not_well_says_why() -> None:
    address = free_address()
    async with serving(address, probes("silent", obstacles=["no right", "no list"])):
        sick, unready = await ask(address, "/health-check"), await ask(address, "/readyz")

    assert sick == (500, "silent")
    assert unready == (500, "no right\nno list")


async def test_metrics_are_in_the_text_format_of_prometheus() -> None:
    address = free_address()
    async with serving(address, probes()):
        status, text = await ask(address, "/metrics")

    assert status == 200
    assert "# TYPE process_resident_memory_bytes gauge\n" in text


class Measured(Collector):
    """A metric that takes what it takes to collect."""

    def __init__(self, measure: Callable[[], float]) -> None:
        self._measure = measure

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("measured", "What was measured.", value=self._measure())

    def describe(self) -> list[Metric]:
        return []


@contextmanager
def measured(measure: Callable[[], float]) -> Iterator[None]:
    """Metrics have one more, for as long as the block lasts."""
    collector = Measured(measure)
    REGISTRY.register(collector)
    try:
        yield
    finally:
        REGISTRY.unregister(collector)


async def test_ten_scrapes_at_once_cost_one() -> None:
    address, counted = free_address(), iter(range(100))
    host, _, port = address.rpartition(":")
    with measured(lambda: next(counted)):
        async with serving(address, probes()), AsyncExitStack() as stack:
            # There may be megabytes of metrics, of all that other tests have imported.
            scrapers = [
                await asyncio.open_connection(host, int(port), limit=2**24) for _ in range(10)
            ]
            for reader, writer in scrapers:
                stack.callback(writer.transport.abort)
                writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
                await reader.readuntil(b"OK")
            # Nobody takes a turn between these, so all of them are there when the first is read.
            for _, writer in scrapers:
                writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            values = [
                await reader.readuntil(b"\nmeasured ") and await reader.readline()
                for reader, _ in scrapers
            ]

    assert values == [b"0.0\n"] * 10


async def test_each_scrape_shows_what_was_so_when_it_was_asked_for() -> None:
    address, counted = free_address(), iter(range(100))
    with measured(lambda: next(counted)):
        async with serving(address, probes()):
            texts = [(await ask(address, "/metrics"))[1] for _ in range(3)]

    assert [f"\nmeasured {number}.0\n" in text for number, text in enumerate(texts)] == [True] * 3


async def test_metrics_that_could_not_be_collected_are_nobody_else_s_concern() -> None:
    address, outcomes = free_address(), iter([1.0, 0.0, 2.0])
    with measured(lambda: 1 / next(outcomes)), capture_logs() as logged:
        async with serving(address, probes()):
            answers = [await ask(address, "/metrics") for _ in range(3)]
            ready = await ask(address, "/readyz")

    assert [status for status, _ in answers] == [200, 500, 200]
    assert "\nmeasured 0.5\n" in answers[2][1]
    assert [each["page"] for each in logged] == ["/metrics"]
    assert ready == (200, "OK")


async def test_a_kubelet_gets_past_a_crowd_that_asks_nothing() -> None:
    address = free_address()
    host, _, port = address.rpartition(":")
    async with serving(address, probes()), AsyncExitStack() as stack:
        for _ in range(150):
            stack.enter_context(closing(socket.create_connection((host, int(port)))))
            await asyncio.sleep(0)
        answers = [await ask(address, path) for path in ("/health-check", "/readyz")]

    assert answers == [(200, "OK")] * 2


async def test_a_page_of_the_component_is_json_and_knows_its_query() -> None:
    address = free_address()
    pages = {"/plan": lambda query: f'["{query["namespace"]}"]'.encode()}
    async with (
        serving(address, probes(), pages),
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}/plan?namespace=shop") as answer,
    ):
        said = answer.status, await answer.json()

    assert said == (200, ["shop"])


async def test_a_page_that_breaks_is_answered_and_logged_once_until_it_is_whole() -> None:
    address, outcomes = free_address(), iter([b"", b"", b"[]", b""])

    def show(_: Mapping[str, str]) -> bytes:
        return next(outcomes) or b"%d" % (1 // 0)

    with capture_logs() as logged:
        async with serving(address, probes(), {"/plan": show}):
            answers = [await ask(address, "/plan") for _ in range(4)]

    broken = (500, "this page is broken: see the log\n")
    assert answers == [broken, broken, (200, "[]"), broken]
    assert [each["page"] for each in logged] == ["/plan"] * 2


class Slow:
    """Takes a while each time, and remembers when."""

    def __init__(self) -> None:
        self.clock = asyncio.get_running_loop().time
        self.spans: list[tuple[float, float]] = []

    def take_a_while(self, _: object = None) -> bytes:
        begin = self.clock()
        while self.clock() - begin < 0.002:
            pass
        self.spans.append((begin, self.clock()))
        return b"[]"

    def rested(self) -> bool:
        """Whether there were four times as long between two as the first took."""
        return all(
            begin_of_next - end >= 4 * (end - begin)
            for (begin, end), (begin_of_next, _) in pairwise(self.spans)
        )


async def test_whoever_asks_for_many_pages_leaves_most_of_the_time_to_others() -> None:
    address, slow = free_address(), Slow()
    async with serving(address, probes(), {"/plan": slow.take_a_while}):
        answers = await asyncio.gather(*(ask(address, "/plan") for _ in range(4)))

    assert answers == [(200, "[]")] * 4
    assert len(slow.spans) == 4
    assert slow.rested()


async def test_whoever_scrapes_without_end_leaves_most_of_the_time_to_others() -> None:
    address, slow = free_address(), Slow()
    with measured(lambda: len(slow.take_a_while())):
        async with serving(address, probes()):
            answers = [await ask(address, "/metrics") for _ in range(4)]

    assert [status for status, _ in answers] == [200] * 4
    assert len(slow.spans) == 4
    assert slow.rested()


async def talk(address: str, *requests: bytes) -> bytes:
    """All that is answered until the other side has nothing more to say."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"".join(requests))
    answer = await reader.read()
    writer.transport.abort()
    return answer


GOODBYE = b"GET /readyz HTTP/1.1\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        pytest.param(b"GET /debug HTTP/1.1\r\n\r\n", 404, id="a page that is not there"),
        pytest.param(b"DELETE /readyz HTTP/1.1\r\n\r\n", 405, id="something to be done"),
        pytest.param(b"GET /readyz?verbose HTTP/1.1\r\n\r\n", 200, id="a query that nobody reads"),
    ],
)
async def test_a_connection_is_kept_whatever_is_asked(request_text: bytes, status: int) -> None:
    address = free_address()
    async with serving(address, probes()):
        answer = await talk(address, request_text, GOODBYE)

    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"%d " % status)
    assert second.startswith(b"200 OK\r\n")


async def test_the_head_of_a_page_comes_without_its_body() -> None:
    address = free_address()
    async with serving(address, probes()):
        answer = await talk(address, b"HEAD /readyz HTTP/1.1\r\n\r\n", GOODBYE)

    head = answer.split(b"HTTP/1.1 ")[1]
    assert b"Content-Length: 2\r\n" in head
    assert head.endswith(b"\r\n\r\n")


async def test_a_body_that_looks_like_a_request_is_none() -> None:
    address, body = free_address(), b"GET /metrics HTTP/1.1\r\n\r\n"
    request = b"GET /readyz HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with serving(address, probes()):
        answer = await talk(address, request, GOODBYE)

    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert answer.count(b"\r\n\r\nOK") == 2


async def test_a_connection_of_an_old_client_ends_after_its_answer() -> None:
    address = free_address()
    async with serving(address, probes()):
        answer = await talk(address, b"GET /readyz HTTP/1.0\r\n\r\n")

    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(b"\r\n\r\nOK")


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"x" * 100_000, id="a head without an end"),
        pytest.param(b"\x16\x03\x01\r\n\r\n", id="another protocol"),
    ],
)
async def test_noise_ends_its_connection_and_no_other(noise: bytes) -> None:
    address = free_address()
    async with serving(address, probes()):
        with suppress(ConnectionError):
            await talk(address, noise)
        ready = await ask(address, "/readyz")

    assert ready == (200, "OK")


async def test_an_address_that_is_taken_is_told_in_one_line() -> None:
    address = free_address()
    async with serving(address, probes()):
        with pytest.raises(FailedError, match=f"^cannot listen on {address}: "):
            async with serving(address, probes()):
                pass


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param(":8942", (None, 8942), id="all interfaces"),
        pytest.param("127.0.0.1:80", ("127.0.0.1", 80), id="one of them"),
        pytest.param("[::1]:80", ("::1", 80), id="an address of version 6"),
        pytest.param("localhost:0", ("localhost", 0), id="a name"),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str | None, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "8942", ":", ":http", ":65536", "::1:80", ":-1", ":\u0663"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--address"):
        parse_address(text)
