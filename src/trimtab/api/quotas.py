"""ResourceQuotas: how much of CPU and memory is left for the pods of a namespace."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from trimtab.api.amounts import decode_amount, decode_bound
from trimtab.api.decoding import Wire, decode
from trimtab.api.metadata import NO_METADATA, Metadata
from trimtab.core.quotas import Claim, Quota, Scope, Side
from trimtab.core.resources import Resource


class _ScopeExpression(Wire, frozen=True, kw_only=True):
    scope_name: str | None = None
    operator: str | None = None
    values: tuple[str, ...] | None = None


class _ScopeSelector(Wire, frozen=True, kw_only=True):
    match_expressions: tuple[_ScopeExpression, ...] | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    scopes: tuple[str, ...] | None = None
    scope_selector: _ScopeSelector | None = None


class _Status(Wire, frozen=True, kw_only=True):
    hard: Mapping[str, msgspec.Raw] | None = None
    used: Mapping[str, msgspec.Raw] | None = None


class _Quota(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_DECODER: Final = msgspec.json.Decoder(_Quota)
_NO_SPEC: Final = _Spec()
_NO_STATUS: Final = _Status()
_NAMES: Final = {
    "cpu": Claim(Side.REQUESTS, Resource.CPU),
    "memory": Claim(Side.REQUESTS, Resource.MEMORY),
    "requests.cpu": Claim(Side.REQUESTS, Resource.CPU),
    "requests.memory": Claim(Side.REQUESTS, Resource.MEMORY),
    "limits.cpu": Claim(Side.LIMITS, Resource.CPU),
    "limits.memory": Claim(Side.LIMITS, Resource.MEMORY),
}


def decode_quota(data: bytes) -> Quota:
    """The quota in the JSON of one ResourceQuota; nothing counts whose use nobody has counted."""
    source = decode(_DECODER, data)
    metadata, spec = source.metadata or NO_METADATA, source.spec or _NO_SPEC
    left, used = _count(source.status or _NO_STATUS)
    name = metadata.namespace or "", metadata.name or ""
    return Quota(*name, left, tuple(_scopes(spec)), used)


def _scopes(spec: _Spec) -> Iterator[Scope]:
    yield from map(Scope, spec.scopes or ())
    selector = spec.scope_selector
    for each in (selector and selector.match_expressions) or ():
        yield Scope(each.scope_name or "", each.operator or "", each.values or ())


def _count(status: _Status) -> tuple[dict[Claim, int], dict[Claim, int]]:
    """Return what is left and what is used."""
    hard, used = status.hard or {}, status.used or {}
    left: dict[Claim, int] = {}
    counted: dict[Claim, int] = {}
    for name, claim in _NAMES.items():
        if name in hard and name in used:
            most = decode_bound(claim.resource, hard[name], f"status.hard[{name}]")
            taken = decode_amount(claim.resource, used[name], f"status.used[{name}]")
            left[claim] = min(most - taken, left.get(claim, most - taken))
            counted[claim] = taken
    return left, counted
