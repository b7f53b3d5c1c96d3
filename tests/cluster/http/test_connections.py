"""Connections that are kept, die, lead through proxies, and carry more than is read at once."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop
from support.makers.certificates import an_authority
from support.makers.kubeconfigs import serving_tls
from support.servers.api_server import a_client
from support.servers.connect_proxy import ConnectProxy
from support.servers.relay import LOOPBACK

from trimtab.cluster.address import Address, parse_address
from trimtab.cluster.auth.credentials import Connection, FixedCredentials, Identity
from trimtab.cluster.errors import ApiError, UnreachableError
from trimtab.cluster.http.client import Client
from trimtab.cluster.http.connections import ConnectionPool, HttpConnection

PATIENCE = timedelta(seconds=10)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Run = Callable[[Coroutine[object, object, None]], None]


@dataclass
class Wire:
    """A server that sees whole requests, connection by connection."""

    answer: Callable[[bytes], bytes]
    """To the head of a request; nothing ends the connection."""
    url: str = ""
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                answer = self.answer(head)
                if not answer:
                    break
                writer.write(answer)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[object, object, None]],
) -> AsyncIterator[str]:
    async with asyncio.TaskGroup() as serving:
        server = await asyncio.start_server(
            lambda reader, writer: serving.create_task(serve(reader, writer)), LOOPBACK, 0
        )
        try:
            yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()


@asynccontextmanager
async def a_wire(answer: Callable[[bytes], bytes]) -> AsyncIterator[Wire]:
    wire = Wire(answer)
    async with listening(wire.serve) as wire.url:
        yield wire


async def ask(client: Client, method: str) -> bytes:
    match method:
        case "GET":
            return await client.fetch("/x")
        case "PUT":
            return await client.put("/x", b"")
        case "DELETE":
            return await client.delete("/x")
        case "PATCH":
            return await client.patch("/x", b"")
        case _:
            return await client.post("/x", b"")


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with a_wire(lambda _: OK) as wire, a_client(wire.url) as client:
        for _ in range(3):
            await client.fetch("/x")

    assert (wire.connections, len(wire.heads)) == (1, 3)


async def test_requests_at_the_same_time_have_a_connection_each() -> None:
    async with a_wire(lambda _: OK) as wire, a_client(wire.url) as client:
        await asyncio.gather(*(client.fetch("/x") for _ in range(3)))

    assert (wire.connections, len(wire.heads)) == (3, 3)


async def test_a_connection_that_the_server_wants_to_end_is_not_kept() -> None:
    last = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with a_wire(lambda _: last) as wire, a_client(wire.url) as client:
        for _ in range(2):
            await client.fetch("/x")

    assert wire.connections == 2


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_what_may_come_twice_is_sent_anew_if_a_kept_connection_is_dead(method: str) -> None:
    answers = iter([OK, b"", OK])
    async with a_wire(lambda _: next(answers)) as wire, a_client(wire.url) as client:
        await client.fetch("/x")
        body = await ask(client, method)

    assert body == b"{}"
    assert (wire.connections, len(wire.heads)) == (2, 3)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_may_not_come_twice_fails_if_a_kept_connection_is_dead(method: str) -> None:
    answers = iter([OK, b"", OK])
    async with a_wire(lambda _: next(answers)) as wire, a_client(wire.url) as client:
        await client.fetch("/x")
        with pytest.raises(UnreachableError) as caught:
            await ask(client, method)

    assert caught.value.was_sent
    assert len(wire.heads) == 2


async def test_what_is_no_answer_is_an_error_of_our_own() -> None:
    async with a_wire(lambda _: b"SSH-2.0\r\n\r\n") as wire, a_client(wire.url) as client:
        with pytest.raises(UnreachableError, match="not an answer in HTTP"):
            await client.post("/x", b"")


async def test_a_name_is_tried_at_every_place_where_it_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        # Nobody listens at the first of them.
        places = ("127.0.0.2", LOOPBACK) if host == "there" else (host,)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (place, port)) for place in places]

    async with a_wire(lambda _: OK) as wire:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        async with a_client(wire.url.replace(LOOPBACK, "there")) as client:
            body = await client.post("/x", b"")

    assert body == b"{}"


async def test_a_name_that_leads_nowhere_was_never_asked() -> None:
    async with a_client("http://nowhere.invalid:1") as client:
        with pytest.raises(UnreachableError) as caught:
            await client.post("/x", b"")

    assert not caught.value.was_sent


async def test_a_path_in_the_address_stands_before_every_path() -> None:
    async with a_wire(lambda _: OK) as wire, a_client(f"{wire.url}/k8s/clusters/c-1") as client:
        await client.fetch("/version", {"a": "b c&d"})

    assert wire.heads[0].startswith(b"GET /k8s/clusters/c-1/version?a=b+c%26d HTTP/1.1\r\n")


@LOOPS
def test_a_large_body_comes_whole_and_a_slow_reader_misses_nothing(run: Run) -> None:
    line = b"x" * 99_999 + b"\n"
    chunk = b"%x\r\n%s\r\n" % (len(line), line)
    large = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 50 + b"0\r\n\r\n"

    async def talk() -> None:
        async with a_wire(lambda _: large) as wire, a_client(wire.url) as client:
            whole = await client.fetch("/x")
            lines = []
            async for each in await client.stream("/x", {}):
                await asyncio.sleep(0)
                lines.append(each)

        assert whole == line * 50
        assert lines == [line[:-1]] * 50

    run(talk())


async def talk_once(connection: HttpConnection) -> None:
    connection.send(b"GET / HTTP/1.1\r\n\r\n")
    await connection.read_head()
    await connection.read_all()


async def test_a_connection_made_with_another_trust_is_not_used() -> None:
    async with a_wire(lambda _: OK) as wire:
        pool = ConnectionPool(wire.url, patience=PATIENCE)
        first = await pool.take(None)
        await talk_once(first)
        pool.give_back(first)
        other = await pool.take(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        await pool.close()

    assert other is not first
    assert not first.is_open


async def test_nothing_is_held_of_connections_that_are_too_many() -> None:
    """The one that was used last is taken first, so others wait below it, some of them for ever."""
    async with a_wire(lambda _: OK) as wire:
        pool = ConnectionPool(wire.url, patience=PATIENCE)
        taken = [await pool.take(None) for _ in range(3)]
        for each in taken:
            await talk_once(each)
            pool.give_back(each)
        old, last = taken[0], taken[-1]
        old.idle_since -= 80
        again = await pool.take(None)
        await talk_once(again)
        pool.give_back(again)
        states = [each.is_open for each in taken]
        await pool.close()

    assert again is last
    assert states == [False, True, True]


@LOOPS
def test_a_proxy_leads_to_a_server_whose_certificate_is_checked(run: Run, tmp_path: Path) -> None:
    async def talk() -> None:
        proxy = ConnectProxy()
        authority = an_authority()
        trust = ssl.create_default_context(cadata=authority.certificate)
        async with serving_tls(authority, tmp_path) as url, listening(proxy.serve) as door:
            through = door.replace("://", "://me:s%20cret@")
            known = Connection(url, FixedCredentials(Identity(trust)), proxy=through)
            strange = ssl.create_default_context(cadata=an_authority().certificate)
            unknown = Connection(url, FixedCredentials(Identity(strange)), proxy=through)
            async with a_client(known) as client:
                said = await client.fetch("/")
            async with a_client(unknown) as client:
                with pytest.raises(UnreachableError, match="is not trusted") as caught:
                    await client.post("/", b"")

        assert said == b"nobody"
        assert not caught.value.was_sent
        assert proxy.heads[0].startswith(f"CONNECT {url.removeprefix('https://')} ".encode())
        # The name and the password, in base64.
        assert b"Proxy-Authorization: Basic bWU6cyBjcmV0\r\n" in proxy.heads[0]

    run(talk())


async def test_a_proxy_that_does_not_lead_there_is_told_of() -> None:
    async with a_wire(lambda _: b"HTTP/1.1 403 Forbidden\r\n\r\n") as wire:
        there = Connection("https://there", FixedCredentials(Identity()), proxy=wire.url)
        async with a_client(there) as client:
            with pytest.raises(ApiError, match="the proxy says 403 Forbidden") as caught:
                await client.post("/x", b"")

    assert isinstance(caught.value, UnreachableError)
    assert not caught.value.was_sent


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n<html>Log in</html>", id="a page"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + OK, id="another answer"),
        pytest.param(b"HTTP/1.1 200 Conn", id="half an answer"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_makes_the_server_unreachable(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with listening(serve) as url:
        there = Connection("https://there", FixedCredentials(Identity()), proxy=url)
        async with a_client(there) as client:
            with pytest.raises(UnreachableError) as caught:
                await client.post("/x", b"")

    assert not caught.value.was_sent


async def test_a_proxy_is_asked_for_plain_pages_by_their_whole_address() -> None:
    async with a_wire(lambda _: OK) as wire:
        there = Connection("http://there:81/x", FixedCredentials(Identity()), proxy=wire.url)
        async with a_client(there) as client:
            await client.fetch("/y")

    assert wire.heads[0].startswith(b"GET http://there:81/x/y HTTP/1.1\r\nHost: there:81\r\n")


@pytest.mark.parametrize(
    ("text", "address", "authority"),
    [
        pytest.param("https://here", Address("here", 443, is_secure=True), "here", id="a name"),
        pytest.param(
            "https://here:6443/", Address("here", 6443, is_secure=True), "here:6443", id="a port"
        ),
        pytest.param(
            "http://[::1]:80", Address("::1", 80, is_secure=False), "[::1]", id="version 6"
        ),
        pytest.param(
            "http://a:b@here/c/",
            Address("here", 80, is_secure=False, path="/c", authorization="Basic YTpi"),
            "here",
            id="a name, a password and a path",
        ),
    ],
)
def test_an_address_has_all_that_a_connection_needs(
    text: str, address: Address, authority: str
) -> None:
    found = parse_address(text)

    assert found == address
    assert found.authority == authority


@pytest.mark.parametrize(
    "text", ["", "here", "ftp://here", "https://", "http://here:x", "http://a?b", "http://a#b"]
)
def test_what_is_no_address_of_a_server_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_address(text)
