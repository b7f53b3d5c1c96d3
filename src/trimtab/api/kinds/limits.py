"""LimitRanges and ResourceQuotas: bounds of containers, pods and namespaces."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from trimtab.api.wire import codec, quantities
from trimtab.api.wire.codec import Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.api.wire.quantities import NOT_GIVEN, WireAmounts
from trimtab.core.model.limit_ranges import OF_LIMIT_RANGES, LimitRangeItem, LimitRangeType
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quotas import Quota, QuotaClaim, QuotaScope, Side


class _Item(Wire, frozen=True, kw_only=True):
    type: str | None = None
    min: WireAmounts | None = None
    max: WireAmounts | None = None
    default: WireAmounts | None = None
    default_request: WireAmounts | None = None
    max_limit_request_ratio: WireAmounts | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    limits: tuple[_Item, ...] | None = None


class _LimitRange(Wire, frozen=True, kw_only=True):
    spec: _Spec | None = None


_DECODER: Final = msgspec.json.Decoder(_LimitRange)


def decode_limit_range(data: bytes) -> tuple[LimitRangeItem, ...]:
    """Return the items of one LimitRange that concern pods or containers, in order."""
    source = codec.decode(_DECODER, data)
    limits = (source.spec or _Spec()).limits or ()
    return tuple(
        _convert_item(item, f"spec.limits[{index}]")
        for index, item in enumerate(limits)
        if item.type in OF_LIMIT_RANGES
    )


def _convert_item(item: _Item, path: str) -> LimitRangeItem:
    ratios = item.max_limit_request_ratio or WireAmounts()
    return LimitRangeItem(
        type=LimitRangeType(item.type or ""),
        min=quantities.decode_amounts(item.min, f"{path}.min"),
        max=quantities.decode_bounds(item.max, f"{path}.max"),
        default=quantities.decode_bounds(item.default, f"{path}.default"),
        max_cpu_ratio=_decode_ratio(ratios.cpu, f"{path}.maxLimitRequestRatio[cpu]"),
        max_memory_ratio=_decode_ratio(ratios.memory, f"{path}.maxLimitRequestRatio[memory]"),
        default_request=quantities.decode_amounts(item.default_request, f"{path}.defaultRequest"),
    )


def _decode_ratio(source: msgspec.Raw, path: str) -> int | None:
    # Ratios are decoded in thousandths, like millicores.
    return None if source is NOT_GIVEN else quantities.decode_amount(Resource.CPU, source, path)


class _ScopeExpression(Wire, frozen=True, kw_only=True):
    scope_name: str | None = None
    operator: str | None = None
    values: tuple[str, ...] | None = None


class _ScopeSelector(Wire, frozen=True, kw_only=True):
    match_expressions: tuple[_ScopeExpression, ...] | None = None


class _QuotaSpec(Wire, frozen=True, kw_only=True):
    scopes: tuple[str, ...] | None = None
    scope_selector: _ScopeSelector | None = None


class _Status(Wire, frozen=True, kw_only=True):
    hard: Mapping[str, msgspec.Raw] | None = None
    used: Mapping[str, msgspec.Raw] | None = None


class _Quota(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _QuotaSpec | None = None
    status: _Status | None = None


_QUOTA_DECODER: Final = msgspec.json.Decoder(_Quota)
_NO_SPEC: Final = _QuotaSpec()
_NO_STATUS: Final = _Status()
_NAMES: Final = {
    "cpu": QuotaClaim(Side.REQUESTS, Resource.CPU),
    "memory": QuotaClaim(Side.REQUESTS, Resource.MEMORY),
    "requests.cpu": QuotaClaim(Side.REQUESTS, Resource.CPU),
    "requests.memory": QuotaClaim(Side.REQUESTS, Resource.MEMORY),
    "limits.cpu": QuotaClaim(Side.LIMITS, Resource.CPU),
    "limits.memory": QuotaClaim(Side.LIMITS, Resource.MEMORY),
}


def decode_quota(data: bytes) -> Quota:
    """Return the quota in the JSON of one ResourceQuota; resources without a use are skipped."""
    source = codec.decode(_QUOTA_DECODER, data)
    metadata, spec = source.metadata or NO_METADATA, source.spec or _NO_SPEC
    left, used = _count(source.status or _NO_STATUS)
    name = metadata.namespace or "", metadata.name or ""
    return Quota(*name, left, tuple(_scopes(spec)), used)


def _scopes(spec: _QuotaSpec) -> Iterator[QuotaScope]:
    yield from map(QuotaScope, spec.scopes or ())
    selector = spec.scope_selector
    for each in (selector and selector.match_expressions) or ():
        yield QuotaScope(each.scope_name or "", each.operator or "", each.values or ())


def _count(status: _Status) -> tuple[dict[QuotaClaim, int], dict[QuotaClaim, int]]:
    """Return the amounts left and the amounts used."""
    hard, used = status.hard or {}, status.used or {}
    left: dict[QuotaClaim, int] = {}
    counted: dict[QuotaClaim, int] = {}
    for name, claim in _NAMES.items():
        if name in hard and name in used:
            most = quantities.decode_bound(claim.resource, hard[name], f"status.hard[{name}]")
            taken = quantities.decode_amount(claim.resource, used[name], f"status.used[{name}]")
            left[claim] = min(most - taken, left.get(claim, most - taken))
            counted[claim] = taken
    return left, counted
