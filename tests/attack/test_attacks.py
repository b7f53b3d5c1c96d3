"""Attacks on a webhook that runs as a process: good requests go on being answered."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from attack.bad_http import SHAPES, Shape
from attack.conftest import a_good_review
from attack.webhook import LOOPBACK, Webhook, a_sibling
from support.makers.hostile_requests import hostile_requests
from support.makers.reviews import AUTOSCALERS, a_review
from support.makers.worst_reviews import POD_RESOURCES, a_large_pod

from trimtab.core.model import size_bounds

REVIEWS = 100_000
AT_A_TIME = 32
LIMIT_MIB = 384
"""The memory limit of the chart."""
MOST_MIB = 0.75 * LIMIT_MIB
SLOW = 200
CHUNKS_MS = 1000
"""A quarter of what it took before small chunks were refused, on a machine that does much else."""
RESTING = 1000
RESTING_BYTES = 400 * 1024


def a_request(body: bytes, content_type: str = "application/json") -> bytes:
    head = f"POST / HTTP/1.1\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body


def assert_unharmed(webhook: Webhook) -> None:
    """The last attack cost no good request, and the memory is within bounds."""
    last = webhook.figures[-1]
    assert last.good_requests > 0
    assert last.failed == 0, last
    assert last.peak_mib < MOST_MIB, last


def assert_given_back(webhook: Webhook, before_mib: float) -> None:
    """The memory is soon what it was before, but for a tenth of the limit."""
    ends_at = time.monotonic() + 30
    while webhook.resident_mib > before_mib + 0.1 * LIMIT_MIB and time.monotonic() < ends_at:
        time.sleep(0.5)
    assert webhook.resident_mib < before_mib + 0.1 * LIMIT_MIB


@asynccontextmanager
async def connected(
    webhook: Webhook, *, is_secure: bool = True
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection, and end it at once after the block, whatever state it is in."""
    context = webhook.trust if is_secure else None
    reader, writer = await asyncio.open_connection(LOOPBACK, webhook.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def send_reviews(webhook: Webhook, reviews: Iterator[tuple[str, bytes]]) -> int:
    """Send reviews on one connection; return how many were answered by a review."""
    answered = 0
    async with connected(webhook) as (reader, writer):
        for content_type, body in reviews:
            writer.write(a_request(body, content_type))
            status, found = await read_response(reader)
            assert status == 200
            assert isinstance(json.loads(found)["response"]["allowed"], bool)
            answered += 1
    return answered


def test_malformed_reviews_are_answered_and_leave_nothing_behind(webhook: Webhook) -> None:
    async def attack(count: int) -> int:
        share = count // AT_A_TIME
        sending = (
            send_reviews(webhook, hostile_requests(seed, share)) for seed in range(AT_A_TIME)
        )
        return sum(await asyncio.gather(*sending))

    asyncio.run(attack(REVIEWS // 50))
    before = webhook.resident_mib
    with webhook.attacked(f"{REVIEWS} malformed reviews"):
        assert asyncio.run(attack(REVIEWS)) == REVIEWS

    assert_unharmed(webhook)
    assert webhook.resident_mib < before + 0.1 * LIMIT_MIB


def send_shape(webhook: Webhook, shape: Shape) -> list[int]:
    """Send a shape; return the statuses that come back until the webhook ends the connection."""
    statuses: list[int] = []
    with webhook.connect() as connection:
        # The webhook may end the connection before it has read everything.
        with suppress(OSError):
            connection.sendall(shape.sent)
        if shape.leaves:
            return statuses
        with suppress(OSError), connection.makefile("rb") as stream:
            while (line := stream.readline()) != b"":
                statuses.append(int(line.split()[1]))
                length = 0
                while (header := stream.readline()) not in (b"\r\n", b""):
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                stream.read(length)
    return statuses


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_bad_http_is_refused_and_ends_its_connection(webhook: Webhook, shape: Shape) -> None:
    assert tuple(send_shape(webhook, shape)) == shape.statuses
    assert "patch" in webhook.ask(a_good_review())


def test_slow_and_silent_connections_hold_up_nobody(webhook: Webhook) -> None:
    request = a_request(b" " * 2000)

    async def be_slow(number: int) -> None:
        """Connect, send nothing, a part, or a byte now and then, until the webhook ends it."""
        async with connected(webhook, is_secure=number % 4 != 0) as (reader, writer):
            with suppress(OSError, TimeoutError):
                if number % 4 == 1:
                    writer.write(request[: len(request) // 2])
                for place in range(12 if number % 4 == 2 else 0):
                    writer.write(request[place : place + 1])
                    await writer.drain()
                    await asyncio.sleep(1)
                async with asyncio.timeout(12):
                    await reader.read()

    async def attack() -> None:
        found = await asyncio.gather(*map(be_slow, range(SLOW)), return_exceptions=True)
        # Where too many handshakes are under way the oldest is ended.
        assert all(each is None or isinstance(each, OSError) for each in found)

    with webhook.attacked(f"{SLOW} slow and silent connections"):
        asyncio.run(attack())

    assert_unharmed(webhook)


def test_bodies_in_chunks_of_one_byte_do_not_stall_others(webhook: Webhook) -> None:
    head = b"POST / HTTP/1.1\r\nHost: webhook\r\nTransfer-Encoding: chunked\r\n\r\n"
    request = head + b"1\r\n \r\n" * 64 * 1024

    async def send(ends_at: float) -> None:
        while time.monotonic() < ends_at:
            with suppress(OSError):
                async with connected(webhook) as (_, writer):
                    writer.write(request)
                    await writer.drain()

    async def attack() -> None:
        await asyncio.gather(*(send(time.monotonic() + 10) for _ in range(SLOW)))

    with webhook.attacked(f"{SLOW} connections that send chunks of one byte"):
        asyncio.run(attack())

    assert_unharmed(webhook)
    assert webhook.figures[-1].max_ms < CHUNKS_MS


def test_large_reviews_on_resting_connections_fit_in_the_memory_limit(webhook: Webhook) -> None:
    pod = a_good_review()
    pod["request"]["object"]["metadata"]["annotations"] = {"text": "x" * RESTING_BYTES}
    request = a_request(json.dumps(pod).encode())
    before = webhook.resident_mib

    async def send_and_rest(stack: AsyncExitStack) -> bool:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await stack.enter_async_context(connected(webhook))
            writer.write(request)
            return (await read_response(reader))[0] == 200
        return False

    async def attack() -> int:
        async with AsyncExitStack() as stack:
            answered = 0
            for _ in range(RESTING // 50):
                answered += sum(await asyncio.gather(*(send_and_rest(stack) for _ in range(50))))
            await asyncio.sleep(5)
            return answered

    with webhook.attacked(f"{RESTING} connections that send 400 KiB and rest"):
        assert asyncio.run(attack()) == RESTING

    assert_unharmed(webhook)
    assert_given_back(webhook, before)


def test_unfinished_large_reviews_fit_in_the_memory_limit(webhook: Webhook) -> None:
    begun = a_request(b"x" * RESTING_BYTES)[:-1]

    async def begin(stack: AsyncExitStack) -> None:
        with suppress(OSError):
            _, writer = await stack.enter_async_context(connected(webhook))
            writer.write(begun)

    async def attack() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(RESTING // 50):
                await asyncio.gather(*(begin(stack) for _ in range(50)))
            await asyncio.sleep(5)

    before = webhook.resident_mib
    with webhook.attacked(f"{RESTING} connections that send 400 KiB but a byte"):
        asyncio.run(attack())

    assert_unharmed(webhook)
    assert_given_back(webhook, before)


def test_a_pod_with_thousands_of_containers_does_not_stall_others(webhook: Webhook) -> None:
    def a_giant(number: int) -> bytes:
        pod = a_large_pod(6000 + number, resources=POD_RESOURCES)
        pod["metadata"]["labels"] = {"app": "giant"}
        pod["metadata"]["ownerReferences"][0] |= {"name": "giant-1", "uid": "uid-giant-1"}
        return json.dumps(a_review(pod, dryRun=True)).encode()

    with webhook.attacked("pods with 6 000 containers"):
        sent = asyncio.run(
            send_reviews(webhook, (("application/json", a_giant(number)) for number in range(20)))
        )

    assert sent == 20
    assert_unharmed(webhook)


def test_autoscalers_beside_many_large_siblings_do_not_stall_others(webhook: Webhook) -> None:
    def another(number: int) -> bytes:
        new = a_sibling(100 + number, values=size_bounds.MAX_VALUES)
        return json.dumps(a_review(new, AUTOSCALERS, dryRun=True)).encode()

    with webhook.attacked("autoscalers beside 20 large siblings"):
        sent = asyncio.run(
            send_reviews(webhook, (("application/json", another(number)) for number in range(100)))
        )

    assert sent == 100
    assert_unharmed(webhook)


def test_clients_that_leave_before_the_answer_cost_nothing(webhook: Webhook) -> None:
    request = a_request(json.dumps(a_good_review()).encode())

    with webhook.attacked("1 000 clients that leave before the answer"):
        for _ in range(1000):
            connection = webhook.connect()
            connection.sendall(request)
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    assert_unharmed(webhook)
