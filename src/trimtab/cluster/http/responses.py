"""HTTP/1.1 responses of API servers and proxies: from bytes to a head and the pieces of a body.

The module does no I/O: the caller feeds it bytes. Compressed bodies are refused, since our
requests do not ask for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

MAX_HEAD_BYTES: Final = 64 * 1024
_MAX_SIZE_LINE: Final = 1024
"""Limit for the size line of a chunk and for a trailer line."""
_MAX_DIGITS: Final = 16

_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"


class ResponseError(OSError):
    """An answer that is not valid HTTP, or ends too early."""


class TooLongError(ResponseError):
    """An answer with more bytes than its reader takes."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the answer has more than {most_bytes} bytes")


@dataclass(frozen=True, slots=True)
class Head:
    """Status line and headers of an answer."""

    status: int
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in lower case."""
    keeps_alive: bool = True
    """True if the connection may be used again after the body."""


class ResponseReader:
    """Parser for the bytes of one answer as they come."""

    def __init__(self, *, has_body: bool = True) -> None:
        """Expect an answer; the one to CONNECT has no body, and the bytes after it are not HTTP."""
        self.head: Head | None = None
        self.is_done = False
        self._has_body = has_body
        self._buffer = bytearray()
        self._body: _Body = _Nothing()

    @property
    def keeps_alive(self) -> bool:
        """True if the next answer can come on the same connection."""
        return self.is_done and self.head is not None and self.head.keeps_alive

    def feed(self, data: bytes) -> list[bytes]:
        """Return the pieces of the body that have come with these bytes."""
        if self.is_done:
            raise ResponseError("more came than was asked for")
        if self.head is None:
            self._buffer += data
            data = self._read_head()
            if self.head is None:
                return []
        pieces = self._body.take(data)
        self.is_done = self._body.is_done
        return pieces

    def end(self) -> None:
        """Note the end of the connection; a ResponseError if something is missing."""
        if self.head is None or not (self.is_done or self._body.may_end):
            raise ResponseError("the connection ended before the answer did")
        self.is_done = True

    def _read_head(self) -> bytes:
        """Parse the head if it is complete, and return the bytes after it."""
        while self.head is None:
            end = self._buffer.find(_HEAD_END)
            if end > MAX_HEAD_BYTES or (end < 0 and len(self._buffer) > MAX_HEAD_BYTES):
                raise ResponseError("the head of the answer is too long")
            if end < 0:
                return b""
            head = _parse_head(self._buffer[:end].decode("latin-1"))
            del self._buffer[: end + len(_HEAD_END)]
            # Statuses below 200 only announce the final answer.
            if head.status >= HTTPStatus.OK:
                self.head = head
                self._body = _body_after(head) if self._has_body else _Nothing()
        rest, self._buffer = bytes(self._buffer), bytearray()
        return rest


class _Body(Protocol):
    """Rule that finds the end of a body."""

    is_done: bool
    may_end: bool
    """True if the end of the connection may end the body."""

    def take(self, data: bytes) -> list[bytes]:
        """Return the pieces of the body in these bytes."""


class _Nothing:
    is_done = True
    may_end = True

    def take(self, data: bytes) -> list[bytes]:
        if data:
            raise ResponseError("more came than was announced")
        return []


class _UntilTheEnd:
    is_done = False
    may_end = True

    def take(self, data: bytes) -> list[bytes]:
        return [data] if data else []


class _Measured:
    may_end = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_done = length == 0

    def take(self, data: bytes) -> list[bytes]:
        self._left -= len(data)
        if self._left < 0:
            raise ResponseError("more came than was announced")
        self.is_done = self._left == 0
        return [data] if data else []


class _Chunked:
    may_end = False

    def __init__(self) -> None:
        self.is_done = False
        self._buffer = bytearray()
        self._left = 0
        """Bytes left of the current chunk."""
        self._is_after_chunk = False
        self._is_after_last = False

    def take(self, data: bytes) -> list[bytes]:
        self._buffer += data
        pieces: list[bytes] = []
        while self._buffer and not self.is_done:
            if self._left:
                pieces.append(self._take_data())
            elif not self._take_line():
                break
        if self.is_done and self._buffer:
            raise ResponseError("more came than was announced")
        return pieces

    def _take_data(self) -> bytes:
        piece = bytes(self._buffer[: self._left])
        del self._buffer[: len(piece)]
        self._left -= len(piece)
        self._is_after_chunk = not self._left
        return piece

    def _take_line(self) -> bool:
        """Take the size of a chunk, its end or a trailer; return False if no line is complete."""
        end = self._buffer.find(_LINE_END, 0, _MAX_SIZE_LINE)
        if end < 0:
            if len(self._buffer) >= _MAX_SIZE_LINE:
                raise ResponseError("the size of a chunk is too long")
            return False
        line = bytes(self._buffer[:end])
        del self._buffer[: end + len(_LINE_END)]
        if self._is_after_last:
            self.is_done = not line
        elif self._is_after_chunk:
            if line:
                raise ResponseError("a chunk is longer than it says")
            self._is_after_chunk = False
        else:
            self._left = _parse_size(line.partition(b";")[0].strip(), base=16)
            self._is_after_last = not self._left
        return True


def _parse_head(text: str) -> Head:
    line, *rest = text.split("\r\n")
    version, _, status = line.partition(" ")
    code, _, reason = status.partition(" ")
    is_code = code.isascii() and code.isdigit() and len(code) == len("200")
    if version not in {"HTTP/1.1", "HTTP/1.0"} or not is_code:
        raise ResponseError(f"not an answer in HTTP/1.1: {line[:50]!r}")
    headers = _parse_headers(rest)
    wish = headers.get("connection", "").lower()
    keeps_alive = wish == "keep-alive" if version == "HTTP/1.0" else "close" not in wish
    return Head(int(code), reason, headers, keeps_alive)


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if not colon or not name or name != name.strip():
            raise ResponseError(f"not a header: {line[:50]!r}")
        if name == "content-length" and headers.get(name, value) != value:
            raise ResponseError("two lengths of one body")
        headers[name] = value
    return headers


def _body_after(head: Head) -> _Body:
    if head.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
        return _Nothing()
    encoding = head.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise ResponseError(f"an answer in {encoding}, which nobody asked for")
    transfer = head.headers.get("transfer-encoding")
    if transfer is not None:
        if transfer.lower() != "chunked":
            raise ResponseError(f"an answer in {transfer}, which nobody asked for")
        return _Chunked()
    length = head.headers.get("content-length")
    return _UntilTheEnd() if length is None else _Measured(_parse_size(length.encode(), base=10))


def _parse_size(text: bytes, base: int) -> int:
    """Parse a number; refuse the signs and underscores that Python allows."""
    if not text.isalnum() or len(text) > _MAX_DIGITS:
        raise ResponseError(f"not a size: {text[:50]!r}")
    try:
        return int(text, base)
    except ValueError as error:
        raise ResponseError(f"not a size: {text[:50]!r}") from error
