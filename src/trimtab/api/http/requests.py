"""Requests out of the bytes of one connection, whatever pieces these come in.

The module does no I/O. A request that is refused ends its connection: two readers of one stream
must not disagree about where a request ends.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Final, TypeAlias

import httptools
import msgspec

from trimtab.api.http.parsing import FlawError, MessageCollector

MAX_HEAD_BYTES: Final = 16 * 1024
_STEP_BYTES: Final = 16 * 1024
"""Bytes that are parsed at once, and so the maximum size of requests that wait in a reader."""
_FREE_CHUNKS: Final = 64
_CHUNK_BYTES: Final = 64
"""Least mean size of chunks beyond the first ones: one of a byte costs as much as many bytes."""
_REQUEST_BYTES: Final = 512
"""Size of a request without its body, as it counts while it waits in a reader."""


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """A complete request."""

    headers: Mapping[str, str] = {}
    """Values by names in lower case."""
    body: bytes = b""
    method: str = "POST"
    target: str = "/"
    keeps_alive: bool = True
    """True if the connection may be used again."""

    @property
    def content_type(self) -> str:
        """The type of the body; empty if the client does not say."""
        return self.headers.get("content-type", "")


@dataclass(frozen=True, slots=True)
class HttpFlaw:
    """Reason why the connection cannot go on."""

    status: HTTPStatus


Read: TypeAlias = HttpRequest | HttpFlaw | None
HeadCheck: TypeAlias = Callable[[str, Mapping[str, str]], HTTPStatus | None]
"""Returns the status by which a method with such headers is refused, before its body comes."""


def take_any(method: str, headers: Mapping[str, str]) -> None:
    """Refuse no request."""


class RequestReader(MessageCollector):
    """Splits the bytes of one connection into requests; `close` it in the end."""

    def __init__(self, max_body_bytes: int, check: HeadCheck = take_any) -> None:
        super().__init__(MAX_HEAD_BYTES)
        self._max_body_bytes = max_body_bytes
        self._check = check
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._unparsed: bytes | memoryview = b""
        self._method = ""
        self._keeps_alive = False
        self._target = b""
        self._body = bytearray()
        self._chunks = 0
        self._is_amid_message = False
        self._complete: deque[HttpRequest] = deque()
        self._flaw: HttpFlaw | None = None

    @property
    def buffered_bytes(self) -> int:
        """Size of all that was received and not read yet."""
        size_bytes = len(self._unparsed)
        if self._is_amid_message:
            size_bytes += max(self._received_bytes, self._head_bytes + len(self._body), 1)
        if self._complete:
            size_bytes += sum(len(each.body) + _REQUEST_BYTES for each in self._complete)
        return size_bytes

    @property
    def is_amid_request(self) -> bool:
        """True if a part of a request has come, or something that was not read yet."""
        return bool(self._is_amid_message or self._unparsed or self._complete or self._flaw)

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        if self._parser is not None:
            self._unparsed = b"".join((self._unparsed, data)) if self._unparsed else data

    def read(self) -> Read:
        """Return the next request if it is complete, or its flaw; None if more bytes are needed."""
        while self._parser is not None and self._unparsed and not self._complete:
            self._parse_some(self._parser)
        return self._complete.popleft() if self._complete else self._flaw

    def close(self) -> None:
        """Drop what was received, and free the parser, which refers to its reader."""
        self._complete.clear()
        self._flaw = None
        self._drop_rest()

    def _drop_rest(self) -> None:
        self._parser = None
        self._unparsed, self._body, self._is_amid_message = b"", bytearray(), False

    def _parse_some(self, parser: httptools.HttpRequestParser) -> None:
        data, self._unparsed = self._unparsed, b""
        if len(data) > _STEP_BYTES:
            data, self._unparsed = memoryview(data)[:_STEP_BYTES], memoryview(data)[_STEP_BYTES:]
        try:
            if not self._is_amid_message:
                _check_first_byte(data[0])
            self._parse(parser, data)
        except FlawError as error:
            self._flaw = HttpFlaw(error.status)
            self._drop_rest()

    def on_message_begin(self) -> None:
        """Begin with an empty request."""
        self._begin_head()
        self._is_amid_message = True
        self._target = b""
        self._body = bytearray()
        self._chunks = 0

    def on_url(self, url: bytes) -> None:
        """Keep the target, or the next part of it."""
        self._head_bytes += len(url)
        self._target += url

    def on_headers_complete(self) -> None:
        """Refuse a request as early as possible."""
        self._is_head_over = True
        parser = self._parser
        assert parser is not None
        version = self._check_head(parser)
        self._method = parser.get_method().decode()
        status = self._check(self._method, self._headers)
        if status is not None:
            raise FlawError(status, self._method)
        if parser.should_upgrade():
            raise FlawError(HTTPStatus.BAD_REQUEST, "a change of protocol")
        if int(self._headers.get("content-length", 0)) > self._max_body_bytes:
            raise _too_large()
        # A client of HTTP/1.0 would have to be answered that it may go on.
        self._keeps_alive = version == "1.1" and parser.should_keep_alive()

    def on_chunk_header(self) -> None:
        """Refuse a body in many small chunks, which would take seconds to read."""
        self._chunks += 1
        if self._chunks > _FREE_CHUNKS + self._body_bytes // _CHUNK_BYTES:
            raise FlawError(HTTPStatus.BAD_REQUEST, "a body in small chunks")

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._body_bytes += len(body)
        if self._body_bytes > self._max_body_bytes:
            raise _too_large()
        # One buffer: a list of chunks of one byte each would take a hundred times their size.
        self._body += body

    def on_message_complete(self) -> None:
        """Make the request available to `read`."""
        target = self._target.decode("latin-1")
        body = bytes(self._body)
        self._complete.append(
            HttpRequest(self._headers, body, self._method, target, self._keeps_alive)
        )
        self._body = bytearray()
        self._is_amid_message = False
        self._received_bytes = 0


def _check_first_byte(byte: int) -> None:
    """Refuse an empty line before a request; llhttp would skip any number of them."""
    if byte in b"\r\n":
        raise FlawError(HTTPStatus.BAD_REQUEST, "an empty line")


def _too_large() -> FlawError:
    return FlawError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a body above the limit")


def format_response(status: HTTPStatus, body: bytes = b"", *, keeps_alive: bool) -> bytes:
    """Return a complete response with a JSON body."""
    return _format_head(status, keeps_alive=keeps_alive) % (len(body), body)


@cache
def _format_head(status: HTTPStatus, *, keeps_alive: bool) -> bytes:
    """Return a template for a response, without its body and Content-Length."""
    closing = "" if keeps_alive else "Connection: close\r\n"
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: %d\r\n{closing}\r\n%b"
    ).encode()
