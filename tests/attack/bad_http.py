"""Shapes of bad HTTP: bytes that no API server sends, and what the webhook answers."""

from dataclasses import dataclass

BODY = b'{"request":{"uid":"u-1"}}'
_END = b"\r\n\r\n"
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """Bytes to send on one connection."""

    name: str
    sent: bytes
    statuses: tuple[int, ...]
    """The answers, after which the webhook ends the connection; none at all if it waits."""
    leaves: bool = False
    """True if the client ends the connection right after it has sent."""


def _request(*headers: str, line: str = "POST / HTTP/1.1", body: bytes = BODY) -> bytes:
    length = () if any("ength" in each for each in headers) else (f"Content-Length: {len(body)}",)
    lines = [line, "Host: webhook", "Content-Type: application/json", *headers, *length]
    return "\r\n".join(lines).encode("latin-1") + _END + body


def _in_chunks(
    *headers: str,
    encoding: str = "chunked",
    line: str = "POST / HTTP/1.1",
    chunks: bytes = b"0\r\n\r\n",
) -> bytes:
    lines = [line, "Host: webhook", f"Transfer-Encoding: {encoding}", *headers]
    return "\r\n".join(lines).encode() + _END + chunks


GOOD = _request()
_MUCH = b"100000\r\n%b\r\n" % (b" " * 1024 * _KIB) * 6
_CHUNKED = "Transfer-Encoding: chunked"

SHAPES = (
    # Lines and characters.
    Shape("bare LF between headers", _request("A: b\nC: d"), (400,)),
    Shape("bare CR between headers", _request("A: b\rC: d"), (400,)),
    Shape("NUL in a value", _request("A: b\0c"), (400,)),
    Shape("NUL in a name", _request("A\0: b"), (400,)),
    Shape("NUL in the path", _request(line="POST /\0 HTTP/1.1"), (400,)),
    Shape("LF in the path", _request(line="POST /\n HTTP/1.1"), (400,)),
    Shape("all lines end in LF", GOOD.replace(b"\r\n", b"\n"), (400,)),
    Shape("all lines end in CR", GOOD.replace(b"\r\n", b"\r"), (400,)),
    Shape("CR before CRLF", _request("A: b\r"), (400,)),
    Shape("folded header", _request("A: b\r\n c"), (400,)),
    Shape("blank before the colon", _request("A : b"), (400,)),
    Shape("blank in a name", _request("A B: c"), (400,)),
    Shape("no name", _request(": b"), (400,)),
    Shape("no colon", _request("A"), (400,)),
    Shape("tab before a name", _request("\tA: b"), (400,)),
    Shape("name that is no token", _request("A(b): c"), (400,)),
    Shape("name beyond ASCII", _request("\xe4: b"), (400,)),
    # First line.
    Shape("GET", _request(line="GET / HTTP/1.1"), (405,)),
    Shape("CONNECT", _request(line="CONNECT a:443 HTTP/1.1"), (405,)),
    Shape("a method in small letters", _request(line="post / HTTP/1.1"), (400,)),
    Shape("no version", _request(line="POST /"), (400,)),
    Shape("HTTP/2 in text", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400,)),
    Shape("HTTP/0.9", b"GET /\r\n\r\n", (400,)),
    Shape("TLS inside TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", (400,)),
    Shape("empty first line", b"\r\n\r\n", (400,)),
    Shape("noise", bytes(range(1, 10)) * 100 + _END, (400,)),
    # Lengths.
    Shape("no length", b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", (411,)),
    Shape("two equal lengths", _request("Content-Length: 25", "Content-Length: 25"), (400,)),
    Shape("two different lengths", _request("Content-Length: 25", "Content-Length: 2"), (400,)),
    Shape("negative length", _request("Content-Length: -1"), (400,)),
    Shape("length with a plus", _request("Content-Length: +25"), (400,)),
    Shape("hexadecimal length", _request("Content-Length: 0x19"), (400,)),
    Shape("length with a comma", _request("Content-Length: 25, 25"), (400,)),
    Shape("empty length", _request("Content-Length: "), (400,)),
    Shape("length beyond 64 bits", _request("Content-Length: " + "9" * 30), (400,)),
    Shape("length beyond 5 MiB", _request("Content-Length: 5242881"), (413,)),
    # Chunks.
    Shape("chunks and a length", _request(_CHUNKED, f"Content-Length: {len(BODY)}"), (400,)),
    Shape("chunked twice", _in_chunks(_CHUNKED), (400,)),
    Shape("two encodings, the last one chunks", _in_chunks(_CHUNKED, encoding="identity"), (400,)),
    Shape("chunks of one byte", _in_chunks(chunks=b"1\r\nx\r\n" * 100), (400,)),
    Shape("an unknown encoding", _in_chunks(encoding="xchunked"), (400,)),
    Shape("an encoding beside chunks", _in_chunks(encoding="gzip, chunked"), (400,)),
    Shape("chunks in HTTP/1.0", _in_chunks(line="POST / HTTP/1.0"), (400,)),
    Shape("a chunk beyond 64 bits", _in_chunks(chunks=b"F" * 17 + b"\r\n"), (400,)),
    Shape("a chunk with a sign", _in_chunks(chunks=b"-1\r\n"), (400,)),
    Shape("a chunk that is longer than its size", _in_chunks(chunks=b"1\r\nabc"), (400,)),
    Shape("chunks that end in LF", _in_chunks(chunks=b"1\na\n0\n\n"), (400,)),
    Shape("a size of 17 KiB", _in_chunks(chunks=b"0" * 17 * _KIB), (431,)),
    Shape("an extension of 17 KiB", _in_chunks(chunks=b"1;" + b"a" * 17 * _KIB), (431,)),
    Shape("trailers without an end", _in_chunks(chunks=b"0\r\n" + b"A: b\r\n" * 3000), (431,)),
    Shape("chunks of more than 5 MiB", _in_chunks(chunks=_MUCH), (413,)),
    Shape("a change of protocol", _request("Connection: upgrade", "Upgrade: h2c"), (400,)),
    # Sizes.
    Shape("a header of 17 KiB", _request("A: " + "b" * 17 * _KIB), (431,)),
    Shape("4 000 headers", _request(*(f"A{number}: b" for number in range(4000))), (431,)),
    Shape("a head without an end", b"POST / HTTP/1.1\r\n" + b"A: b\r\n" * 3000, (431,)),
    # Order and ends.
    Shape("ten requests at once, the last one bad", GOOD * 9 + _request("A"), (*[200] * 9, 400)),
    Shape("the client leaves amid the body", GOOD[:-5], (), leaves=True),
)
