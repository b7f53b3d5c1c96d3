import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model import quantities
from trimtab.core.model.quantities import Flaw, Format, Quantity, QuantityError
from trimtab.core.model.resources import MAX_AMOUNT, Resource

CPU, MEMORY = Resource.CPU, Resource.MEMORY
DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
ASCII = st.characters(codec="ascii")
LEAST, MOST = -(2**63), 2**63 - 1


def exact(quantity: Quantity) -> Fraction:
    return quantity.mantissa * Fraction(10) ** quantity.exponent


def rounded_away(number: Fraction) -> int:
    size = -(-abs(number) // 1)
    return int(size if number > 0 else -size)


numbers = st.from_regex(r"[-+]?[0-9]{1,13}(\.[0-9]{0,10})?", fullmatch=True, alphabet=ASCII)
suffixes = st.sampled_from([*DECIMAL_SUFFIXES, *BINARY_SUFFIXES])
exponents = st.builds("{}{}".format, st.sampled_from("eE"), st.integers(-6, 12))
texts = st.builds("{}{}".format, numbers, st.one_of(suffixes, exponents))
parsed = texts.map(quantities.parse)


def number_of(text: str) -> Fraction:
    found = re.fullmatch(r"([-+0-9.]+)(.*)", text)
    assert found is not None
    digits, suffix = found.groups()
    if suffix in BINARY_SUFFIXES:
        return Fraction(digits) * (1 << BINARY_SUFFIXES[suffix])
    power = DECIMAL_SUFFIXES[suffix] if suffix in DECIMAL_SUFFIXES else int(suffix[1:])
    return Fraction(Decimal(digits).scaleb(power))


@given(texts)
def test_a_number_is_exact_or_rounded_away_from_zero_to_a_billionth(text: str) -> None:
    billionths = number_of(text) * 10**9
    if text.endswith("i"):
        billionths = max(-MOST * Fraction(10**9), min(MOST * Fraction(10**9), billionths))

    assert exact(quantities.parse(text)) * 10**9 == rounded_away(billionths)


@given(parsed)
def test_the_canonical_text_stands_for_the_same_number_and_stays_as_it_is(
    quantity: Quantity,
) -> None:
    text = quantity.canonical()
    again = quantities.parse(text)

    assert again == quantity
    assert again.canonical() == text


@given(parsed)
def test_what_is_printed_stands_for_the_same_number(quantity: Quantity) -> None:
    assert quantities.parse(str(quantity)) == quantity


@given(parsed)
def test_counts_are_rounded_away_from_zero(quantity: Quantity) -> None:
    whole, milli = rounded_away(exact(quantity)), rounded_away(exact(quantity) * 1000)

    assert quantity.whole() == max(LEAST, min(MOST, whole))
    assert quantity.milli() == max(LEAST, min(MOST, milli))


@given(parsed, parsed)
def test_quantities_are_ordered_as_their_numbers(one: Quantity, other: Quantity) -> None:
    assert (one < other) == (exact(one) < exact(other))
    assert (one >= other) == (exact(one) >= exact(other))
    assert (one == other) == (exact(one) == exact(other))


@given(texts)
def test_amounts_are_the_counts_of_the_quantity(text: str) -> None:
    quantity = quantities.parse(text)

    assert quantities.parse_amount(CPU, text) == quantity.milli()
    assert quantities.parse_amount(MEMORY, text) == quantity.whole()


@given(st.sampled_from(Resource), st.integers(-MOST, MOST))
def test_an_amount_survives_being_printed_and_read(resource: Resource, amount: int) -> None:
    text = quantities.format_amount(resource, amount)

    assert quantities.parse_amount(resource, text) == amount


@given(st.text())
def test_any_text_is_a_quantity_or_an_error_that_names_it(text: str) -> None:
    try:
        shown = repr(quantities.parse(text).canonical())
    except QuantityError as error:
        shown = str(error).replace(repr(error.text), repr(text))

    assert shown.startswith(("'", f"quantity {text!r}: "))


@given(st.text(alphabet="0123456789+-.eEinumkKMGTP", max_size=12))
def test_any_arrangement_of_the_allowed_characters_is_read_or_refused(text: str) -> None:
    try:
        quantity = quantities.parse(text)
    except QuantityError:
        return

    assert LEAST <= quantity.whole() <= MOST
    assert LEAST <= quantity.milli() <= MOST
    assert quantity.is_zero == (quantity.sign == 0)


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        pytest.param("", Flaw.SHAPE, id="nothing at all"),
        pytest.param("1 ", Flaw.SHAPE, id="a space behind"),
        pytest.param("1\n", Flaw.SHAPE, id="a line end behind"),
        pytest.param("\u0661", Flaw.SHAPE, id="a digit of another script"),
        pytest.param("1_000", Flaw.SHAPE, id="digits grouped as in Python"),
        pytest.param("1K", Flaw.SUFFIX, id="a suffix that does not exist"),
        pytest.param("1e", Flaw.SUFFIX, id="an exponent without digits"),
        pytest.param("1ee3", Flaw.SUFFIX, id="an exponent said twice"),
        pytest.param("1e9223372036854775808", Flaw.SUFFIX, id="an exponent beyond 64 bits"),
        pytest.param("1e" + "9" * 5000, Flaw.SUFFIX, id="an exponent of very many digits"),
        pytest.param("Pi", Flaw.NUMBER, id="a large binary suffix without a number"),
        pytest.param("-.e-10", Flaw.NUMBER, id="a fine exponent without a number"),
        pytest.param("9" * 5000, Flaw.NUMBER, id="a number of very many digits"),
        pytest.param("0." + "0" * 5000 + "1", Flaw.NUMBER, id="a fraction of very many digits"),
    ],
)
def test_text_that_is_no_quantity_is_refused_with_its_flaw(text: str, flaw: Flaw) -> None:
    with pytest.raises(QuantityError) as caught:
        quantities.parse(text)

    assert caught.value.flaw is flaw


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        pytest.param("1E", 10**18, MOST, id="thousandths beyond 64 bits"),
        pytest.param("8Ei", MOST, MOST, id="binary numbers end at 64 bits"),
        pytest.param("-8Ei", -MOST, LEAST, id="negative binary numbers too"),
        pytest.param("99999999999999999999", MOST, MOST, id="twenty digits"),
        pytest.param("-9223372036854775808", LEAST, LEAST, id="the least number of 64 bits"),
        pytest.param("-1e99", LEAST, LEAST, id="far below"),
        pytest.param("1e9223372036854775807", MOST, MOST, id="the largest exponent"),
        pytest.param("1e-9223372036854775808", 1, 1, id="the smallest exponent"),
        pytest.param("0e9223372036854775807", 0, 0, id="nought of the largest exponent"),
        pytest.param("-0.1n", -1, -1, id="less than the smallest unit, negative"),
    ],
)
def test_numbers_beyond_64_bits_saturate_where_the_original_wraps_round(
    text: str, whole: int, milli: int
) -> None:
    quantity = quantities.parse(text)

    assert quantity.whole() == whole
    assert quantity.milli() == milli


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param("1000E", "1000E", id="thousands of the largest decimal suffix"),
        pytest.param("1" + "0" * 24, "1000000E", id="a yotta in digits"),
        pytest.param(
            "1e00000000000000000000003", "1e00000000000000000000003", id="padded exponent"
        ),
        pytest.param("1e1000", "10e999", id="an exponent that is no multiple of three"),
    ],
)
def test_no_number_is_printed_as_another_one(text: str, printed: str) -> None:
    quantity = quantities.parse(text)

    assert str(quantity) == printed
    assert quantities.parse(printed) == quantity


