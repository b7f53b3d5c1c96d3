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
"""Stands where the wire has no such field."""

_ABSENT: Final = (NOT_GIVEN, msgspec.Raw(b"null"))
_TEXT: Final = msgspec.json.Decoder(str)
_CPU: Final = Resource.CPU.value
_MEMORY: Final = Resource.MEMORY.value

_SHORT_BYTES: Final = 64
"""Longer texts are not kept: a tenant could fill the memory with them."""

_Pair: TypeAlias = tuple[bytes, bytes]
"""CPU and memory as the wire has them; what is not given is empty."""


class WireAmounts(Wire, frozen=True, kw_only=True):
    """CPU and memory of a resource list; extended resources are skipped."""

    cpu: msgspec.Raw = NOT_GIVEN
    memory: msgspec.Raw = NOT_GIVEN


AmountMap: TypeAlias = dict[str, msgspec.Raw]
"""All resources of a resource list, where extended resources matter, too."""


def is_given(raw: msgspec.Raw) -> bool:
    """Whether an optional quantity is there; `null` is as good as absent."""
    # Compared as they are: the object in a review is large, and need not be copied for this.
    return raw not in _ABSENT


def quantity_text(raw: msgspec.Raw, path: str) -> str:
    """The text of a quantity; a DecodeError where the wire has neither a string nor a number."""
    try:
        return _text(bytes(raw))
    except DecodeError as error:
        raise DecodeError(path, error.problem) from error


def decode_amount(resource: Resource, raw: msgspec.Raw, path: str) -> int:
    """Millicores or bytes of one quantity, rounded up."""
    try:
        return _amount(resource, bytes(raw))
    except (DecodeError, quantities.QuantityError) as error:
        raise DecodeError(path, str(error)) from error


def decode_bound(resource: Resource, raw: msgspec.Raw, path: str) -> int:
    """The same of an amount that others must stay within, rounded down."""
    try:
        return _bound(resource, bytes(raw))
    except (DecodeError, quantities.QuantityError) as error:
        raise DecodeError(path, str(error)) from error


def decode_amounts(wire: WireAmounts | None, path: str) -> Resources | None:
    """The amounts that a resource list names, rounded up; None where there is no list."""
    if wire is None:
        return None
    return _decode_given(((Resource.CPU, wire.cpu), (Resource.MEMORY, wire.memory)), path)


def decode_bounds(wire: WireAmounts | None, path: str) -> Resources | None:
    """The same of amounts that others must stay within, rounded down."""
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
    """What a container requests and may use at most; what is written alike is one record.

    Limits are rounded down: no request fits in a limit that was rounded up. So is a request that
    is written like its limit, since both must stay equal.
    """
    try:
        return _allocation(_copy(requests), _copy(limits))
    except (DecodeError, quantities.QuantityError):
        # Again, to say which of them it is.
        return Allocation(
            _decode_list(requests, f"{path}.requests"), _decode_list(limits, f"{path}.limits")
        )


def decode_amount_map(wire: Mapping[str, msgspec.Raw] | None, path: str) -> Resources | None:
    """The CPU and memory among all resources of a map; None where there is no map."""
    if wire is None:
        return None
    return _decode_given(((resource, wire.get(resource, NOT_GIVEN)) for resource in BOTH), path)


def encode_amounts(amounts: Resources) -> dict[str, str]:
    """Canonical quantities by resource name, CPU before memory."""
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
    """The texts of quantities, which must not keep all of the answer that they stand in."""
    if isinstance(wire, dict):
        return bytes(wire.get(_CPU, NOT_GIVEN)), bytes(wire.get(_MEMORY, NOT_GIVEN))
    return None if wire is None else (bytes(wire.cpu), bytes(wire.memory))


def _allocation(requests: _Pair | None, limits: _Pair | None) -> Allocation:
    longest = max(map(len, (*(requests or ()), *(limits or ()))), default=0)
    make = _shared_allocation if longest <= _SHORT_BYTES else _make_allocation
    return make(requests, limits)


def _make_allocation(requests: _Pair | None, limits: _Pair | None) -> Allocation:
    return Allocation(_requests(requests, limits), _limits(limits))


# Few different quantities make up a whole cluster, and few different sets of them.
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
"""What is wrong with an amount below zero."""


def read_quantity(raw: msgspec.Raw, path: str) -> Quantity | FieldError:
    """The quantity of a field, or the error that says why it is none."""
    try:
        return quantities.parse(quantity_text(raw, path))
    except QuantityError as error:
        return field_errors.invalid(path, error.text, error.flaw)
    except DecodeError:
        shown = bytes(raw).decode(errors="replace")
        return field_errors.invalid(path, shown, "must be a quantity: a string or a number")
