"""An HTTP server on loopback that answers as a plain function tells it to."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from aiohttp import web
from support.fakes.clocks import StillClock

from trimtab.cluster.auth.credentials import Connection, Credentials, FixedCredentials, Identity
from trimtab.cluster.http.client import Client, ClientSettings
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.ports import Clock


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An answer that promises more than it holds; then the connection ends, or all is silent."""

    body: bytes = b""
    is_silent: bool = False


Response = web.StreamResponse | Unfinished
Answer = Callable[[Asked], Response]


@dataclass(slots=True)
class Server:
    url: str
    asked: list[Asked] = field(default_factory=list)

    @property
    def calls(self) -> list[str]:
        return [f"{each.method} {each.path}" for each in self.asked]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    server = Server("")
    closing = asyncio.Event()

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        asked = Asked(
            request.method,
            request.rel_url.raw_path,
            dict(request.query),
            dict(request.headers),
            await request.read(),
        )
        server.asked.append(asked)
        given = answer(asked)
        if not isinstance(given, Unfinished):
            return given
        response = web.StreamResponse()
        response.content_length = len(given.body) + 1
        await response.prepare(request)
        await response.write(given.body)
        if given.is_silent:
            await closing.wait()
        # Whoever asked may have left by now.
        if request.transport is not None:
            request.transport.close()
        return response

    runner = web.ServerRunner(web.Server(respond))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        closing.set()
        await runner.cleanup()


def in_turn(*answers: Response) -> Answer:
    """Each answer once, one after the other."""
    left = iter(answers)
    return lambda _asked: next(left)


def ok(document: object = None) -> web.Response:
    return web.Response(body=json.dumps({} if document is None else document).encode())


def refused(
    code: int,
    *,
    reason: str = "",
    message: str = "no",
    causes: Iterable[str] = (),
    after_seconds: int | None = None,
) -> web.Response:
    details: dict[str, Any] = {"causes": [{"reason": cause} for cause in causes]}
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    headers = {} if after_seconds is None else {"Retry-After": str(after_seconds)}
    body = json.dumps({**status, "details": details}).encode()
    return web.Response(status=code, body=body, headers=headers)


def a_client(
    where: str | Connection,
    *,
    clock: Clock | None = None,
    credentials: Credentials | None = None,
    settings: ClientSettings | None = None,
    rate: float = 0,
) -> Client:
    clock = clock or StillClock()
    if isinstance(where, str):
        where = Connection(where, credentials or FixedCredentials(Identity()))
    budget = RequestBudget(clock, rate=rate, burst=1)
    return Client(where, clock=clock, random=Random(1), budget=budget, settings=settings)
