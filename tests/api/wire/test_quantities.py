import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import amounts

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.quantities import (
    NOT_GIVEN,
    WireAmounts,
    decode_allocation,
    decode_amount,
    decode_amount_map,
    decode_amounts,
    encode_amounts,
    is_given,
    quantity_text,
)
from trimtab.core.model.resources import MAX_AMOUNT, Resource


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


@pytest.mark.parametrize(
    ("wire", "millicores"),
    [
        pytest.param('"100m"', 100, id="a string"),
        pytest.param("2", 2000, id="a whole number"),
        pytest.param("0.1", 100, id="a fraction that no float holds"),
        pytest.param("1e3", 1_000_000, id="a number with an exponent"),
        pytest.param("-1", -1000, id="a negative number"),
        pytest.param('"123456789n"', 124, id="rounded up to millicores"),
        pytest.param('" 1 "', 1000, id="blanks around it are nothing"),
        pytest.param('"\\u0031"', 1000, id="an escaped character"),
        pytest.param("null", 0, id="null is nought"),
        pytest.param("1e99", MAX_AMOUNT, id="a number beyond all bounds saturates"),
    ],
)
def test_a_quantity_is_read_from_its_exact_text(wire: str, millicores: int) -> None:
    assert decode_amount(Resource.CPU, raw(wire), "x") == millicores


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param("true", id="a truth value"),
        pytest.param("[1]", id="a list"),
        pytest.param('{"a": 1}', id="a map"),
        pytest.param('"lots"', id="a word"),
        pytest.param('""', id="empty text"),
        pytest.param('"1 Gi"', id="a blank inside"),
        pytest.param('"\udcff"'.encode(errors="surrogateescape").decode("latin-1"), id="Latin-1"),
    ],
)
def test_what_is_no_quantity_is_refused_with_its_place(wire: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_amount(Resource.MEMORY, raw(wire), "spec.memory")

    assert caught.value.path == "spec.memory"


def test_a_quantity_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"spec\.cpu"):
        decode_amount(Resource.CPU, msgspec.Raw(b'"\xff"'), "spec.cpu")


def test_the_value_that_is_no_quantity_is_shown() -> None:
    with pytest.raises(DecodeError, match=r"'1\.2\.3'"):
        decode_amount(Resource.CPU, raw('"1.2.3"'), "spec.cpu")
    with pytest.raises(DecodeError, match="got true"):
        quantity_text(raw("true"), "spec.cpu")


def test_the_text_of_a_number_is_kept_as_it_was_written() -> None:
    assert quantity_text(raw("0.10"), "x") == "0.10"
    assert quantity_text(raw('"0.10"'), "x") == "0.10"


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        pytest.param(NOT_GIVEN, False, id="an absent field"),
        pytest.param(raw("null"), False, id="a null"),
        pytest.param(raw("0"), True, id="a nought"),
    ],
)
def test_an_optional_quantity_is_given_unless_absent_or_null(
    wire: msgspec.Raw, *, expected: bool
) -> None:
    assert is_given(wire) is expected


def test_a_resource_list_holds_only_what_it_names() -> None:
    assert decode_amounts(WireAmounts(cpu=raw('"1"')), "x") == amounts(cpu=1000)
    assert decode_amounts(WireAmounts(), "x") == {}
    assert decode_amounts(None, "x") is None


def test_a_map_of_resources_gives_cpu_and_memory_only() -> None:
    wire = {"memory": raw('"1Ki"'), "nvidia.com/gpu": raw('"bad"')}

    assert decode_amount_map(wire, "x") == amounts(memory=1024)
    assert decode_amount_map({}, "x") == {}
    assert decode_amount_map(None, "x") is None


def test_a_bad_quantity_in_a_map_is_named_by_its_key() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_amount_map({"memory": raw('"?"')}, "spec.minAllowed")

    assert caught.value.path == "spec.minAllowed[memory]"


@given(st.integers(0, MAX_AMOUNT), st.integers(0, MAX_AMOUNT))
def test_written_amounts_are_read_back_unchanged(cpu: int, memory: int) -> None:
    written = encode_amounts(amounts(cpu, memory))
    wire = {name: msgspec.Raw(msgspec.json.encode(text)) for name, text in written.items()}

    assert decode_amount_map(wire, "x") == amounts(cpu, memory)


def test_amounts_are_written_cpu_first_and_without_what_is_not_set() -> None:
    assert list(encode_amounts({Resource.MEMORY: 1, Resource.CPU: 1})) == ["cpu", "memory"]
    assert encode_amounts(amounts(memory=262144000)) == {"memory": "250Mi"}


@pytest.mark.parametrize(
    "filling", [pytest.param(" ", id="blanks"), pytest.param("0", id="leading zeros")]
)
def test_long_texts_of_quantities_are_not_kept(filling: str) -> None:
    """Any number of them may stand before a quantity, and tenants write them."""

    def read(number: int) -> None:
        text = raw(f'"{filling * 50_000}{number}"')
        decode_allocation(WireAmounts(cpu=text), None, "resources")
        decode_amount(Resource.MEMORY, text, "memory")

    read(0)
    tracemalloc.start()
    try:
        for number in range(1, 100):
            read(number)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert kept < 1_000_000


def test_a_request_and_an_equal_limit_stay_equal() -> None:
    wire = WireAmounts(memory=raw('"1.2Gi"'))

    allocation = decode_allocation(wire, wire, "resources")

    assert allocation.requests == allocation.limits == amounts(memory=1288490188)


def test_a_request_below_its_limit_is_rounded_up() -> None:
    """It counts for minima, and for what is left of quotas."""
    wire, more = WireAmounts(memory=raw('"1.2Gi"')), WireAmounts(memory=raw('"2.3Gi"'))

    allocation = decode_allocation(wire, more, "resources")

    assert allocation.requests == amounts(memory=1288490189)
    assert allocation.limits == amounts(memory=2469606195)
