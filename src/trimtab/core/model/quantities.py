"""Kubernetes quantities: text to exact numbers and back, without a float in between.

A quantity is an integer times a power of ten, and the format it prints in. Text finer than a
billionth is rounded away from zero, as the original does. Three faults of the original are not
repeated: numbers beyond 64 bits saturate instead of wrapping round, negative ones round like
positive ones, and no number is printed as another.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, total_ordering
from typing import Final

from trimtab.core.model.resources import MAX_AMOUNT, Resource

_MIN_AMOUNT: Final = -(2**63)
_NANO: Final = -9
_MILLI: Final = -3

_MAX_DIGITS: Final = 1000
"""Longer numbers are refused: they are never intended, and arithmetic on them is slow."""

_PLAIN_DIGITS: Final = 18
_PLAIN_BINARY_DIGITS: Final = 15
"""Digits that surely fit 64 bits. The original may keep text within them as it was written."""

_DECIMAL_NAMES: Final = dict(zip(range(-9, 19, 3), ("n", "u", "m", "", *"kMGTPE"), strict=True))
_BINARY_NAMES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KIBI: Final = 1024


class Format(StrEnum):
    """The form in which a quantity is printed."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Flaw(StrEnum):
    """The fault of text that is not a quantity, in the original's words, which clients know."""

    SHAPE = (
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )
    SUFFIX = "unable to parse quantity's suffix"
    NUMBER = "unable to parse numeric part of quantity"


