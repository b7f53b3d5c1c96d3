"""Requests out of bytes, whatever way these come in."""

import time
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.admission.server.http import (
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


def read_all(reader: RequestReader) -> list[HttpRequest | HttpFlaw]:
    found = []
    while (one := reader.read()) is not None:
        found.append(one)
        if isinstance(one, HttpFlaw):
            break
    return found


def test_a_request_as_an_api_server_writes_it_is_read_whole() -> None:
    reader = RequestReader()
    reader.feed(a_request())

    assert reader.read() == HttpRequest("application/json", BODY)
    assert reader.read() is None
    assert not reader.is_amid_request


STREAMS = st.one_of(
    st.builds(a_request, st.binary(max_size=40)),
    st.builds(lambda one, more: one + more, st.builds(a_request), st.binary(max_size=9)),
    st.builds(lambda count: a_request()[:count], st.integers(0, len(a_request()))),
    st.binary(max_size=60),
)


@given(STREAMS, STREAMS, st.integers(0, 30))
def test_a_request_that_is_read_at_once_is_the_one_that_is_read_step_by_step(
    first: bytes, second: bytes, max_body_bytes: int
) -> None:
    hasty, patient = RequestReader(max_body_bytes), RequestReader(max_body_bytes)
    found: list[HttpRequest | HttpFlaw] = []
    for stream in (first, second):
        if (one := hasty.read_at_once(stream)) is not None:
            found.append(one)
        else:
            hasty.feed(stream)
            found += read_all(hasty)
        patient.feed(stream)
        expected = read_all(patient)

        assert found == expected
        assert hasty.buffered_bytes == patient.buffered_bytes

        if any(isinstance(each, HttpFlaw) for each in found):
            return
        found.clear()


def test_a_request_in_one_piece_is_read_at_once_and_leaves_nothing_behind() -> None:
    reader = RequestReader()

    assert reader.read_at_once(a_request()) == HttpRequest("application/json", BODY)
    assert not reader.is_amid_request


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=4),
    st.lists(st.integers(1, 50), max_size=60),
)
def test_requests_are_the_same_however_their_bytes_are_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(a_request(body) for body in bodies)
    reader, found = RequestReader(), []
    for cut in [*cuts, len(stream)]:
        reader.feed(stream[:cut])
        stream = stream[cut:]
        found += read_all(reader)

    assert found == [HttpRequest("application/json", body) for body in bodies]
    assert reader.buffered_bytes == 0


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
            a_request(BODY, "Transfer-Encoding: chunked"), 411, id="chunks beside a length"
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
        pytest.param(b"A" * MAX_HEAD_BYTES, 431, id="a head without end"),
    ],
)
def test_what_can_be_read_in_two_ways_or_is_too_much_is_refused(stream: bytes, status: int) -> None:
    reader = RequestReader()
    reader.feed(stream)
    slow = RequestReader()
    found = None
    for byte in stream:
        slow.feed(bytes((byte,)))
        found = slow.read()
        if found is not None:
            break

    assert reader.read() == HttpFlaw(HTTPStatus(status))
    assert found == HttpFlaw(HTTPStatus(status))


def test_a_head_that_comes_byte_by_byte_costs_little() -> None:
    reader = RequestReader()
    began = time.process_time()
    for byte in b"POST / HTTP/1.1\r\nX-Long: " + b"x" * 16_000:
        reader.feed(bytes((byte,)))
        assert reader.read() is None

    # Read from its beginning each time it takes four seconds.
    assert time.process_time() - began < 1


def test_a_body_of_exactly_five_mebibytes_is_taken() -> None:
    reader = RequestReader()
    body = b" " * (5 * 1024 * 1024)
    reader.feed(a_request(body))

    assert reader.read() == HttpRequest("application/json", body)


@pytest.mark.parametrize(
    ("stream", "keeps_alive"),
    [
        pytest.param(a_request(), True, id="HTTP/1.1 goes on"),
        pytest.param(a_request(BODY, "Connection: Close"), False, id="unless it is asked to end"),
        pytest.param(a_request(line="POST / HTTP/1.0"), False, id="HTTP/1.0 ends"),
    ],
)
def test_a_connection_goes_on_as_its_client_wishes(stream: bytes, *, keeps_alive: bool) -> None:
    reader = RequestReader()
    reader.feed(stream)
    found = reader.read()

    assert isinstance(found, HttpRequest)
    assert found.keeps_alive is keeps_alive


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_raise(stream: bytes) -> None:
    reader = RequestReader()
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
