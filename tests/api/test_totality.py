"""Whatever the bytes, decoding gives a record or a DecodeError, and nothing else (F28)."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.makers.damage import VALUES, places, replaced
from support.makers.wire_examples import DECODERS, encoded

from trimtab.api.wire.codec import DecodeError

KINDS = pytest.mark.parametrize("kind", DECODERS)


def decodes_or_says_why(kind: str, data: bytes) -> None:
    decode, _ = DECODERS[kind]
    with suppress(DecodeError):
        assert decode(data) is not None


@KINDS
def test_f28_a_full_object_with_any_part_replaced_decodes_or_says_why(kind: str) -> None:
    example = DECODERS[kind][1]
    all_places = places(example)

    @settings(max_examples=150)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        damaged = replaced(example, data.draw(st.sampled_from(all_places)), data.draw(VALUES))
        decodes_or_says_why(kind, json.dumps(damaged).encode())

    check()


@KINDS
@settings(max_examples=30)
@given(data=st.binary(max_size=40))
def test_f28_bytes_at_random_decode_or_say_why(kind: str, data: bytes) -> None:
    decodes_or_says_why(kind, data)


@KINDS
@settings(max_examples=30)
@given(data=st.data())
def test_f28_an_object_cut_short_is_refused(kind: str, data: st.DataObject) -> None:
    decode, example = DECODERS[kind]
    whole = encoded(example)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]

    with pytest.raises(DecodeError):
        decode(cut)


@KINDS
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="a hundred thousand deep"
        ),
        pytest.param(b'{"metadata":{"labels":{"\xff":"a"}}}', id="a key that is not UTF-8"),
        pytest.param(b'{"metadata":{"name":"\\ud800"}}', id="half a surrogate pair"),
        pytest.param(b"", id="nothing at all"),
        pytest.param(b"\xef\xbb\xbf{}", id="a byte order mark"),
    ],
)
def test_f28_hostile_bytes_never_raise_anything_but_a_decode_error(kind: str, data: bytes) -> None:
    decodes_or_says_why(kind, data)


@KINDS
def test_f28_nulls_in_place_of_every_field_mean_absent(kind: str) -> None:
    decode, example = DECODERS[kind]
    nulled = dict.fromkeys(example) if kind != "review" else {**example, "request": {"uid": None}}

    assert decode(encoded(nulled)) is not None


@KINDS
def test_f28_an_object_with_unknown_fields_decodes_as_without_them(kind: str) -> None:
    decode, example = DECODERS[kind]

    assert decode(encoded({**example, "unheardOf": [1, {"of": None}]})) == decode(encoded(example))
