"""An API server on loopback, behind real TLS, that lies as it is told to.

It answers honestly for every kind that a component lists (no objects, a bookmark each half second)
until a `Lie` is chosen. It counts what it is asked, so that a test can tell requests per second.
"""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from support.makers.certificates import Pair, a_pair, an_authority

BOOKMARK_SECONDS = 0.5
HUGE_RETRY_AFTER = 999_999_999
_PIECE = b"x" * 65_536
_LIST = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
_BOOKMARK = {
    "type": "BOOKMARK",
    "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "2"}},
}
_GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
_NOT_HERE = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}


class Lie(StrEnum):
    """The way in which the server lies to lists and watches."""

    NONE = "tells the truth"
    TRUNCATED = "ends each answer before its announced length"
    MORE = "sends more than it announced"
    TWO_LENGTHS = "announces two lengths"
    BAD_CHUNKS = "sends chunks of other sizes than announced"
    NO_HTTP = "speaks another protocol"
    NO_JSON = "answers with a page of HTML"
    ENDLESS_HEAD = "sends headers without end"
    ENDLESS_BODY = "sends a list without end"
    ENDLESS_PAGES = "sends empty pages without end"
    ENDLESS_LINE = "sends an event without end"
    GONE = "has forgotten the version of each watch"
    GONE_LATER = "has forgotten it after one bookmark"
    BOOKMARK = "ends each watch after one bookmark"
    SILENT = "never answers"
    DRIP = "sends one byte each half second"
    REDIRECT = "sends everybody elsewhere"
    BUSY = "asks for 31 years of patience"
    RESET = "closes the connection"
    UNAUTHORIZED = "knows nobody"
    FORBIDDEN = "allows nothing"


@dataclass(frozen=True, slots=True)
class Asked:
    at: float
    method: str
    path: str
    is_watch: bool
    token: str


