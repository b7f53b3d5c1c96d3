"""What Prometheus answers to queries, decoded into arrays: no record per sample."""

from typing import Final

import msgspec
import numpy as np

from trimtab.api.decoding import DecodeError, Wire, decode
from trimtab.core.buckets import Floats
from trimtab.core.records import dataclass

_Sample = tuple[float, str]
"""A time in seconds, and a number as text: it may be `NaN` or `+Inf`, which JSON does not know."""


class _Series(Wire, frozen=True, kw_only=True):
    metric: dict[str, str] | None = None
    value: _Sample | None = None
    values: list[_Sample] | None = None


class _Data(Wire, frozen=True, kw_only=True):
    result_type: str | None = None
    result: list[_Series] | None = None


class _Answer(Wire, frozen=True, kw_only=True):
    data: _Data | None = None


class _Refusal(Wire, frozen=True, kw_only=True):
    error_type: str | None = None
    error: str | None = None


_ANSWERS: Final = msgspec.json.Decoder(_Answer)
_REFUSALS: Final = msgspec.json.Decoder(_Refusal)


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """The samples of one series, in their order."""

    labels: dict[str, str]
    times: Floats
    """Seconds since the epoch."""
    values: Floats


@dataclass(frozen=True, slots=True)
class QueryRefusal:
    """Why Prometheus does not answer a query."""

    kind: str = ""
    """Its name for this kind of error: `bad_data`, `timeout`, `execution`, …"""
    message: str = ""


def decode_series(data: bytes) -> list[LabelledSeries]:
    """The series of an answer, be it a vector or a matrix; a DecodeError for anything else."""
    found = decode(_ANSWERS, data).data
    if found is None or found.result is None:
        raise DecodeError("data", "an answer without a result")
    return [_decode_one(series, index) for index, series in enumerate(found.result)]


def decode_query_refusal(data: bytes) -> QueryRefusal:
    """What an answer other than a result says; nothing where it is not from Prometheus."""
    try:
        refusal = decode(_REFUSALS, data)
    except DecodeError:
        return QueryRefusal()
    return QueryRefusal(refusal.error_type or "", refusal.error or "")


def _decode_one(series: _Series, index: int) -> LabelledSeries:
    samples = series.values or ([] if series.value is None else [series.value])
    times = np.array([time for time, _ in samples], np.float64)
    try:
        values = np.array([float(text) for _, text in samples], np.float64)
    except ValueError as error:
        raise DecodeError(f"data.result[{index}].values", str(error)) from error
    return LabelledSeries(series.metric or {}, times, values)
