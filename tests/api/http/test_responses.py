"""Answers in HTTP/1.1, read from bytes that come in any pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.http.responses import MAX_HEAD_BYTES, ResponseError, ResponseReader


def read(*pieces: bytes, ends: bool = False) -> tuple[int, bytes, bool]:
    """The status, the body, and whether the connection may be used again."""
    reader = ResponseReader()
    body = b"".join(part for piece in pieces for part in reader.feed(piece))
    if ends:
        reader.end()
    assert reader.head is not None
    assert reader.is_done
    return reader.head.status, body, reader.keeps_alive


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", (200, b"{}", True), id="a length"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", (200, b"", True), id="no bytes at all"
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True), id="no content"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
            (200, b"abc0123456789", True),
            id="chunks",
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx",
            (201, b"x", True),
            id="an announcement before it",
        ),
        pytest.param(
            b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
            (404, b"x", False),
            id="the last one on its connection",
        ),
        pytest.param(
            b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", (200, b"x", False), id="an old server"
        ),
    ],
)
@given(cuts=st.lists(st.integers(0, 200)))
def test_an_answer_is_the_same_however_the_network_cuts_it(
    answer: bytes, expected: tuple[int, bytes, bool], cuts: list[int]
) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut <= len(answer)), len(answer)]
    pieces = [answer[start:end] for start, end in pairwise(edges) if start < end]

    assert read(*pieces) == expected


def test_a_body_of_unknown_length_goes_on_until_the_connection_ends() -> None:
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nso far"

    assert read(answer, b" so good", ends=True) == (200, b"so far so good", False)


def test_a_head_tells_its_reason_and_headers_in_small_letters() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After:  7 \r\nContent-Length: 0\r\n\r\n")

    assert reader.head is not None
    assert reader.head.reason == "Too Many Requests"
    assert reader.head.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="another version"),
        pytest.param(b"HTTP/1.1 2000 OK\r\n\r\n", id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", id="a line that is no header"),
        pytest.param(b"HTTP/1.1 200 OK\r\n X: folded\r\n\r\n", id="a folded header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", id="a signed length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n", id="a length as in Python"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", id="two lengths"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1", id="more than was announced"
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\nx", id="content after no content"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", id="nobody asked to compress"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", id="compressed chunks"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            id="two encodings",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", id="a long chunk"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", id="no size of a chunk"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * MAX_HEAD_BYTES,
            id="an endless size of a chunk",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore",
            id="more after the last chunk",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD_BYTES, id="an endless head"),
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(ResponseError):
        ResponseReader().feed(answer)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="half of a head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx", id="half of a body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", id="no last chunk"
        ),
    ],
)
def test_an_answer_that_ends_too_early_is_an_error(answer: bytes) -> None:
    reader = ResponseReader()
    reader.feed(answer)

    with pytest.raises(ResponseError, match="ended before"):
        reader.end()


def test_nothing_may_come_after_a_whole_answer() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 204 No Content\r\n\r\n")

    with pytest.raises(ResponseError, match="more came"):
        reader.feed(b"HTTP/1.1 200 OK\r\n\r\n")


def test_the_answer_to_connect_has_no_body_whatever_it_says() -> None:
    reader = ResponseReader(has_body=False)
    reader.feed(b"HTTP/1.1 200 Connection established\r\n\r\n")

    assert reader.is_done