@pytest.mark.parametrize(
    ("text", "printed", "canonical"),
    [
        pytest.param("007", "007", "7", id="leading zeros are kept"),
        pytest.param("+5Mi", "+5Mi", "5Mi", id="a plus sign is kept"),
        pytest.param("1E3", "1E3", "1e3", id="a capital exponent is kept"),
        pytest.param("1000", "1k", "1k", id="thousands are shortened"),
        pytest.param("1024Ki", "1Mi", "1Mi", id="multiples of eight are written anew"),
        pytest.param("12Mi", "12Mi", "12Mi", id="other binary numbers are kept"),
        pytest.param("0.5", "500m", "500m", id="a fraction is written anew"),
        pytest.param("+0", "0", "0", id="nought has no sign"),
    ],
)
def test_text_is_kept_as_it_was_written_where_the_original_keeps_it(
    text: str, printed: str, canonical: str
) -> None:
    quantity = quantities.parse(text)

    assert str(quantity) == printed
    assert quantity.canonical() == canonical


@pytest.mark.parametrize(
    ("text", "form"),
    [
        pytest.param("1Ki", Format.BINARY_SI, id="binary"),
        pytest.param("0.5Ki", Format.BINARY_SI, id="a binary fraction that is whole"),
        pytest.param("0.0001Ki", Format.DECIMAL_SI, id="less than one in a binary unit"),
        pytest.param("0.0Ki", Format.BINARY_SI, id="nought in a binary unit"),
        pytest.param("1e3", Format.DECIMAL_EXPONENT, id="an exponent"),
        pytest.param("1E", Format.DECIMAL_SI, id="exa is no exponent"),
    ],
)
def test_the_suffix_says_in_which_format_a_quantity_prints(text: str, form: Format) -> None:
    assert quantities.parse(text).format is form


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        pytest.param("-1", "0", id="negative before nought"),
        pytest.param("0", "1n", id="nought before the smallest"),
        pytest.param("999m", "1", id="across suffixes"),
        pytest.param("1000Mi", "1Gi", id="across binary suffixes"),
        pytest.param("-1e999999999", "-1", id="huge negatives first"),
        pytest.param("1", "1e999999999", id="huge numbers last"),
        pytest.param("-1001m", "-1", id="negative fractions"),
    ],
)
def test_order_does_not_depend_on_the_spelling(smaller: str, larger: str) -> None:
    one, other = quantities.parse(smaller), quantities.parse(larger)

    assert one < other
    assert not other < one
    assert max(one, other) is other


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1000m"), ("1Ki", "1024"), ("1e3", "1k"), ("0", "-0.0Ki")]
)
def test_equal_numbers_are_equal_in_any_format(one: str, other: str) -> None:
    first, second = quantities.parse(one), quantities.parse(other)

    assert first == second
    assert hash(first) == hash(second)
    assert not first < second


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        pytest.param(CPU, "123456789n", 124, id="a usage reading is rounded up"),
        pytest.param(CPU, "100m", 100, id="millicores"),
        pytest.param(CPU, "0.5", 500, id="half a core"),
        pytest.param(CPU, "2", 2000, id="cores"),
        pytest.param(CPU, "1n", 1, id="the smallest usage counts"),
        pytest.param(CPU, "-1500u", -2, id="negative away from zero"),
        pytest.param(CPU, "999999999999999Gi", MAX_AMOUNT, id="beyond all bounds"),
        pytest.param(MEMORY, "250Mi", 262144000, id="mebibytes"),
        pytest.param(MEMORY, "1500m", 2, id="thousandths of a byte are rounded up"),
        pytest.param(MEMORY, "129e6", 129000000, id="an exponent"),
        pytest.param(MEMORY, "1.5Gi", 1610612736, id="a binary fraction"),
        pytest.param(MEMORY, "0", 0, id="nought"),
    ],
)
def test_amounts_are_whole_millicores_or_bytes_rounded_up(
    resource: Resource, text: str, amount: int
) -> None:
    assert quantities.parse_amount(resource, text) == amount


