"""Faults from the field at the admission controller's door and in code that threads share."""

import asyncio
import socket
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from random import Random

import pytest
from support.makers.records import NOW
from support.servers.waiting import until
from support.strategies.plans import a_snapshot, some_settings

from trimtab.admission.server.server import WebhookServer
from trimtab.api.http.requests import HttpRequest
from trimtab.core.changes.outcomes import Outcome
from trimtab.core.updates.plan import plan

BODY_BYTES = 6 * 1024 * 1024
ROUNDS = 30
MIB = 1024 * 1024


class Answers:
    """Counts what the server asks it."""

    def __init__(self) -> None:
        self.answered = 0
        self.refused: list[HTTPStatus] = []

    def answer(
        self, request: HttpRequest, waited_seconds: float, *, may_wait: bool = False
    ) -> bytes:
        del request, waited_seconds, may_wait
        self.answered += 1
        return b"{}"

    def let_through(self, request: HttpRequest) -> bytes:
        del request
        return b"{}"

    def allow_failed(self, request: HttpRequest, error: Exception) -> bytes:
        del request
        raise error

    def note_written(self, seconds: float) -> None:
        del seconds

    def note_refused(self, status: HTTPStatus) -> None:
        self.refused.append(status)


async def send_too_much(port: int) -> bytes:
    """The first line that the server answers to a body above its limit."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES)
        for _ in range(BODY_BYTES // 65_536):
            writer.write(b" " * 65_536)
            await writer.drain()
    except OSError:
        # The server need not read what it has refused.
        pass
    try:
        return await reader.readline()
    except OSError:
        return b""
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def test_f32_bodies_above_the_limit_are_refused_and_memory_stays_flat() -> None:
    answers = Answers()
    server = WebhookServer(answers, asyncio.get_running_loop().time)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listening = asyncio.create_task(server.listen(listener, None))
        await until(lambda: server.is_open)
        port = listener.getsockname()[1]
        await send_too_much(port)
        tracemalloc.start()
        try:
            peaks = []
            for _ in range(ROUNDS):
                tracemalloc.reset_peak()
                await asyncio.gather(send_too_much(port), send_too_much(port))
                peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
            await until(lambda: server.connections == 0)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await asyncio.sleep(0.05)

    assert answers.answered == 0
    assert answers.refused.count(HTTPStatus.REQUEST_ENTITY_TOO_LARGE) == 1 + 2 * ROUNDS
    assert server.buffered_bytes == 0
    assert max(peaks) < 2 * MIB
    assert max(peaks[-5:]) <= max(peaks[:5]) + MIB // 4


@pytest.fixture
def forced_switches() -> Iterator[None]:
    """Let threads take turns as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("forced_switches")
def test_f29_plans_made_by_threads_with_forced_switches_are_those_made_by_one() -> None:
    def make(seed: int) -> list[Outcome]:
        dice = Random(seed)
        return plan(a_snapshot(dice), some_settings(dice), NOW)

    seeds = [*range(60)] * 2
    alone = [make(seed) for seed in seeds]
    with ThreadPoolExecutor(8) as pool:
        together = [*pool.map(make, seeds)]

    assert together == alone
