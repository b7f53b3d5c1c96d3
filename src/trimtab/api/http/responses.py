"""Answers of API servers, proxies and other servers: from bytes to a head and pieces of a body.

The module does no I/O: the caller feeds it bytes. Compressed bodies are refused, since our
requests do not ask for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import httptools

from trimtab.api.http.parsing import FlawError, MessageCollector

MAX_HEAD_BYTES: Final = 64 * 1024


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


class ResponseReader(MessageCollector):
    """Reads one answer from its bytes, as they come."""

    def __init__(self, *, has_body: bool = True) -> None:
        """Expect an answer; the one to CONNECT has no body, and the bytes after it are not HTTP."""
        super().__init__(MAX_HEAD_BYTES)
        self.head: Head | None = None
        self.is_done = False
        self.keeps_alive = False
        """True if the next answer can come on the same connection."""
        self._has_body = has_body
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._reason = b""
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Return the pieces of the body that have come with these bytes."""
        if self._parser is None:
            raise ResponseError("more came than was asked for")
        try:
            self._parse(self._parser, data)
        except FlawError as error:
            self._parser = None
            raise ResponseError(f"not an answer in HTTP/1.1: {error}") from error
        if self.is_done:
            # The parser refers to its reader: without it, both are freed at once.
            self._parser = None
        pieces, self._pieces = self._pieces, []
        return pieces

    def end(self) -> None:
        """Note the end of the connection; a ResponseError if something is missing."""
        self._parser = None
        if self.head is None or not (self.is_done or self._ends_with_connection(self.head)):
            raise ResponseError("the connection ended before the answer did")
        self.is_done = True

    def _ends_with_connection(self, head: Head) -> bool:
        return not ("content-length" in head.headers or "transfer-encoding" in head.headers)

    def on_message_begin(self) -> None:
        """Begin with an empty answer."""
        self._begin_head()
        if self.is_done:
            raise FlawError(HTTPStatus.BAD_GATEWAY, "more came than was announced")
        self._reason = b""

    def on_status(self, reason: bytes) -> None:
        """Keep the words after the status, or the next part of them."""
        self._head_bytes += len(reason)
        self._reason += reason

    def on_headers_complete(self) -> None:
        """Note the head, unless it only announces the final answer."""
        self._is_head_over = True
        assert self._parser is not None
        self._check_head(self._parser)
        status = self._parser.get_status_code()
        if status < HTTPStatus.OK:
            return
        encoding = self._headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise FlawError(HTTPStatus.BAD_GATEWAY, f"a body in {encoding[:50]!r}")
        self.head = Head(status, self._reason.decode("latin-1"), self._headers)
        self.is_done = not self._has_body

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        if self.is_done:
            raise FlawError(HTTPStatus.BAD_GATEWAY, "more came than was announced")
        self._body_bytes += len(body)
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Note the end of the final answer."""
        self._received_bytes = 0
        if self.head is not None:
            assert self._parser is not None
            self.is_done = True
            self.keeps_alive = self._has_body and self._parser.should_keep_alive()