@pytest.mark.parametrize("resource", Resource)
def test_an_amount_that_is_no_quantity_is_refused_by_its_text(resource: Resource) -> None:
    with pytest.raises(QuantityError, match="'12 GB'"):
        quantities.parse_amount(resource, "12 GB")


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        pytest.param(CPU, 25, "25m", id="millicores"),
        pytest.param(CPU, 1000, "1", id="one core"),
        pytest.param(CPU, 1500, "1500m", id="a core and a half"),
        pytest.param(CPU, 10**14, "100G", id="the bound of too little history"),
        pytest.param(CPU, 0, "0", id="no CPU"),
        pytest.param(CPU, -5, "-5m", id="negative CPU"),
        pytest.param(MEMORY, 262144000, "250Mi", id="mebibytes"),
        pytest.param(MEMORY, 1168723596, "1168723596", id="no multiple of 1024"),
        pytest.param(MEMORY, 1000, "1k", id="below 1024 decimal suffixes are used"),
        pytest.param(MEMORY, 1023, "1023", id="just below 1024"),
        pytest.param(MEMORY, 1024, "1Ki", id="just 1024"),
        pytest.param(MEMORY, 10**14, "97656250000Ki", id="a hundred decimal terabytes"),
        pytest.param(MEMORY, 2**70, "1024Ei", id="more than 64 bits"),
        pytest.param(MEMORY, 0, "0", id="no memory"),
    ],
)
def test_cpu_prints_in_decimal_and_memory_in_binary_suffixes(
    resource: Resource, amount: int, text: str
) -> None:
    assert quantities.format_amount(resource, amount) == text


