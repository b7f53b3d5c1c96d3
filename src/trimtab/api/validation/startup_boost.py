"""Validation of `startupBoost`, in the spec and in container policies.

The original's webhook accepts unused fields, negative amounts and times, and contradictory times;
this one refuses them (`docs/decisions/0003`). A boost that an update leaves unchanged passes these
rules.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.wire import field_errors, times
from trimtab.api.wire import quantities as wire_quantities
from trimtab.api.wire.field_errors import FieldError
from trimtab.api.wire.quantities import NEGATIVE
from trimtab.api.wire.times import TimeError
from trimtab.core.diagnosis import durations
from trimtab.core.model import quantities
from trimtab.core.model.autoscalers import BoostType
from trimtab.core.model.quantities import Format
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.startup_boost import MAX_BOOST_DURATION

_MOST_CORES: Final = quantities.parse("10k")
"""More cores than any node has: a larger amount was meant for memory."""
_NOT_CPU: Final = "is an amount of memory; CPU is counted in cores or millicores, such as 2 or 500m"


def boost_errors(
    boost: wire.StartupBoost | None,
    old: wire.StartupBoost | None,
    path: str,
    *,
    gate: bool,
) -> Iterator[FieldError]:
    """Yield every mistake in a startup boost; `old` is the stored boost in the same place."""
    if boost is None:
        return
    if not gate:
        yield field_errors.forbidden(
            path,
            "in order to use startupBoost, you must enable feature gate CPUStartupBoost"
            " in the admission-controller args",
        )
    elif boost.cpu is not None:
        yield from _member_errors(boost.cpu, f"{path}.cpu")
        if old is None or boost.cpu != old.cpu:
            yield from _foreign_member_errors(boost.cpu, f"{path}.cpu")
            yield from _amount_errors(boost.cpu, f"{path}.cpu.quantity")
            yield from _time_errors(boost.cpu, f"{path}.cpu")


def _member_errors(boost: wire.CpuBoost, path: str) -> Iterator[FieldError]:
    match boost.type or "":
        case BoostType.FACTOR:
            yield from _factor_errors(boost.factor, f"{path}.factor")
        case BoostType.QUANTITY:
            yield from _quantity_errors(boost, f"{path}.quantity")
        case "":
            yield field_errors.required(f"{path}.type", "must be either Factor or Quantity")
        case unknown:
            yield field_errors.not_supported(f"{path}.type", unknown, BoostType)


def _factor_errors(factor: int | None, path: str) -> Iterator[FieldError]:
    if factor is None:
        yield field_errors.required(path, "required when type is Factor")
    elif factor < 1:
        yield field_errors.invalid(path, factor, "must be >= 1 for type Factor")


def _quantity_errors(boost: wire.CpuBoost, path: str) -> Iterator[FieldError]:
    if not wire_quantities.is_given(boost.quantity):
        yield field_errors.required(path, "required when type is Quantity")
        return
    quantity = wire_quantities.read_quantity(boost.quantity, path)
    if isinstance(quantity, FieldError):
        yield quantity
    elif not quantities.is_whole_amount(Resource.CPU, quantity):
        yield field_errors.invalid(path, quantity, "must be a whole number of milli CPUs")


def _foreign_member_errors(boost: wire.CpuBoost, path: str) -> Iterator[FieldError]:
    if boost.type == BoostType.FACTOR and wire_quantities.is_given(boost.quantity):
        yield field_errors.forbidden(f"{path}.quantity", "not allowed when type is Factor")
    if boost.type == BoostType.QUANTITY and boost.factor is not None:
        yield field_errors.forbidden(f"{path}.factor", "not allowed when type is Quantity")


def boost_warnings(boost: wire.StartupBoost | None, path: str) -> Iterator[str]:
    """Yield a warning about a boost that ends before its own duration does."""
    cpu = boost and boost.cpu
    if not cpu:
        return
    span, place = _read_duration(cpu, f"{path}.cpu")
    if span is not None and span > MAX_BOOST_DURATION:
        limit = durations.brief(MAX_BOOST_DURATION)
        yield (
            f"{place}: a boost of {durations.brief(span)} after the pod is ready ends earlier: the"
            f" updater ends each boost {limit} after the start of the pod (--max-boost-duration,"
            f" {limit} by default)"
        )


def _read_duration(boost: wire.CpuBoost, path: str) -> tuple[timedelta | None, str]:
    """Return the effective duration, and the path of its field."""
    if boost.duration_seconds is not None:
        return timedelta(seconds=boost.duration_seconds), f"{path}.durationSeconds"
    try:
        span = None if boost.duration is None else times.parse_duration(boost.duration)
    except TimeError:
        span = None
    return span, f"{path}.duration"


def _amount_errors(boost: wire.CpuBoost, path: str) -> Iterator[FieldError]:
    if boost.type != BoostType.QUANTITY or not wire_quantities.is_given(boost.quantity):
        return
    quantity = wire_quantities.read_quantity(boost.quantity, path)
    if isinstance(quantity, FieldError):
        return
    if quantity.sign < 0:
        yield field_errors.invalid(path, quantity, NEGATIVE)
    elif quantity.format is Format.BINARY_SI or quantity > _MOST_CORES:
        yield field_errors.invalid(path, quantity, _NOT_CPU)


def _time_errors(boost: wire.CpuBoost, path: str) -> Iterator[FieldError]:
    seconds = boost.duration_seconds
    if seconds is not None and seconds < 0:
        yield field_errors.invalid(f"{path}.durationSeconds", seconds, NEGATIVE)
    if boost.duration is None:
        return
    try:
        given_seconds = times.parse_duration(boost.duration).total_seconds()
    except TimeError:
        detail = "must be a duration such as 1h30m or 10s"
        yield field_errors.invalid(f"{path}.duration", boost.duration, detail)
        return
    if given_seconds < 0:
        yield field_errors.invalid(f"{path}.duration", boost.duration, "must not be negative")
    if seconds is not None and seconds != given_seconds:
        detail = f"must equal durationSeconds ({seconds}) when both are given"
        yield field_errors.invalid(f"{path}.duration", boost.duration, detail)