class QuantityError(ValueError):
    """Text that is not a Kubernetes quantity."""

    def __init__(self, text: str, flaw: Flaw) -> None:
        super().__init__(f"quantity {text!r}: {flaw}")
        self.text = text
        self.flaw = flaw


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    """`mantissa * 10**exponent`; equal quantities are equal numbers, whatever their format.

    Build one with `make` or `parse`: they leave no trailing zeros in the mantissa, so that each
    number is spelled in one way.
    """

    mantissa: int
    exponent: int
    format: Format = field(compare=False)
    written: str | None = field(default=None, compare=False)
    """The text it was parsed from, where it prints as it was written."""

    @property
    def is_zero(self) -> bool:
        """True if the quantity is zero."""
        return self.mantissa == 0

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.mantissa > 0) - (self.mantissa < 0)

    def whole(self) -> int:
        """Return the number rounded away from zero and held within 64 bits."""
        return self.count(0)

    def milli(self) -> int:
        """Return the number of thousandths, rounded away from zero and held within 64 bits."""
        return self.count(_MILLI)

    def count(self, unit: int) -> int:
        """Return the number of `10**unit` units, rounded away from zero and held within 64 bits."""
        if self.exponent < unit:
            # Floor division of the negated size rounds up; the sign is applied at the end.
            size = -(-abs(self.mantissa) // _ten_to(unit - self.exponent))
        else:
            # Twenty more digits are beyond 64 bits already: `1e999999999` must cost nothing.
            size = abs(self.mantissa) * _ten_to(min(self.exponent - unit, 20))
        return max(_MIN_AMOUNT, min(MAX_AMOUNT, self.sign * size))

    def canonical(self) -> str:
        """Return the one text of its number in its format: no fraction, the largest suffix."""
        if self.is_zero:
            return "0"
        # A fraction, or a number below 1024, prints in decimal, as in the original: 0.5 as 500m.
        if self.format is Format.BINARY_SI and self.exponent >= 0 and abs(self._at(0)) >= _KIBI:
            return _format_binary(self._at(0))
        return self._format_decimal()

    def __str__(self) -> str:
        return self.canonical() if self.written is None else self.written

    def __lt__(self, other: "Quantity") -> bool:
        if self.sign != other.sign:
            return self.sign < other.sign
        # Compared by length first: `1e1000 < 1e999999999` must not compute either number.
        if self._digits_before_point() != other._digits_before_point():
            smaller = self._digits_before_point() < other._digits_before_point()
            return smaller if self.sign > 0 else not smaller
        finest = min(self.exponent, other.exponent)
        return self._at(finest) < other._at(finest)

    def _at(self, exponent: int) -> int:
        return self.mantissa * _ten_to(self.exponent - exponent)

    def _digits_before_point(self) -> int:
        return len(str(abs(self.mantissa))) + self.exponent if self.mantissa else 0

    def _format_decimal(self) -> str:
        exponent = self.exponent - self.exponent % 3
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{self._at(exponent)}e{exponent}" if exponent else f"{self._at(exponent)}"
        exponent = min(exponent, max(_DECIMAL_NAMES))
        return f"{self._at(exponent)}{_DECIMAL_NAMES[exponent]}"


def _ten_to(power: int) -> int:
    return int(10**power)


def _format_binary(number: int) -> str:
    rank = 0
    while number % _KIBI == 0 and rank < len(_BINARY_NAMES) - 1:
        number //= _KIBI
        rank += 1
    return f"{number}{_BINARY_NAMES[rank]}"


def make(mantissa: int, exponent: int, form: Format, written: str | None = None) -> Quantity:
    """Return the quantity of `mantissa * 10**exponent`, in the one spelling of its number."""
    if mantissa == 0:
        return Quantity(0, 0, form, written)
    # One spelling of each number, so that equality and hashes are those of the fields.
    while mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    return Quantity(mantissa, exponent, form, written)


@dataclass(frozen=True, slots=True)
class _Unit:
    """The factor that a suffix stands for: `2**binary * 10**decimal`."""

    format: Format
    decimal: int = 0
    binary: int = 0

    def is_plain(self, whole: str, fraction: str) -> bool:
        """Return True if the original reads these digits without arbitrary precision."""
        if self.format is Format.BINARY_SI:
            return not fraction and len(whole) + self.binary * 3 // 10 < _PLAIN_BINARY_DIGITS
        enough = len(whole) + len(fraction) <= _PLAIN_DIGITS
        return enough and self.decimal - len(fraction) >= _NANO

    def keeps_text(self, whole: str, fraction: str) -> bool:
        """Return True if the original prints these plain digits as they were written."""
        digits = whole + fraction
        if self.format is Format.BINARY_SI:
            return int(digits) % 8 != 0
        suits = (self.decimal - len(fraction)) % 3 == 0
        return suits and not digits.endswith("000") and not digits.startswith("0")


# Possessive quantifiers: no text, however odd, makes the search walk back and forth.
_GRAMMAR: Final = re.compile(
    r"(?P<digits>[+-]?+0*+(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?+)"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?+[0-9]*+)"
)
_EXPONENT: Final = re.compile(r"[eE]([-+]?)(?=[0-9])0*+([0-9]{0,19})")
_EXPONENTS: Final = range(-(2**63), 2**63)

_UNITS: Final = {
    **{name: _Unit(Format.DECIMAL_SI, decimal=power) for power, name in _DECIMAL_NAMES.items()},
    **{
        name: _Unit(Format.BINARY_SI, binary=10 * rank)
        for rank, name in enumerate(_BINARY_NAMES)
        if rank
    },
}


def parse(text: str) -> Quantity:
    """Parse the exact number that a text stands for."""
    found = _GRAMMAR.fullmatch(text) if text else None
    if not found:
        raise QuantityError(text, Flaw.SHAPE)
    unit = _UNITS.get(found["suffix"]) or _parse_exponent(text, found["suffix"])
    whole, fraction = found["whole"] or "0", found["fraction"] or ""
    if unit.is_plain(whole, fraction):
        written = text if unit.keeps_text(whole, fraction) else None
    elif len(whole) + len(fraction) > _MAX_DIGITS or not found["digits"].strip("+-."):
        raise QuantityError(text, Flaw.NUMBER)
    else:
        written = None
    size, exponent, form = _fit(int(whole + fraction) << unit.binary, unit, len(fraction))
    return make(-size if text[0] == "-" else size, exponent, form, written)


