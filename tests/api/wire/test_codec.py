from typing import Final

import msgspec
import pytest

from trimtab.api.wire.codec import DecodeError, Int32, Wire, convert_each, decode


class Inner(Wire, frozen=True, kw_only=True):
    count_of_things: Int32 | None = None


class Outer(Wire, frozen=True, kw_only=True):
    inner: tuple[Inner, ...] | None = None


DECODER: Final = msgspec.json.Decoder(Outer)


def test_a_field_is_named_in_camel_case_on_the_wire() -> None:
    found = decode(DECODER, b'{"inner": [{"countOfThings": 3}]}')

    assert found == Outer(inner=(Inner(count_of_things=3),))


@pytest.mark.parametrize(
    ("data", "path", "told"),
    [
        pytest.param(
            b'{"inner": [{}, {"countOfThings": "3"}]}',
            "inner[1].countOfThings",
            'must be of type integer, not string: "3"',
            id="a wrong type deep inside, with the value",
        ),
        pytest.param(
            b'{"inner": [{"countOfThings": 2147483648}]}',
            "inner[0].countOfThings",
            "must be of type integer <= 2147483647: 2147483648",
            id="a number out of range",
        ),
        pytest.param(
            b'{"inner": [{"countOfThings": "' + b"x" * 99 + b'"}]}',
            "inner[0].countOfThings",
            "x…",
            id="a long value is cut",
        ),
        pytest.param(
            b'{"inner": [{"countOfThings": "3"}]} and more',
            "inner[0].countOfThings",
            "must be of type integer, not string",
            id="a second flaw behind the first",
        ),
        pytest.param(
            b'{"inner": {}}',
            "inner",
            "must be of type array, not object",
            id="an object is not shown whole",
        ),
        pytest.param(
            b"[]", "", "must be of type object, not array", id="something else altogether"
        ),
        pytest.param(b'{"inner"', "", "not valid JSON", id="JSON cut short"),
        pytest.param(b"{'inner': 1}", "", "not valid JSON", id="not JSON at all"),
        pytest.param(b'{"other": ' + b"[" * 99999, "", "nested too deeply", id="endless depth"),
    ],
)
def test_what_cannot_be_decoded_is_told_with_its_place(data: bytes, path: str, told: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(DECODER, data)

    assert caught.value.path == path
    assert told in caught.value.problem


def test_a_decode_error_reads_as_its_place_and_its_problem() -> None:
    assert str(DecodeError("spec.a", "is odd")) == "spec.a: is odd"
    assert str(DecodeError("", "is odd")) == "is odd"


def test_a_decode_error_keeps_what_caused_it() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(DECODER, b"[]")

    assert isinstance(caught.value.__cause__, msgspec.ValidationError)


def test_each_item_is_converted_with_its_own_path() -> None:
    assert convert_each(["a", "b"], lambda item, path: f"{path}={item}", "list") == (
        "list[0]=a",
        "list[1]=b",
    )
    assert convert_each(None, lambda _, path: path, "list") == ()
