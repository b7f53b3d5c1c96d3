"""Quantities on the wire: strings or JSON numbers, read from their exact text.

A number such as 0.1 must never pass through a float, so quantities stay raw until they are parsed.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from trimtab.api.wire import field_errors
from trimtab.api.wire.codec import DecodeError, Wire, decode
from trimtab.api.wire.field_errors import FieldError
from trimtab.core.model import quantities
from trimtab.core.model.pods import Allocation
from trimtab.core.model.quantities import Quantity, QuantityError
from trimtab.core.model.resources import BOTH, Resource, Resources

NOT_GIVEN: Final = msgspec.Raw()
"""Stands for an absent field."""

# Raw values compare by their bytes, so this tests for an absent field and for null.
_ABSENT: Final = (NOT_GIVEN, msgspec.Raw(b"null"))
_TEXT: Final = msgspec.json.Decoder(str)
_CPU: Final = Resource.CPU.value
_MEMORY: Final = Resource.MEMORY.value

_SHORT_BYTES: Final = 64
"""Longer texts are not cached: a tenant could fill the memory with them."""

_Pair: TypeAlias = tuple[bytes, bytes]
"""Raw CPU and memory; absent amounts are empty."""


class WireAmounts(Wire, frozen=True, kw_only=True):
    """CPU and memory of a resource list; extended resources are skipped."""

    cpu: msgspec.Raw = NOT_GIVEN
    memory: msgspec.Raw = NOT_GIVEN


AmountMap: TypeAlias = dict[str, msgspec.Raw]
"""All resources of a resource list, for cases where extended resources matter."""


def is_given(raw: msgspec.Raw) -> bool:
    """Return True if an optional quantity is present; `null` counts as absent."""
    # Compared as Raw, without a copy: the object in a review is large.
    return raw not in _ABSENT


def quantity_text(raw: msgspec.Raw, path: str) -> str:
    """Return the text of a quantity; raises DecodeError if it is neither a string nor a number."""
    try:
        return _text(bytes(raw))
    except DecodeError as error:
        raise DecodeError(path, error.problem) from error


def decode_amount(resource: Resource, raw: msgspec.Raw, path: str) -> int:
    """Return one quantity in millicores or bytes, rounded up."""
    try:
        return _amount(resource, bytes(raw))
    except (DecodeError, quantities.QuantityError) as error:
        raise DecodeError(path, str(error)) from error


def decode_bound(resource: Resource, raw: msgspec.Raw, path: str) -> int:
    """Return an upper bound in millicores or bytes, rounded down."""
    try:
        return _bound(resource, bytes(raw))
    except (DecodeError, quantities.QuantityError) as error:
        raise DecodeError(path, str(error)) from error


def decode_amounts(wire: WireAmounts | None, path: str) -> Resources | None:
    """Return the amounts in a resource list, rounded up; None without a list."""
    if wire is None:
        return None
    return _decode_given(((Resource.CPU, wire.cpu), (Resource.MEMORY, wire.memory)), path)


def decode_bounds(wire: WireAmounts | None, path: str) -> Resources | None:
    """Return the upper bounds in a resource list, rounded down; None without a list."""
    if wire is None:
        return None
    given = ((Resource.CPU, wire.cpu), (Resource.MEMORY, wire.memory))
    return {
        resource: decode_bound(resource, raw, f"{path}[{resource}]")
        for resource, raw in given
        if raw is not NOT_GIVEN
    }


def decode_allocation(
    requests: WireAmounts | AmountMap | None, limits: WireAmounts | AmountMap | None, path: str
) -> Allocation:
    """Return a container's requests and limits; equal texts share one record.

    Limits are rounded down: no request fits in a limit that was rounded up. A request with the
    same text as its limit is rounded down, too, since both must stay equal.
    """
    try:
        return _allocation(_copy(requests), _copy(limits))
    except (DecodeError, quantities.QuantityError):
        # Decode again with paths, so that the error names the bad amount.
        return Allocation(
            _decode_list(requests, f"{path}.requests"), _decode_list(limits, f"{path}.limits")
        )


def decode_amount_map(wire: Mapping[str, msgspec.Raw] | None, path: str) -> Resources | None:
    """Return the CPU and memory among all resources of a map; None without a map."""
    if wire is None:
        return None
    return _decode_given(((resource, wire.get(resource, NOT_GIVEN)) for resource in BOTH), path)


def encode_amounts(amounts: Resources) -> dict[str, str]:
    """Return canonical quantities by resource name, CPU before memory."""
    return {
        resource.value: quantities.format_amount(resource, amounts[resource])
        for resource in BOTH
        if resource in amounts
    }


def _decode_list(wire: WireAmounts | AmountMap | None, path: str) -> Resources | None:
    if isinstance(wire, dict):
        return decode_amount_map(wire, path)
    return decode_amounts(wire, path)


def _decode_given(given: Iterable[tuple[Resource, msgspec.Raw]], path: str) -> Resources:
    amounts = {}
    for resource, raw in given:
        if raw is not NOT_GIVEN:
            amounts[resource] = decode_amount(resource, raw, f"{path}[{resource}]")
    return amounts


def _copy(wire: WireAmounts | AmountMap | None) -> _Pair | None:
    """Copy the texts of quantities, so that they do not keep the whole response in memory."""
    if isinstance(wire, dict):
        return bytes(wire.get(_CPU, NOT_GIVEN)), bytes(wire.get(_MEMORY, NOT_GIVEN))
    return None if wire is None else (bytes(wire.cpu), bytes(wire.memory))


def _allocation(requests: _Pair | None, limits: _Pair | None) -> Allocation:
    longest = max(map(len, (*(requests or ()), *(limits or ()))), default=0)
    make = _shared_allocation if longest <= _SHORT_BYTES else _make_allocation
    return make(requests, limits)


def _make_allocation(requests: _Pair | None, limits: _Pair | None) -> Allocation:
    return Allocation(_requests(requests, limits), _limits(limits))


# Cached: a cluster has few different quantities, and few different sets of them.
_shared_allocation: Final = lru_cache(maxsize=16_384)(_make_allocation)


def _requests(pair: _Pair | None, limits: _Pair | None) -> Resources | None:
    if pair is None:
        return None
    given = zip(BOTH, pair, limits or (None, None), strict=True)
    return {
        resource: (_bound if raw == limit else _amount)(resource, raw)
        for resource, raw, limit in given
        if raw
    }


def _limits(pair: _Pair | None) -> Resources | None:
    if pair is None:
        return None
    given = zip(BOTH, pair, strict=True)
    return {resource: _bound(resource, raw) for resource, raw in given if raw}


def _amount(resource: Resource, raw: bytes) -> int:
    return (_kept_amount if len(raw) <= _SHORT_BYTES else _parse_amount)(resource, raw)


def _parse_amount(resource: Resource, raw: bytes) -> int:
    return quantities.parse_amount(resource, _text(raw))


_kept_amount: Final = lru_cache(maxsize=16_384)(_parse_amount)


def _bound(resource: Resource, raw: bytes) -> int:
    return (_kept_bound if len(raw) <= _SHORT_BYTES else _parse_bound)(resource, raw)


def _parse_bound(resource: Resource, raw: bytes) -> int:
    return quantities.parse_bound(resource, _text(raw))


_kept_bound: Final = lru_cache(maxsize=16_384)(_parse_bound)


def _text(raw: bytes) -> str:
    if raw.startswith(b'"'):
        return decode(_TEXT, raw).strip()
    if raw[:1].isdigit() or raw.startswith(b"-"):
        return raw.decode()
    # The original reads null as a quantity of zero.
    if raw == b"null":
        return "0"
    raise DecodeError("", f"expected a quantity, got {raw[:64].decode(errors='replace')}")


NEGATIVE: Final = "must be greater than or equal to 0"
"""Error text for an amount below zero."""


def read_quantity(raw: msgspec.Raw, path: str) -> Quantity | FieldError:
    """Return the quantity of a field, or the error if it is invalid."""
    try:
        return quantities.parse(quantity_text(raw, path))
    except QuantityError as error:
        return field_errors.invalid(path, error.text, error.flaw)
    except DecodeError:
        shown = bytes(raw).decode(errors="replace")
        return field_errors.invalid(path, shown, "must be a quantity: a string or a number")
