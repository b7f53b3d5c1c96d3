"""EndpointSlices: how many copies are ready to answer behind a Service."""

from typing import Final

import msgspec

from trimtab.api.decoding import Wire, decode


class _Conditions(Wire, frozen=True, kw_only=True):
    ready: bool | None = None


class _Endpoint(Wire, frozen=True, kw_only=True):
    addresses: tuple[str, ...] | None = None
    conditions: _Conditions | None = None


class _Slice(Wire, frozen=True, kw_only=True):
    endpoints: tuple[_Endpoint, ...] | None = None


_DECODER: Final = msgspec.json.Decoder(_Slice)


def decode_ready_addresses(data: bytes) -> frozenset[str]:
    """The addresses in the JSON of one EndpointSlice that are ready, or do not say."""
    endpoints = decode(_DECODER, data).endpoints or ()
    return frozenset(
        address
        for one in endpoints
        if (one.conditions or _Conditions()).ready is not False
        for address in one.addresses or ()
    )
