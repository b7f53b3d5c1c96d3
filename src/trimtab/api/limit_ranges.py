"""LimitRanges: the items that bound containers and pods."""

from typing import Final

import msgspec

from trimtab.api.amounts import NOT_GIVEN, Amounts, decode_amount, decode_amounts, decode_bounds
from trimtab.api.decoding import Wire, decode
from trimtab.core.limit_ranges import OF_LIMIT_RANGES, LimitRangeItem, LimitRangeType
from trimtab.core.resources import Resource


class _Item(Wire, frozen=True, kw_only=True):
    type: str | None = None
    min: Amounts | None = None
    max: Amounts | None = None
    default: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    limits: tuple[_Item, ...] | None = None


class _LimitRange(Wire, frozen=True, kw_only=True):
    spec: _Spec | None = None


_DECODER: Final = msgspec.json.Decoder(_LimitRange)


def decode_limit_range(data: bytes) -> tuple[LimitRangeItem, ...]:
    """The items of one LimitRange that concern pods or containers, in their order."""
    source = decode(_DECODER, data)
    limits = (source.spec or _Spec()).limits or ()
    return tuple(
        _convert_item(item, f"spec.limits[{index}]")
        for index, item in enumerate(limits)
        if item.type in OF_LIMIT_RANGES
    )


def _convert_item(item: _Item, path: str) -> LimitRangeItem:
    ratios = item.max_limit_request_ratio or Amounts()
    return LimitRangeItem(
        type=LimitRangeType(item.type or ""),
        min=decode_amounts(item.min, f"{path}.min"),
        max=decode_bounds(item.max, f"{path}.max"),
        default=decode_bounds(item.default, f"{path}.default"),
        max_cpu_ratio=_decode_ratio(ratios.cpu, f"{path}.maxLimitRequestRatio[cpu]"),
        max_memory_ratio=_decode_ratio(ratios.memory, f"{path}.maxLimitRequestRatio[memory]"),
    )


def _decode_ratio(source: msgspec.Raw, path: str) -> int | None:
    # In thousandths a ratio is written as millicores are.
    return None if source is NOT_GIVEN else decode_amount(Resource.CPU, source, path)
