"""The HTTP server of a component: metrics for Prometheus, probes for the kubelet, pages.

A web framework would cost more memory than all pages. `visits` holds the connections, and `pages`
the routes.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from trimtab.admission.server.acceptor import ConnectionAcceptor, Handshakes
from trimtab.api.http.requests import MAX_HEAD_BYTES
from trimtab.cli.errors import UsageError
from trimtab.cli.runtime import pages as routes
from trimtab.cli.runtime import workers
from trimtab.cli.runtime.pages import Page, Probes, Protection, Router
from trimtab.cli.runtime.visits import TLS_LIMITS, Visits

_HANDSHAKES: Final = 32
"""Maximum TLS handshakes under way; beyond it the oldest is aborted."""
_HANDSHAKE_SECONDS: Final = 5.0


def parse_address(text: str, flag: str = "--address") -> tuple[str | None, int]:
    """Parse an address such as `:8942` or `[::1]:80` into host, None for all, and port."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    if not colon or not is_port or (":" in host and not host.startswith("[")):
        raise UsageError(f"{flag}: {text!r} is not of the form host:port")
    return host.strip("[]") or None, int(port)


@asynccontextmanager
async def serving(
    address: str,
    probes: Probes,
    pages: Mapping[str, Page] | None = None,
    protection: Protection | None = None,
) -> AsyncIterator[None]:
    """Serve probes, metrics and pages at the address for as long as the block lasts."""
    router = Router(routes.route_probes(probes), routes.route_pages(pages or {}), protection)
    if protection is None:
        async with _listening(address, router):
            yield
    else:
        async with _listening_with_tls(address, router, protection.context):
            yield


@asynccontextmanager
async def serving_probes(address: str, probes: Probes) -> AsyncIterator[None]:
    """Serve probes only, at the address for as long as the block lasts."""
    async with _listening(address, Router(routes.route_probes(probes), {})):
        yield


@asynccontextmanager
async def _listening(address: str, router: Router) -> AsyncIterator[None]:
    host, port = parse_address(address)
    visits = Visits(router.answer, asyncio.get_running_loop().time)
    try:
        server = await asyncio.start_server(visits.receive, host, port, limit=MAX_HEAD_BYTES)
    except (OSError, UnicodeError) as error:
        raise workers.blame(address, error) from error
    try:
        yield
    finally:
        server.close()
        await visits.end()


@asynccontextmanager
async def _listening_with_tls(
    address: str, router: Router, context: ssl.SSLContext
) -> AsyncIterator[None]:
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    visits = Visits(router.answer, loop.time, TLS_LIMITS)

    def receive() -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES, loop=loop)
        return asyncio.StreamReaderProtocol(reader, visits.receive, loop=loop)

    closing = asyncio.Event()
    # Unfinished handshakes are bounded, too; a server of asyncio would accept any number.
    acceptor = ConnectionAcceptor(
        receive, context, Handshakes(_HANDSHAKES, _HANDSHAKE_SECONDS, lambda: None)
    )
    opened = asyncio.create_task(acceptor.open(workers.bind(host or "", port), closing))
    try:
        yield
    finally:
        closing.set()
        await opened
        await visits.end()