@pytest.mark.parametrize(
    ("resource", "text", "is_whole"),
    [
        pytest.param(CPU, "1m", True, id="a millicore"),
        pytest.param(CPU, "0.5", True, id="half a core"),
        pytest.param(CPU, "0.0005", False, id="half a millicore"),
        pytest.param(CPU, "1000u", True, id="a thousand microcores"),
        pytest.param(CPU, "0n", True, id="no CPU"),
        pytest.param(MEMORY, "1", True, id="a byte"),
        pytest.param(MEMORY, "500m", False, id="half a byte"),
        pytest.param(MEMORY, "0.1Ki", False, id="a tenth of a kibibyte"),
        pytest.param(MEMORY, "0.5Ki", True, id="half a kibibyte"),
    ],
)
def test_only_whole_millicores_and_bytes_are_whole_amounts(
    resource: Resource,
    text: str,
    is_whole: object,
) -> None:
    assert quantities.is_whole_amount(resource, quantities.parse(text)) is is_whole


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        pytest.param(MEMORY, "1.2Gi", 1288490188, id="rounded down"),
        pytest.param(MEMORY, "1.5Gi", 1610612736, id="a whole number of bytes"),
        pytest.param(MEMORY, "1288490188800m", 1288490188, id="as the API server writes it"),
        pytest.param(MEMORY, "400m", 1, id="not to nothing"),
        pytest.param(MEMORY, "0", 0, id="nothing"),
        pytest.param(MEMORY, "1e30", MAX_AMOUNT, id="beyond 64 bits"),
        pytest.param(CPU, "1.5", 1500, id="whole millicores"),
        pytest.param(CPU, "1500500u", 1500, id="parts of millicores"),
        pytest.param(CPU, "-1500500u", -1501, id="less than nothing"),
    ],
)
def test_what_bounds_others_is_rounded_down(resource: Resource, text: str, amount: int) -> None:
    assert quantities.parse_bound(resource, text) == amount


@given(texts)
def test_a_bound_is_never_above_its_text(text: str) -> None:
    bound = quantities.parse_bound(MEMORY, text)

    assert bound <= max(exact(quantities.parse(text)), Fraction(1))
    assert bound >= quantities.parse_amount(MEMORY, text) - 1
