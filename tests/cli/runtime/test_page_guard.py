"""Metrics and pages behind TLS and rights; the API server is played by a function."""

import asyncio
import itertools
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import uvloop
from cli.runtime.test_http_server import free_address, probes
from structlog.testing import capture_logs
from support.makers.certificates import a_pair, an_authority

from trimtab.admission.server import tls
from trimtab.api.wire.status_errors import Status
from trimtab.cli.errors import UsageError
from trimtab.cli.flags.common import PageFlags
from trimtab.cli.runtime.component import check_pages
from trimtab.cli.runtime.http_server import serving, serving_probes
from trimtab.cli.runtime.page_guard import PageGuard, _show_certificate, _show_self_signed
from trimtab.cli.runtime.pages import Page, Protection
from trimtab.cluster.errors import UnreachableError, refusal
from trimtab.core.webhook.page_access import Access, Decision, Token

GOOD = {"Authorization": "Bearer good"}
OTHER = {"Authorization": "Bearer other"}
BAD = {"Authorization": "Bearer bad"}
DECISIONS = {
    "good": Decision(Access.GRANTED, "prometheus"),
    "other": Decision(Access.FORBIDDEN, "mallory"),
    "bad": Decision(Access.UNKNOWN),
}


@dataclass
class Server:
    """An API server, as far as reviews go."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    error: Exception | None = None
    delay_seconds: float = 0.0
    at_once: int = 0
    most_at_once: int = 0
    now: timedelta = timedelta()

    async def review(self, token: Token, path: str) -> Decision:
        self.asked.append((token.text, path))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.delay_seconds)
        finally:
            self.at_once -= 1
        if self.error is not None:
            raise self.error
        return DECISIONS.get(token.text, DECISIONS["bad"])

    def guard(self, patience: timedelta = timedelta(seconds=5)) -> PageGuard:
        return PageGuard(self.review, lambda: self.now, patience)


@pytest.fixture
def context() -> ssl.SSLContext:
    made = tls.make_context(tls.TlsVersion.V1_2)
    _show_self_signed(made)
    return made


def plan(query: Mapping[str, str]) -> bytes:
    return str(dict(query)).encode()


Answer = tuple[int, str]
Ask = Callable[..., Awaitable[Answer]]


@asynccontextmanager
async def protected(
    context: ssl.SSLContext, server: Server, pages: Mapping[str, Page] | None = None
) -> AsyncIterator[Ask]:
    address = free_address()
    shown = {"/plan": plan} if pages is None else pages
    async with (
        serving(address, probes(), shown, Protection(context, server.guard().check)),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
    ):

        async def ask(path: str, headers: Mapping[str, str] | None = None) -> Answer:
            async with session.get(f"https://{address}{path}", headers=headers) as answer:
                return answer.status, await answer.text()

        yield ask


async def test_who_has_no_token_is_asked_for_one(context: ssl.SSLContext) -> None:
    server = Server()
    async with protected(context, server) as ask:
        answers = [await ask(path) for path in ("/plan", "/metrics")]

    assert [status for status, _ in answers] == [401, 401]
    assert answers[0][1].startswith("/plan needs a token that the API server accepts")
    assert server.asked == []


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        pytest.param(BAD, 401, "/plan needs a token", id="a token that is not accepted"),
        pytest.param(OTHER, 403, "mallory may not get /plan", id="a caller without the right"),
        pytest.param(GOOD, 200, "{'namespace': 'shop'}", id="a caller with the right"),
    ],
)
async def test_a_page_is_shown_to_who_may_read_it(
    context: ssl.SSLContext, headers: dict[str, str], status: int, text: str
) -> None:
    server = Server()
    async with protected(context, server) as ask:
        answer = await ask("/plan?namespace=shop", headers)

    assert answer[0] == status
    assert text in answer[1]
    assert server.asked == [(headers["Authorization"].removeprefix("Bearer "), "/plan")]


async def test_probes_stay_open(context: ssl.SSLContext) -> None:
    async with protected(context, Server()) as ask:
        answers = [await ask(path) for path in ("/health-check", "/readyz")]

    assert answers == [(200, "OK"), (200, "OK")]


async def test_probes_without_tls_are_all_that_their_own_address_shows() -> None:
    address = free_address()
    async with serving_probes(address, probes()), aiohttp.ClientSession() as session:

        async def ask(path: str) -> int:
            async with session.get(f"http://{address}{path}") as answer:
                return answer.status

        found = [await ask(path) for path in ("/health-check", "/readyz", "/metrics", "/plan")]

    assert found == [200, 200, 404, 404]


async def test_an_unknown_page_costs_no_review(context: ssl.SSLContext) -> None:
    server = Server()
    async with protected(context, server) as ask:
        assert (await ask("/nothing", GOOD))[0] == 404

    assert server.asked == []


@pytest.mark.parametrize(
    ("token", "status"),
    [
        pytest.param(b"x" * 20_000, b"431", id="too long"),
        pytest.param(b"x" * 500_000, b"431", id="far too long"),
        pytest.param(b"bad\nAuthorization: Bearer good", b"400", id="bare LF"),
        pytest.param(b"bad\rAuthorization: Bearer good", b"400", id="bare CR"),
        pytest.param(b"good\0", b"400", id="NUL"),
    ],
)
async def test_a_head_that_is_malformed_or_too_long_is_refused_with_a_status(
    context: ssl.SSLContext, token: bytes, status: bytes
) -> None:
    address = free_address()
    server = Server()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with serving(address, probes(), {}, Protection(context, server.guard().check)):
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=trusting)
        writer.write(b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert not server.asked


async def test_a_request_without_tls_gets_nothing(context: ssl.SSLContext) -> None:
    address = free_address()
    async with serving(address, probes(), {}, Protection(context, Server().guard().check)):
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()

    assert b"HTTP" not in answer


def test_a_large_page_arrives_whole_even_on_a_connection_that_ends(
    context: ssl.SSLContext,
) -> None:
    body = bytes(3_000_000)

    async def play() -> int:
        address = free_address()
        pages = {"/plan": lambda _: body}
        guard = Server().guard()
        async with serving(address, probes(), pages, Protection(context, guard.check)):
            host, _, port = address.rpartition(":")
            trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            reader, writer = await asyncio.open_connection(host, int(port), ssl=trusting)
            head = "GET /plan HTTP/1.1\r\nAuthorization: Bearer good\r\nConnection: close\r\n\r\n"
            writer.write(head.encode())
            answer = await reader.read()
            writer.transport.abort()
            return len(answer.partition(b"\r\n\r\n")[2])

    assert [run(play()) for run in (asyncio.run, uvloop.run)] == [len(body)] * 2


async def test_a_decision_is_asked_for_once_a_minute() -> None:
    server = Server()
    guard = server.guard()
    headers = {"authorization": "Bearer good"}
    for _ in range(3):
        assert (await guard.check(headers, "/plan")).access is Access.GRANTED
    server.now += timedelta(minutes=1)
    await guard.check(headers, "/plan")
    await guard.check(headers, "/metrics")

    assert server.asked == [("good", "/plan"), ("good", "/plan"), ("good", "/metrics")]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(
            UnreachableError("POST /x", "connection refused"),
            "connection refused",
            id="it cannot be reached",
        ),
        pytest.param(
            refusal(
                "POST /x",
                Status(
                    code=403,
                    message='User "a" cannot create resource "tokenreviews" in API group'
                    ' "authentication.k8s.io" at the cluster scope',
                ),
            ),
            "missing right: create tokenreviews.authentication.k8s.io; bind this component to the"
            " ClusterRole system:auth-delegator",
            id="the component may not ask",
        ),
    ],
)
async def test_pages_are_closed_and_one_line_is_logged_while_the_api_server_is_away(
    context: ssl.SSLContext, error: Exception, told: str
) -> None:
    server = Server(error=error)
    with capture_logs() as lines:
        async with protected(context, server) as ask:
            answers = [await ask("/plan", GOOD) for _ in range(3)]
            server.error = None
            after = await ask("/plan", GOOD)

    assert [status for status, _ in answers] == [503] * 3
    assert told in answers[0][1]
    assert after[0] == 200
    assert [line["event"] for line in lines] == ["rights to read pages cannot be checked"]


async def test_reviews_are_bounded_in_time_and_in_number() -> None:
    server = Server(delay_seconds=0.05)
    guard = server.guard(timedelta(milliseconds=500))
    tokens = [{"authorization": f"Bearer {number}"} for number in range(40)]
    found = await asyncio.gather(*(guard.check(each, "/plan") for each in tokens))
    server.delay_seconds = 60
    late = await guard.check({"authorization": "Bearer late"}, "/plan")

    assert {each.access for each in found} == {Access.UNKNOWN}
    assert server.most_at_once == 8
    assert (late.access, late.detail) == (
        Access.UNDECIDED,
        "no answer from the API server in time",
    )


async def test_many_requests_with_one_token_cost_few_reviews() -> None:
    server = Server(delay_seconds=0.01)
    guard = server.guard()
    headers = {"authorization": "Bearer good"}
    await asyncio.gather(*(guard.check(headers, "/metrics") for _ in range(50)))

    assert len(server.asked) <= 8


def test_handshakes_that_nobody_finishes_keep_nobody_out(context: ssl.SSLContext) -> None:
    async def play() -> Answer:
        address = free_address()
        host, _, port = address.rpartition(":")
        guard = Server().guard()
        async with serving(address, probes(), {}, Protection(context, guard.check)):
            silent = [await asyncio.open_connection(host, int(port)) for _ in range(200)]
            connector = aiohttp.TCPConnector(ssl=False)
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(f"https://{address}/readyz") as answer,
            ):
                found = answer.status, await answer.text()
            for _, writer in silent:
                writer.transport.abort()
            return found

    assert uvloop.run(play()) == (200, "OK")


async def test_a_certificate_from_files_is_shown(tmp_path: Path) -> None:
    authority = an_authority()
    pair = a_pair(authority, "localhost")
    files = tls.CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    files.certificate.write_text(pair.certificate, encoding="utf-8")
    files.key.write_text(pair.key, encoding="utf-8")
    context = tls.make_context(tls.TlsVersion.V1_2)
    tls.load_pair(context, files)
    address = free_address().replace("127.0.0.1", "localhost")
    trusting = ssl.create_default_context(cadata=authority.certificate)
    async with (
        serving(address, probes(), {}, Protection(context, Server().guard().check)),
        aiohttp.ClientSession() as session,
        session.get(f"https://{address}/readyz", ssl=trusting) as answer,
    ):
        assert answer.status == 200


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param(PageFlags(health_address="80"), "--health-address", id="no address"),
        pytest.param(
            PageFlags(metrics_secure=True, metrics_tls_cert_file="a"),
            "--metrics-tls-private-key",
            id="no key",
        ),
        pytest.param(
            PageFlags(metrics_tls_cert_file="a", metrics_tls_private_key="b"),
            "--metrics-secure",
            id="a certificate without TLS",
        ),
    ],
)
def test_flags_that_make_no_sense_are_refused(flags: PageFlags, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        check_pages(flags)


class Turns:
    """A clock whose sleeps end when a test says so."""

    def __init__(self) -> None:
        self.asleep = asyncio.Event()
        self.woken = asyncio.Event()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, span: timedelta) -> None:
        del span
        self.asleep.set()
        await self.woken.wait()
        self.woken.clear()

    async def turn(self) -> None:
        """Let what sleeps do its work once."""
        self.asleep.clear()
        self.woken.set()
        await self.asleep.wait()


async def test_a_certificate_that_is_renewed_in_its_files_is_shown_next(tmp_path: Path) -> None:
    authority, clock = an_authority(), Turns()
    files = (tmp_path / "tls.crt", tmp_path / "tls.key")
    context = tls.make_context(tls.TlsVersion.V1_2)
    flags = PageFlags(
        metrics_secure=True,
        metrics_tls_cert_file=str(files[0]),
        metrics_tls_private_key=str(files[1]),
    )

    def renew(certificate: str, key: str) -> None:
        for path, text in zip(files, (certificate, key), strict=True):
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(next(moments), next(moments)))

    async def shown() -> str:
        address = free_address()
        trusting = ssl.create_default_context(cadata=authority.certificate)
        host, _, port = address.rpartition(":")
        async with serving(address, probes(), {}, Protection(context, Server().guard().check)):
            _, writer = await asyncio.open_connection(host, int(port), ssl=trusting)
            seen: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.transport.abort()
            return ssl.DER_cert_to_PEM_cert(seen)

    moments = itertools.count(10**18)
    first, second = (a_pair(authority, name) for name in ("first", "second"))
    renew(first.certificate, first.key)
    reloading = await _show_certificate(context, flags, clock)
    assert reloading is not None
    try:
        await clock.asleep.wait()
        before = await shown()
        renew(second.certificate, "half a key")
        await clock.turn()
        meanwhile = await shown()
        renew(second.certificate, second.key)
        await clock.turn()
        after = await shown()
    finally:
        reloading.cancel()

    assert [before, meanwhile, after] == [
        first.certificate,
        first.certificate,
        second.certificate,
    ]