def _parse_exponent(text: str, suffix: str) -> _Unit:
    found = _EXPONENT.fullmatch(suffix)
    power = int(f"{found[1]}0{found[2]}") if found else _EXPONENTS.stop
    if power not in _EXPONENTS:
        raise QuantityError(text, Flaw.SUFFIX)
    return _Unit(Format.DECIMAL_EXPONENT, decimal=power)


def _fit(size: int, unit: _Unit, decimals: int) -> tuple[int, int, Format]:
    """Round a size up to billionths; in a binary unit also hold it within 64 bits."""
    exponent = max(unit.decimal - decimals, _NANO)
    dropped = exponent - (unit.decimal - decimals)
    # More zeros than the size has digits change nothing: `1e-999999999` must cost nothing.
    size = -(-size // _ten_to(min(dropped, 2 * _MAX_DIGITS)))
    if unit.format is not Format.BINARY_SI:
        return size, exponent, unit.format
    one = _ten_to(-exponent)
    form = Format.DECIMAL_SI if 0 < size < one else Format.BINARY_SI
    return min(size, MAX_AMOUNT * one), exponent, form


_AMOUNT_UNITS: Final = {Resource.CPU: _MILLI, Resource.MEMORY: 0}
_AMOUNT_FORMATS: Final = {Resource.CPU: Format.DECIMAL_SI, Resource.MEMORY: Format.BINARY_SI}
_CACHED_AMOUNTS: Final = 1 << 16
_CACHED_CHARACTERS: Final = 64
"""Longer texts are not kept: leading zeros are legal, and a tenant could fill the memory."""

_ORDINARY: Final = re.compile(r"([0-9]{1,15})(n|u|m|k|M|G|Ki|Mi|Gi|)")
"""Nearly every text that a cluster sends. Usage readings rarely repeat, so the cache misses them
and this fast path pays."""


def _ratio(unit: _Unit, amount_unit: int) -> tuple[int, int]:
    power = unit.decimal - amount_unit
    return _ten_to(max(power, 0)) << unit.binary, _ten_to(max(-power, 0))


_RATIOS: Final = {
    resource: {suffix: _ratio(unit, amount_unit) for suffix, unit in _UNITS.items()}
    for resource, amount_unit in _AMOUNT_UNITS.items()
}


def is_whole_amount(resource: Resource, quantity: Quantity) -> bool:
    """Return True if a quantity is a whole number of millicores or bytes."""
    return quantity.exponent >= _AMOUNT_UNITS[resource]


def parse_amount(resource: Resource, text: str) -> int:
    """Parse millicores of CPU or bytes of memory, rounded up (away from zero)."""
    parse_text = _kept_amount if len(text) <= _CACHED_CHARACTERS else _parse_amount
    return parse_text(resource, text)


def _parse_amount(resource: Resource, text: str) -> int:
    ordinary = _ORDINARY.fullmatch(text)
    if not ordinary:
        return parse(text).count(_AMOUNT_UNITS[resource])
    digits, suffix = ordinary.groups()
    times, per = _RATIOS[resource][suffix]
    return min(MAX_AMOUNT, -(-int(digits) * times // per))


_kept_amount: Final = lru_cache(maxsize=_CACHED_AMOUNTS)(_parse_amount)


def parse_bound(resource: Resource, text: str) -> int:
    """Parse an amount that others must stay within: rounded down, but never to zero.

    `1.2Gi` is no whole number of bytes, and the API server refuses a request of the next one.
    """
    amount = parse_amount(resource, text)
    if amount <= 1 or is_whole_amount(resource, parse(text)):
        return amount
    return amount - 1


@lru_cache(maxsize=_CACHED_AMOUNTS)
def format_amount(resource: Resource, amount: int) -> str:
    """Return the canonical quantity of an amount: `1500m` of CPU, `250Mi` of memory."""
    return make(amount, _AMOUNT_UNITS[resource], _AMOUNT_FORMATS[resource]).canonical()
