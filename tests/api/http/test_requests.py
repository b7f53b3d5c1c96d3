"""Requests out of bytes, whatever way these come in."""

import gc
import time
import tracemalloc
import weakref
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.admission.server.connections import check_head
from trimtab.admission.server.limits import MAX_BODY_BYTES
from trimtab.api.http.requests import (
    MAX_HEAD_BYTES,
    HttpFlaw,
    HttpRequest,
    RequestReader,
    format_response,
)

BODY = b'{"kind":"AdmissionReview"}'


def a_request(
    body: bytes = BODY, *headers: str, line: str = "POST /?timeout=5s HTTP/1.1", length: str = ""
) -> bytes:
    """A request as Go writes it."""
    usual = ("Host: webhook", "Content-Type: application/json")
    lines = [line, *usual, *headers, f"Content-Length: {length or len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def in_chunks(
    chunks: bytes,
    *headers: str,
    encoding: str = "chunked",
    line: str = "POST / HTTP/1.1",
) -> bytes:
    """A request whose body comes in chunks."""
    lines = [line, f"Transfer-Encoding: {encoding}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + chunks


def a_reader(max_body_bytes: int = MAX_BODY_BYTES) -> RequestReader:
    """A reader as the webhook has it."""
    return RequestReader(max_body_bytes, check_head)


def expected(body: bytes, *headers: tuple[str, str]) -> HttpRequest:
    """The request that `a_request` makes."""
    usual = {"host": "webhook", "content-type": "application/json", **dict(headers)}
    return HttpRequest({**usual, "content-length": str(len(body))}, body, target="/?timeout=5s")


def read_all(reader: RequestReader) -> list[HttpRequest | HttpFlaw]:
    found = []
    while (one := reader.read()) is not None:
        found.append(one)
        if isinstance(one, HttpFlaw):
            break
    return found


def test_a_request_as_an_api_server_writes_it_is_read_whole() -> None:
    reader = a_reader()
    reader.feed(a_request())

    assert reader.read() == expected(BODY)
    assert reader.read() is None
    assert not reader.is_amid_request


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=4),
    st.lists(st.integers(1, 50), max_size=60),
)
def test_requests_are_the_same_however_their_bytes_are_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(a_request(body) for body in bodies)
    reader, found = a_reader(), []
    for cut in [*cuts, len(stream)]:
        reader.feed(stream[:cut])
        stream = stream[cut:]
        found += read_all(reader)

    assert found == [expected(body) for body in bodies]
    assert reader.buffered_bytes == 0


@given(st.binary(max_size=60), st.lists(st.integers(1, 9), min_size=1), st.data())
def test_a_body_in_chunks_is_the_same_however_it_is_cut(
    body: bytes, sizes: list[int], data: st.DataObject
) -> None:
    chunks, rest = b"", body
    while rest:
        size = data.draw(st.sampled_from(sizes))
        chunks += b"%x\r\n%b\r\n" % (len(rest[:size]), rest[:size])
        rest = rest[size:]
    stream = in_chunks(chunks + b"0\r\nTrailer: x\r\n\r\n") + a_request()
    reader, found = a_reader(), []
    while stream:
        cut = data.draw(st.integers(1, 40))
        reader.feed(stream[:cut])
        stream = stream[cut:]
        found += read_all(reader)

    assert found == [
        HttpRequest({"transfer-encoding": "chunked"}, body, target="/"),
        expected(BODY),
    ]
    assert reader.buffered_bytes == 0


def test_a_body_in_many_chunks_takes_no_more_memory_than_it_has() -> None:
    reader = a_reader()
    tracemalloc.start()
    try:
        reader.feed(in_chunks((b"40\r\n" + b"x" * 64 + b"\r\n") * 1500))
        before = tracemalloc.get_traced_memory()[0]
        assert reader.read() is None
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert after - before < 200_000
    assert reader.buffered_bytes > 90_000


