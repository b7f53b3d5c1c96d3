"""External metrics: values from outside the cluster, identified by their labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from trimtab.api.wire import codec, lists, metadata, quantities, times
from trimtab.api.wire.codec import DecodeError, Wire
from trimtab.api.wire.lists import Listing
from trimtab.api.wire.quantities import NOT_GIVEN
from trimtab.api.wire.times import ZERO_TIME
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector


class _Value(Wire, frozen=True, kw_only=True):
    metric_labels: dict[str, str | None] | None = None
    timestamp: str | None = None
    value: msgspec.Raw = NOT_GIVEN


_DECODER: Final = msgspec.json.Decoder(_Value)


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods of one namespace that an autoscaler selects."""

    namespace: str
    selector: Selector
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExternalReading:
    """One value, and the labels that identify its container."""

    labels: Mapping[str, str]
    time: float
    """Time of the measurement, in seconds since the epoch."""
    amount: int
    """Millicores or bytes."""


def decode_external_metrics(resource: Resource, data: bytes) -> Listing[ExternalReading]:
    """Return the values in the JSON of an ExternalMetricValueList, as amounts of a resource."""
    return lists.decode_list(data, partial(_decode_value, resource))


def _decode_value(resource: Resource, data: bytes) -> ExternalReading:
    source = codec.decode(_DECODER, data)
    if source.value is NOT_GIVEN:
        raise DecodeError("value", "a metric without a value")
    time = times.decode_time(source.timestamp, "timestamp") or ZERO_TIME
    amount = quantities.decode_amount(resource, source.value, "value")
    return ExternalReading(metadata.text_map(source.metric_labels), time.timestamp(), amount)
