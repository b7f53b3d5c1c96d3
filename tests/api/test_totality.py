"""Whatever the bytes, decoding gives a record or a DecodeError, and nothing else (F28)."""

import copy
import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_examples import DECODERS, Json, encoded

from trimtab.api.decoding import DecodeError

KINDS = pytest.mark.parametrize("kind", DECODERS)

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            *("", "0", "-1", "1e3", "1e999999999", "9Ei", "1.5.2", "-0.0001n", "cpu", "memory"),
            *("Off", "Always", "True", "=", "a in (", "10s", "-1h", "99999999999h", "*"),
            *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-02-30T00:00:00Z"),
        ]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Json, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value inside a value, itself included."""
    inner: Json = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return [place] + [found for key, part in inner for found in places(part, (*place, key))]


def replaced(value: Json, place: tuple[str | int, ...], by: Json) -> Json:
    if not place:
        return by
    changed = copy.copy(value)
    changed[place[0]] = replaced(value[place[0]], place[1:], by)
    return changed


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
