"""Parsing of HTTP/1.1 by httptools, within bounds, and of messages with one meaning only.

httptools (llhttp) refuses bare CR, bare LF and NUL in heads, folded headers, blanks before a colon,
two lengths, and a length beside chunks. This module refuses whatever else two readers of one stream
may understand in two ways, and bounds what a message holds beside its body.
"""

from http import HTTPStatus
from typing import Final, TypeAlias

import httptools

_VERSIONS: Final = frozenset({"1.0", "1.1"})
_ENCODING: Final = "transfer-encoding"
_HEADER_BYTES: Final = len(": \r\n")
_MAX_FRAMING: Final = 8
"""Maximum bytes beside a body for each byte of it; a chunk of one byte has five."""

_Parser: TypeAlias = httptools.HttpRequestParser | httptools.HttpResponseParser


class FlawError(Exception):
    """A message that is refused; `status` says how a server answers."""

    def __init__(self, status: HTTPStatus, problem: str) -> None:
        super().__init__(problem)
        self.status = status


class MessageCollector:
    """Collects one message after the other; the methods `on_…` are called by httptools."""

    def __init__(self, max_head_bytes: int) -> None:
        self._max_head_bytes = max_head_bytes
        self._headers: dict[str, str] = {}
        """Values by names in lower case; of repeated headers, the last one."""
        self._is_head_over = False
        self._head_bytes = 0
        """Size of all headers, trailers included."""
        self._body_bytes = 0
        self._received_bytes = 0
        """Bytes that came for this message, but for a part that came along with the one before."""

    def _begin_head(self) -> None:
        """Begin with an empty head."""
        self._headers = {}
        self._is_head_over = False
        self._head_bytes = self._body_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer only counts."""
        self._head_bytes += len(name) + len(value) + _HEADER_BYTES
        if self._head_bytes > self._max_head_bytes:
            raise self._too_long()
        if self._is_head_over:
            return
        # llhttp leaves blanks at the end of a value.
        key, text = name.lower().decode(), value.decode("latin-1").rstrip(" \t")
        if key == _ENCODING and key in self._headers:
            # llhttp obeys the last one alone; others read a list, or the first one.
            raise FlawError(HTTPStatus.BAD_REQUEST, "two transfer encodings")
        self._headers[key] = text

    def _check_head(self, parser: _Parser) -> str:
        """Return the version; raises FlawError for what others may understand in another way."""
        version = parser.get_http_version()
        if version not in _VERSIONS:
            raise FlawError(HTTPStatus.BAD_REQUEST, f"HTTP/{version} is not HTTP/1.1")
        encoding = self._headers.get(_ENCODING)
        if encoding is not None and (encoding.lower() != "chunked" or version == "1.0"):
            raise FlawError(HTTPStatus.BAD_REQUEST, f"HTTP/{version} in {encoding[:50]!r}")
        return version

    def _parse(self, parser: _Parser, data: bytes | memoryview) -> None:
        """Feed the parser, which calls the methods above; raises a FlawError."""
        self._received_bytes += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            # An error of the methods above.
            raise (error.__context__ or error) from None
        except httptools.HttpParserError as error:
            raise FlawError(HTTPStatus.BAD_REQUEST, str(error)) from error
        except httptools.HttpParserUpgrade as error:
            raise FlawError(HTTPStatus.BAD_REQUEST, "a change of protocol") from error
        # Sizes of chunks and their extensions call no method, however long they are.
        beside = self._received_bytes - self._body_bytes
        if beside > self._max_head_bytes + _MAX_FRAMING * self._body_bytes:
            raise self._too_long()

    def _too_long(self) -> FlawError:
        return FlawError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"more than {self._max_head_bytes} bytes beside the body",
        )
