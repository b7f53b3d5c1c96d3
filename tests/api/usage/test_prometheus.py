"""Answers of Prometheus, well-formed and not."""

import math

import pytest

from trimtab.api.usage.prometheus import QueryRefusal, decode_query_refusal, decode_series
from trimtab.api.wire.codec import DecodeError

MATRIX = b"""{"status":"success","data":{"resultType":"matrix","result":[
{"metric":{"pod":"web-0"},"values":[[1700000000,"0.5"],[1700000060.5,"NaN"],[1700000120,"+Inf"]]},
{"metric":{},"values":[]}]},"warnings":["old"]}"""
VECTOR = b'{"data":{"result":[{"metric":{"job":"a"},"value":[1700000000,"12"]}]}}'


def test_a_matrix_is_decoded_into_arrays_with_what_json_cannot_say() -> None:
    first, second = decode_series(MATRIX)

    assert first.labels == {"pod": "web-0"}
    assert first.times.tolist() == [1700000000, 1700000060.5, 1700000120]
    assert first.values[0] == 0.5
    assert math.isnan(first.values[1])
    assert first.values[2] == math.inf
    assert (second.labels, len(second.times)) == ({}, 0)


def test_a_vector_has_one_sample_of_each_series() -> None:
    (only,) = decode_series(VECTOR)

    assert (only.labels, only.values.tolist()) == ({"job": "a"}, [12])


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>", id="a page of a proxy"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b'{"data":{"result":[0, "1"]}}', id="a scalar"),
        pytest.param(b'{"data":{"result":[{"values":[[1,"much"]]}]}}', id="no number"),
        pytest.param(b'{"data":{"result":[{"values":[[1]]}]}}', id="half a sample"),
    ],
)
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_series(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            b'{"status":"error","errorType":"timeout","error":"too slow"}',
            QueryRefusal("timeout", "too slow"),
            id="in its own words",
        ),
        pytest.param(b"Bad Gateway", QueryRefusal(), id="in those of somebody else"),
    ],
)
def test_a_refusal_says_its_kind_and_its_reason(body: bytes, expected: QueryRefusal) -> None:
    assert decode_query_refusal(body) == expected
