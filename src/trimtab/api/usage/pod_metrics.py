"""Usage from the metrics API, decoded into columns: no record per sample."""

from dataclasses import dataclass
from itertools import chain
from sys import intern
from typing import Final, TypeAlias

import msgspec

from trimtab.api.wire import codec, lists, quantities, times
from trimtab.api.wire.codec import Wire
from trimtab.api.wire.lists import Unreadable
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.api.wire.quantities import NOT_GIVEN, WireAmounts
from trimtab.api.wire.times import ZERO_TIME
from trimtab.core.model.resources import Resource


class _Container(Wire, frozen=True, kw_only=True):
    name: str | None = None
    usage: WireAmounts | None = None


class _PodMetrics(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    timestamp: str | None = None
    containers: tuple[_Container, ...] | None = None


_DECODER: Final = msgspec.json.Decoder(_PodMetrics)
_NO_USAGE: Final = WireAmounts()

_USUAL: Final = {Resource.CPU: (b'n"', 1, 1_000_000), Resource.MEMORY: (b'Ki"', 1024, 1)}
# Longer numbers might exceed 64 bits; the general parser handles them.
_SHORT_NUMBER: Final = 15


_Row: TypeAlias = tuple[str, str, str, float, int, int, bool, bool]
"""One sample, in the order of the columns."""


@dataclass(frozen=True, slots=True)
class UsageColumns:
    """Usage samples of many containers: element i of each column belongs to sample i."""

    namespaces: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    times: tuple[float, ...] = ()
    """The end of the measured window, in seconds since the epoch."""
    cpu_millicores: tuple[int, ...] = ()
    memory_bytes: tuple[int, ...] = ()
    has_cpu: tuple[bool, ...] = ()
    """False where no CPU is reported, which the original counts as a usage of zero."""
    has_memory: tuple[bool, ...] = ()
    problems: tuple[Exception, ...] = ()
    """Errors because of which samples are missing."""


def decode_pod_metrics(data: bytes) -> tuple[UsageColumns, tuple[Unreadable, ...]]:
    """Return the samples in the JSON of a PodMetricsList, and the pods with unreadable metrics."""
    listing = lists.decode_list(data, _decode_pod)
    columns = tuple(zip(*chain.from_iterable(listing.items), strict=True))
    return UsageColumns(*columns), listing.unreadable


def _decode_pod(data: bytes) -> list[_Row]:
    source = codec.decode(_DECODER, data)
    metadata = source.metadata or NO_METADATA
    namespace, pod = intern(metadata.namespace or ""), metadata.name or ""
    time = (times.decode_time(source.timestamp, "timestamp") or ZERO_TIME).timestamp()
    rows: list[_Row] = []
    for index, container in enumerate(source.containers or ()):
        usage = container.usage or _NO_USAGE
        path = f"containers[{index}].usage"
        rows.append(
            (
                namespace,
                pod,
                intern(container.name or ""),
                time,
                _decode_usage(Resource.CPU, usage.cpu, path),
                _decode_usage(Resource.MEMORY, usage.memory, path),
                usage.cpu is not NOT_GIVEN,
                usage.memory is not NOT_GIVEN,
            )
        )
    return rows


def _decode_usage(resource: Resource, raw: msgspec.Raw, path: str) -> int:
    if raw is NOT_GIVEN:
        return 0
    # Few samples are equal, so the usual spelling of metrics-server is parsed here, without the
    # general parser and its cache.
    suffix, factor, divisor = _USUAL[resource]
    text = bytes(raw)
    digits = text[1 : -len(suffix)]
    if text.endswith(suffix) and digits.isdigit() and len(digits) <= _SHORT_NUMBER:
        return -(-int(digits) * factor // divisor)
    return quantities.decode_amount(resource, raw, f"{path}[{resource}]")
