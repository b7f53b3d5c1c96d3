"""Validation of `startupBoost`, in the spec and in container policies.

What the type does not use, negative amounts and times and two different times are refused here
although the original's webhook lets them pass (`docs/decisions/0003`); a boost that an update
leaves as it was is not judged by these rules.
"""

from collections.abc import Iterator

from trimtab.api import autoscaler_wire as wire
from trimtab.api import field_errors
from trimtab.api.amounts import is_given
from trimtab.api.field_errors import FieldError
from trimtab.api.quantity_validation import NEGATIVE, read_quantity
from trimtab.api.times import TimeError, parse_duration
from trimtab.core import quantities
from trimtab.core.autoscalers import BoostType
from trimtab.core.resources import Resource


def boost_errors(
    boost: wire.StartupBoost | None,
    old: wire.StartupBoost | None,
    path: str,
    *,
    gate: bool,
) -> Iterator[FieldError]:
    """Every mistake in a startup boost; `old` is what stood in its place before the update."""
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
            yield from _negative_errors(boost.cpu, f"{path}.cpu.quantity")
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
    if not is_given(boost.quantity):
        yield field_errors.required(path, "required when type is Quantity")
        return
    quantity = read_quantity(boost.quantity, path)
    if isinstance(quantity, FieldError):
        yield quantity
    elif not quantities.is_whole_amount(Resource.CPU, quantity):
        yield field_errors.invalid(path, quantity, "must be a whole number of milli CPUs")


def _foreign_member_errors(boost: wire.CpuBoost, path: str) -> Iterator[FieldError]:
    if boost.type == BoostType.FACTOR and is_given(boost.quantity):
        yield field_errors.forbidden(f"{path}.quantity", "not allowed when type is Factor")
    if boost.type == BoostType.QUANTITY and boost.factor is not None:
        yield field_errors.forbidden(f"{path}.factor", "not allowed when type is Quantity")


def _negative_errors(boost: wire.CpuBoost, path: str) -> Iterator[FieldError]:
    if boost.type != BoostType.QUANTITY or not is_given(boost.quantity):
        return
    quantity = read_quantity(boost.quantity, path)
    if not isinstance(quantity, FieldError) and quantity.sign < 0:
        yield field_errors.invalid(path, quantity, NEGATIVE)


def _time_errors(boost: wire.CpuBoost, path: str) -> Iterator[FieldError]:
    seconds = boost.duration_seconds
    if seconds is not None and seconds < 0:
        yield field_errors.invalid(f"{path}.durationSeconds", seconds, NEGATIVE)
    if boost.duration is None:
        return
    try:
        given_seconds = parse_duration(boost.duration).total_seconds()
    except TimeError:
        detail = "must be a duration such as 1h30m or 10s"
        yield field_errors.invalid(f"{path}.duration", boost.duration, detail)
        return
    if given_seconds < 0:
        yield field_errors.invalid(f"{path}.duration", boost.duration, "must not be negative")
    if seconds is not None and seconds != given_seconds:
        detail = f"must equal durationSeconds ({seconds}) when both are given"
        yield field_errors.invalid(f"{path}.duration", boost.duration, detail)