@given(st.integers(0, 63), st.integers(1, 63), st.integers(1, 3000))
def test_a_body_in_small_chunks_is_refused_however_it_is_cut(
    first: int, size: int, cut: int
) -> None:
    small = b"%x\r\n%b\r\n" % (size, b"x" * size)
    stream = in_chunks(b"1\r\nx\r\n" * first + small * 10_000)
    reader, found = a_reader(), []
    for begin in range(0, len(stream), cut):
        reader.feed(stream[begin : begin + cut])
        found += read_all(reader)
        if found:
            break

    assert found == [HttpFlaw(HTTPStatus.BAD_REQUEST)]
    assert reader.buffered_bytes == 0


def test_a_reader_that_is_closed_leaves_nothing_to_the_garbage_collector() -> None:
    reader = a_reader()
    reader.feed(a_request()[:-1])
    reader.read()
    remains = weakref.ref(reader)
    gc.disable()
    try:
        reader.close()
        del reader
        assert remains() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("stream", "status"),
    [
        pytest.param(a_request(line="GET / HTTP/1.1"), 405, id="another method"),
        pytest.param(a_request(line="POST /"), 400, id="no version"),
        pytest.param(
            a_request(line="POST / HTTP/2.0"), 400, id="a version of which we know nothing"
        ),
        pytest.param(b"\x16\x03\x01 nonsense\r\n\r\n", 400, id="not HTTP at all"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", 411, id="no length"),
        pytest.param(
            a_request(BODY, "Transfer-Encoding: chunked"), 400, id="chunks beside a length"
        ),
        pytest.param(in_chunks(b"", "Transfer-Encoding: chunked"), 400, id="chunked twice"),
        pytest.param(in_chunks(b"", encoding="gzip, chunked"), 400, id="an encoding beside chunks"),
        pytest.param(
            in_chunks(b"0\r\n\r\n", "Transfer-Encoding: chunked", encoding="identity"),
            400,
            id="another encoding before chunks",
        ),
        pytest.param(in_chunks(b"1\r\nx\r\n" * 100), 400, id="chunks of one byte"),
        pytest.param(in_chunks(b"", encoding="xchunked"), 400, id="an unknown encoding"),
        pytest.param(in_chunks(b"", line="POST / HTTP/1.0"), 400, id="chunks in HTTP/1.0"),
        pytest.param(in_chunks(b"-1\r\na\r\n"), 400, id="a chunk below zero"),
        pytest.param(in_chunks(b"0x1\r\na\r\n"), 400, id="a size with a prefix"),
        pytest.param(in_chunks(b"1 \r\na\r\n"), 400, id="a blank after a size"),
        pytest.param(in_chunks(b"1\na\n"), 400, id="chunks that end in LF"),
        pytest.param(in_chunks(b"1;a\nb\r\na\r\n"), 400, id="a bare LF in an extension"),
        pytest.param(in_chunks(b"1\r\nabc"), 400, id="a chunk that is longer than its size"),
        pytest.param(in_chunks(b"F" * 17 + b"\r\n"), 400, id="a chunk beyond all numbers"),
        pytest.param(in_chunks(b"0" * MAX_HEAD_BYTES), 431, id="a size without end"),
        pytest.param(in_chunks(b"1;" + b"a" * MAX_HEAD_BYTES), 431, id="an endless extension"),
        pytest.param(
            in_chunks(b"0\r\n" + b"A: b\r\n" * (MAX_HEAD_BYTES // 6)), 431, id="endless trailers"
        ),
        pytest.param(in_chunks(b"0\r\nA: b\r\n c\r\n"), 400, id="a folded trailer"),
        pytest.param(b"\r\n" + a_request(), 400, id="an empty line before it"),
        pytest.param(
            a_request(BODY, "Connection: upgrade", "Upgrade: h2c"), 400, id="a change of protocol"
        ),
        pytest.param(a_request(BODY, "Content-Length: 3"), 400, id="two lengths"),
        pytest.param(a_request(BODY, "X: a\nY: b"), 400, id="a bare LF in a header"),
        pytest.param(a_request(BODY, "X: a\rY: b"), 400, id="a bare CR in a header"),
        pytest.param(a_request(BODY, "X: a\0b"), 400, id="a NUL in a header"),
        pytest.param(a_request(BODY, "X: a\r"), 400, id="a CR before the end of a line"),
        pytest.param(a_request(line="POST /\0 HTTP/1.1"), 400, id="a NUL in the first line"),
        pytest.param(a_request(line="POST /\n HTTP/1.1"), 400, id="a LF in the first line"),
        pytest.param(b"POST / HTTP/1.1\nContent-Length: 0\n\n", 400, id="lines that end in LF"),
        pytest.param(b"POST / HTTP/1.1\rContent-Length: 0\r\r", 400, id="lines that end in CR"),
        pytest.param(b"POST / HTTP/1.1\r\n\0", 400, id="a NUL in a head that is not over"),
        pytest.param(a_request(BODY, "X Y: a"), 400, id="a blank in a name"),
        pytest.param(a_request(length="-1"), 400, id="a length below zero"),
        pytest.param(a_request(length="+5"), 400, id="a length with a sign"),
        pytest.param(a_request(length="9" * 30), 400, id="a length beyond all numbers"),
        pytest.param(a_request(length="5242881"), 413, id="one byte more than 5 MiB"),
        pytest.param(a_request(BODY, " folded: header"), 400, id="a folded header"),
        pytest.param(a_request(BODY, "no colon"), 400, id="a header without a colon"),
        pytest.param(a_request(BODY, "Odd : value"), 400, id="a space before the colon"),
        pytest.param(
            b"POST / HTTP/1.1\r\nA: " + b"b" * MAX_HEAD_BYTES, 431, id="a head without end"
        ),
        pytest.param(
            a_request(BODY, "A: " + "b" * MAX_HEAD_BYTES), 431, id="a head that is too long"
        ),
    ],
)
def test_what_can_be_read_in_two_ways_or_is_too_much_is_refused(stream: bytes, status: int) -> None:
    reader = a_reader()
    reader.feed(stream)
    slow = a_reader()
    found = None
    for byte in stream:
        slow.feed(bytes((byte,)))
        found = slow.read()
        if found is not None:
            break

    assert reader.read() == HttpFlaw(HTTPStatus(status))
    assert found == HttpFlaw(HTTPStatus(status))


def test_a_head_that_comes_byte_by_byte_costs_little() -> None:
    reader = a_reader()
    began = time.process_time()
    for byte in b"POST / HTTP/1.1\r\nX-Long: " + b"x" * 16_000:
        reader.feed(bytes((byte,)))
        assert reader.read() is None

    # Read from its beginning each time it takes four seconds.
    assert time.process_time() - began < 1


def test_a_body_of_exactly_five_mebibytes_is_taken() -> None:
    reader = a_reader()
    body = b" " * (5 * 1024 * 1024)
    reader.feed(a_request(body))

    assert reader.read() == expected(body)


@pytest.mark.parametrize(
    ("stream", "keeps_alive"),
    [
        pytest.param(a_request(), True, id="HTTP/1.1 goes on"),
        pytest.param(a_request(BODY, "Connection: Close"), False, id="unless it is asked to end"),
        pytest.param(a_request(line="POST / HTTP/1.0"), False, id="HTTP/1.0 ends"),
    ],
)
def test_a_connection_goes_on_as_its_client_wishes(stream: bytes, *, keeps_alive: bool) -> None:
    reader = a_reader()
    reader.feed(stream)
    found = reader.read()

    assert isinstance(found, HttpRequest)
    assert found.keeps_alive is keeps_alive


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_raise(stream: bytes) -> None:
    reader = a_reader()
    reader.feed(stream)
    read_all(reader)

    assert reader.buffered_bytes <= len(stream)


def test_a_response_says_how_long_it_is_and_whether_it_is_the_last() -> None:
    last = format_response(HTTPStatus.OK, b"{}", keeps_alive=False)

    assert last.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Length: 2\r\n" in last
    assert b"\r\nConnection: close\r\n" in last
    assert last.endswith(b"\r\n\r\n{}")
    assert b"Connection" not in format_response(HTTPStatus.OK, keeps_alive=True)