@dataclass(slots=True)
class LyingServer:
    """The server, its certificate and what it was asked."""

    folder: Path
    authority: Pair = field(default_factory=an_authority)
    lie: Lie = Lie.NONE
    is_missing: Callable[[str], bool] = lambda _: False
    """Tells the paths of kinds that do not exist."""
    elsewhere: str = ""
    """Where it redirects to."""
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    _context: ssl.SSLContext = field(
        default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    )
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def show(self, authority: Pair) -> None:
        """Show a certificate of that authority from now on, and drop all connections."""
        pair = a_pair(authority, "server")
        paths = self.folder / "server.crt", self.folder / "server.key"
        for path, text in zip(paths, (pair.certificate, pair.key), strict=True):
            path.write_text(text, encoding="utf-8")
        self._context.load_cert_chain(*paths)
        self.authority = authority
        self.drop_all()

    def tell(self, lie: Lie) -> None:
        """Lie like that from now on, and drop all connections."""
        self.lie = lie
        self.asked.clear()
        self.drop_all()

    def drop_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    @property
    def open_watches(self) -> int:
        return len(self._writers)

    def write_kubeconfig(self, path: Path, *, authority: str = "") -> Path:
        """Write a kubeconfig with a token; the authority is a file beside it, or data."""
        data = base64.b64encode(self.authority.certificate.encode()).decode()
        trust = (
            {"certificate-authority": authority}
            if authority
            else {"certificate-authority-data": data}
        )
        document = {
            "clusters": [{"name": "here", "cluster": {"server": self.url, **trust}}],
            "users": [{"name": "me", "user": {"token": "secret"}}],
            "contexts": [{"name": "work", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "work",
        }
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["LyingServer"]:
        self.show(self.authority)
        server = await asyncio.start_server(
            self._receive, "127.0.0.1", self.port, ssl=self._context, ssl_handshake_timeout=5
        )
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._closing.set()
            server.close()
            self.drop_all()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        url = urlsplit(target)
        query = parse_qs(url.query)
        asked = Asked(
            time.monotonic(), method, url.path, "watch" in query, headers.get("authorization", "")
        )
        self.asked.append(asked)
        return await self._answer(writer, asked, body)

    async def _answer(self, writer: asyncio.StreamWriter, asked: Asked, body: bytes) -> bool:
        if self.is_missing(asked.path):
            return await _send(writer, _NOT_HERE, status="404 Not Found")
        is_object = asked.path == "/version" or asked.method != "GET"
        lying = None if is_object else _LIES.get(self.lie)
        if lying is not None:
            return await lying(self, writer, asked)
        if asked.is_watch:
            return await self._watch(writer)
        return await _send(writer, _truth(asked, body))

    async def _watch(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(_head("Transfer-Encoding: chunked"))
        while not self._closing.is_set():
            writer.write(_chunk(_BOOKMARK))
            await writer.drain()
            await asyncio.sleep(BOOKMARK_SECONDS)
        return False

    async def _forget(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        if asked.is_watch:
            return await _send(writer, _GONE, status="410 Gone")
        return await _send(writer, _LIST)

    async def _forget_later(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        if not asked.is_watch:
            return await _send(writer, _LIST)
        gone = {"type": "ERROR", "object": _GONE}
        head = _head("Transfer-Encoding: chunked")
        await _chunks(writer, head, _chunk(_BOOKMARK), _chunk(gone), b"0\r\n\r\n")
        return True

    async def _end_watches(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        if not asked.is_watch:
            return await _send(writer, _LIST)
        ended = _head("Transfer-Encoding: chunked") + _chunk(_BOOKMARK) + b"0\r\n\r\n"
        await _chunks(writer, ended)
        return True

    async def _be_silent(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        del writer, asked
        await self._closing.wait()
        return False

    async def _drip(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        del asked
        writer.write(_head("Content-Length: 1000000"))
        while not self._closing.is_set():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(BOOKMARK_SECONDS)
        return False

    async def _forbid(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        resource = asked.path.rpartition("/")[2]
        parts = asked.path.split("/")
        group = parts[2] if parts[1] == "apis" else ""
        where = "at the cluster scope"
        if "namespaces" in parts[:-2]:
            where = f'in the namespace "{parts[parts.index("namespaces") + 1]}"'
        message = (
            f'{resource} is forbidden: User "me" cannot list resource "{resource}"'
            f' in API group "{group}" {where}'
        )
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
        return await _send(writer, status, status="403 Forbidden")

    async def _redirect(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        location = f"Location: {self.elsewhere}{asked.path}\r\nContent-Length: 0"
        return await _chunks(writer, _head(location, "302 Found"))

    async def _pour(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        """Send 256 MiB at most, so that a client without a bound does not end the machine."""
        start = b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"'
        if asked.is_watch:
            start = b'{"type":"ADDED","object":{"metadata":{"name":"'
        writer.write(_head("Connection: close") + start)
        for _ in range(4096):
            writer.write(_PIECE)
            await writer.drain()
        return False

    async def _pour_line(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        if asked.is_watch:
            return await self._pour(writer, asked)
        return await _send(writer, _LIST)

    async def _pour_head(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        del asked
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(4096):
            writer.write(b"X-%d: %s\r\n" % (number, _PIECE[:1024]))
            await writer.drain()
        return False


_Answerer = Callable[[LyingServer, asyncio.StreamWriter, Asked], Awaitable[bool]]


def _always(*pieces: bytes) -> _Answerer:
    async def answer(_: LyingServer, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        del asked
        return await _chunks(writer, *pieces)

    return answer


def _head(headers: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}\r\n\r\n".encode()


def _chunk(document: object) -> bytes:
    line = json.dumps(document).encode() + b"\n"
    return b"%x\r\n%s\r\n" % (len(line), line)


async def _chunks(writer: asyncio.StreamWriter, *pieces: bytes) -> bool:
    writer.write(b"".join(pieces))
    await writer.drain()
    return False


async def _send(writer: asyncio.StreamWriter, document: object, status: str = "200 OK") -> bool:
    body = json.dumps(document).encode()
    writer.write(_head(f"Content-Length: {len(body)}", status) + body)
    await writer.drain()
    return True


def _truth(asked: Asked, body: bytes) -> object:
    if asked.path == "/version":
        return {"major": "1", "minor": "35", "gitVersion": "v1.35.0"}
    if asked.path == "/api/v1":
        return {"kind": "APIResourceList", "resources": [{"name": "pods/resize"}]}
    if asked.path.endswith("selfsubjectaccessreviews"):
        return {**json.loads(body), "status": {"allowed": True}}
    if body:
        return json.loads(body)
    return _LIST


_LENGTHY = json.dumps(_LIST).encode()
_LIES: dict[Lie, _Answerer] = {
    Lie.TRUNCATED: _always(_head(f"Content-Length: {len(_LENGTHY) + 9}"), _LENGTHY),
    Lie.MORE: _always(_head(f"Content-Length: {len(_LENGTHY) - 9}"), _LENGTHY),
    Lie.TWO_LENGTHS: _always(_head("Content-Length: 5\r\nContent-Length: 7"), _LENGTHY),
    Lie.BAD_CHUNKS: _always(_head("Transfer-Encoding: chunked"), b"5\r\n", _LENGTHY, b"\r\n"),
    Lie.NO_HTTP: _always(b"SSH-2.0-OpenSSH_9.9\r\n\r\n\r\n"),
    Lie.NO_JSON: _always(_head("Content-Length: 17"), b"<html>hello</html"),
    Lie.ENDLESS_PAGES: _always(
        _head("Connection: close"),
        json.dumps({**_LIST, "metadata": {"resourceVersion": "1", "continue": "more"}}).encode(),
    ),
    Lie.BUSY: _always(
        _head(f"Retry-After: {HUGE_RETRY_AFTER}\r\nContent-Length: 2", "429 Too Many Requests"),
        b"{}",
    ),
    Lie.RESET: _always(),
    Lie.UNAUTHORIZED: _always(_head("Content-Length: 2", "401 Unauthorized"), b"{}"),
    Lie.FORBIDDEN: LyingServer._forbid,
    Lie.ENDLESS_HEAD: LyingServer._pour_head,
    Lie.ENDLESS_BODY: LyingServer._pour,
    Lie.ENDLESS_LINE: LyingServer._pour_line,
    Lie.GONE: LyingServer._forget,
    Lie.GONE_LATER: LyingServer._forget_later,
    Lie.BOOKMARK: LyingServer._end_watches,
    Lie.SILENT: LyingServer._be_silent,
    Lie.DRIP: LyingServer._drip,
    Lie.REDIRECT: LyingServer._redirect,
}
