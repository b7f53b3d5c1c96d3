"""HTTP/1.1 as an API server speaks it to a webhook: from bytes to whole requests.

Every request is a POST with a Content-Length. Anything else (other methods, chunked bodies, folded
headers) is refused with a status, and the connection ends there. Two readers of one stream must not
disagree about where a request ends.
"""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

MAX_BODY_BYTES: Final = 5 * 1024 * 1024
"""The original's limit; a pod is at most 1.5 MB, and a review of an update holds two."""
MAX_HEAD_BYTES: Final = 16 * 1024

_HEAD_END: Final = b"\r\n\r\n"
_STRAY: Final = re.compile(rb"\x00|\r(?!\n|$)|(?<!\r)\n")
"""NUL, or a CR or LF outside a line ending; other readers take them for line endings."""
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MAX_DIGITS: Final = 18
_KEPT_HEADS: Final = 256


class HttpRequest(msgspec.Struct, frozen=True):
    """A complete request."""

    content_type: str
    body: bytes
    keeps_alive: bool = True
    """True if the connection may be used again."""


@dataclass(frozen=True, slots=True)
class HttpFlaw:
    """Reason why the connection cannot go on."""

    status: HTTPStatus


@dataclass(frozen=True, slots=True)
class _Head:
    content_type: str
    length: int
    keeps_alive: bool


Read: TypeAlias = HttpRequest | HttpFlaw | None


def has_stray(head: bytes | bytearray, start: int = 0) -> bool:
    """Return True if a head, or the first part of one, holds NUL, a bare CR or a bare LF.

    The bytes before `start` were scanned already.
    """
    return _STRAY.search(head, start, MAX_HEAD_BYTES) is not None


class RequestReader:
    """Splits the bytes of one connection into requests."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._buffer = bytearray()
        self._scanned = 0
        """Place in the buffer before which there is neither the end of a head nor a flaw."""
        self._head: _Head | None = None

    @property
    def buffered_bytes(self) -> int:
        """Number of received bytes that belong to no complete request yet."""
        return len(self._buffer)

    @property
    def is_amid_request(self) -> bool:
        """True if a part of a request has come, and the rest has not."""
        return self._head is not None or bool(self._buffer)

    def feed(self, data: bytes) -> None:
        """Append received bytes to the buffer."""
        self._buffer += data

    def read_at_once(self, data: bytes) -> HttpRequest | None:
        """Return a request that came in one piece, as almost all do; None for anything else.

        Nothing is buffered: the caller feeds what is not returned.
        """
        end = -1 if self.is_amid_request else data.find(_HEAD_END, 0, MAX_HEAD_BYTES)
        head = None if end < 0 else _parse_head(data[:end])
        if not isinstance(head, _Head) or len(data) != end + len(_HEAD_END) + head.length:
            return None
        if head.length > self._max_body_bytes:
            return None
        return HttpRequest(head.content_type, data[end + len(_HEAD_END) :], head.keeps_alive)

    def read(self) -> Read:
        """Return the next request if it is complete, or its flaw; None if more bytes are needed."""
        if self._head is None:
            found = self._read_head()
            if not isinstance(found, _Head):
                return found
            self._head = found
        return self._read_body(self._head)

    def _read_head(self) -> _Head | HttpFlaw | None:
        start, self._scanned = self._scanned, 0
        end = self._buffer.find(_HEAD_END, start, MAX_HEAD_BYTES)
        if end < 0:
            # No further bytes can make it a valid head.
            if has_stray(self._buffer, start):
                return HttpFlaw(HTTPStatus.BAD_REQUEST)
            # A head that comes byte by byte must not be scanned from its start each time.
            self._scanned = max(len(self._buffer) - len(_HEAD_END), 0)
            is_too_long = len(self._buffer) >= MAX_HEAD_BYTES
            return HttpFlaw(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) if is_too_long else None
        written = bytes(self._buffer[:end])
        del self._buffer[: end + len(_HEAD_END)]
        found = _parse_head(written)
        if isinstance(found, _Head) and found.length > self._max_body_bytes:
            return HttpFlaw(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return found

    def _read_body(self, head: _Head) -> HttpRequest | None:
        if len(self._buffer) < head.length:
            return None
        self._head = None
        if len(self._buffer) == head.length:
            # The usual case: clients send the next request after the answer to the first.
            body, self._buffer = bytes(self._buffer), bytearray()
        else:
            body = bytes(self._buffer[: head.length])
            del self._buffer[: head.length]
        return HttpRequest(head.content_type, body, head.keeps_alive)


# Cached: an API server sends the same head with few different lengths.
@lru_cache(maxsize=_KEPT_HEADS)
def _parse_head(written: bytes) -> _Head | HttpFlaw:
    if has_stray(written) or written.endswith(b"\r"):
        return HttpFlaw(HTTPStatus.BAD_REQUEST)
    line, *rest = written.decode("latin-1").split("\r\n")
    method, _, version = line.partition(" ")
    version = version.rpartition(" ")[2]
    headers = _parse_headers(rest)
    if headers is None or version not in {"HTTP/1.0", "HTTP/1.1"}:
        return HttpFlaw(HTTPStatus.BAD_REQUEST)
    if method != "POST":
        return HttpFlaw(HTTPStatus.METHOD_NOT_ALLOWED)
    length = headers.get("content-length")
    if length is None or "transfer-encoding" in headers:
        return HttpFlaw(HTTPStatus.LENGTH_REQUIRED)
    if not (length.isascii() and length.isdigit() and len(length) <= _MAX_DIGITS):
        return HttpFlaw(HTTPStatus.BAD_REQUEST)
    keeps_alive = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return _Head(headers.get("content-type", ""), int(length), keeps_alive)


def _parse_headers(lines: list[str]) -> dict[str, str] | None:
    """Return the headers by their lower-case names; None if they are ambiguous."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not _NAME.fullmatch(name):
            return None
        if name == "content-length" and name in headers:
            return None
        headers[name] = value.strip()
    return headers


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
