"""The plain HTTP server of a component: metrics for Prometheus, probes for the kubelet, pages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from trimtab.cli.failures import FailedError
from trimtab.cli.usage import UsageError

Page: TypeAlias = Callable[[Mapping[str, str]], bytes]
"""The JSON that a page shows, given the query of its address."""


@dataclass(frozen=True, slots=True)
class Probes:
    """What a component says of itself: reasons why it is not well, none if it is."""

    health: Callable[[], Sequence[str]]
    readiness: Callable[[], Sequence[str]]


def parse_address(text: str) -> tuple[str | None, int]:
    """The host, or None for all, and the port of an address such as `:8942` or `[::1]:80`."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    if not colon or not is_port or (":" in host and not host.startswith("[")):
        raise UsageError(f"--address: {text!r} is not of the form host:port")
    return host.strip("[]") or None, int(port)


@asynccontextmanager
async def serving(
    address: str, probes: Probes, pages: Mapping[str, Page] | None = None
) -> AsyncIterator[None]:
    """Answer at the address for as long as the block lasts."""
    host, port = parse_address(address)
    application = web.Application()
    application.router.add_get("/metrics", _show_metrics)
    application.router.add_get("/health-check", _probe(probes.health))
    application.router.add_get("/readyz", _probe(probes.readiness))
    for path, page in (pages or {}).items():
        application.router.add_get(path, _page(page))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise FailedError(f"cannot listen on {address}: {error.strerror or error}") from error
    try:
        yield
    finally:
        await runner.cleanup()


async def _show_metrics(_: web.Request) -> web.Response:
    headers = {"Content-Type": CONTENT_TYPE_LATEST}
    return web.Response(body=generate_latest(REGISTRY), headers=headers)


def _page(page: Page) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=page(request.query), content_type="application/json")

    return answer


def _probe(
    list_reasons: Callable[[], Sequence[str]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        reasons = list_reasons()
        status = HTTPStatus.INTERNAL_SERVER_ERROR if reasons else HTTPStatus.OK
        return web.Response(text="\n".join(reasons) or "OK", status=status)

    return answer
