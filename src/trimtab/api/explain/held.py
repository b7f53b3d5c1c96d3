"""Held targets of the estimator `cost`, as JSON. The keys are an interface."""

from collections.abc import Sequence
from datetime import datetime

from trimtab.api.wire import times
from trimtab.api.wire.codec import Written
from trimtab.core.explain.held import CostOfLevel, HeldCpu, HeldMemory
from trimtab.core.model import quantities
from trimtab.core.model.resources import Resource


class ShownLevel(Written, frozen=True, kw_only=True):
    """Costs of a CPU request per sample over the last days, in millicores."""

    level: str
    idle: float
    missing: float
    short_fraction: float
    cost: float
    is_cheapest: bool = False


class ShownHolding(Written, frozen=True, kw_only=True):
    """Reasons of a held target. Memory has a price, and CPU has a table of levels."""

    changed_at: str | None = None
    needed_at: str | None = None
    pod: str = ""
    peak: str | None = None
    spent_gib_hours: float | None = None
    price_gib_hours: float | None = None
    falls_to: str | None = None
    falls_at: str | None = None
    is_tried: bool = False
    """True if an OOM kill set the target, and no usage has confirmed it yet."""
    wanted: str | None = None
    levels: Sequence[ShownLevel] = ()


def show_held(held: HeldMemory | HeldCpu | None) -> ShownHolding | None:
    """Return what holds a target; None if nothing does."""
    match held:
        case None:
            return None
        case HeldMemory():
            return _show_memory(held)
        case HeldCpu():
            return ShownHolding(
                changed_at=_time(held.changed_at),
                wanted=_amount(Resource.CPU, held.wanted),
                levels=[_show_level(each) for each in held.levels],
            )


def _show_memory(held: HeldMemory) -> ShownHolding:
    return ShownHolding(
        changed_at=_time(held.changed_at),
        needed_at=_time(held.needed_at),
        pod=held.pod,
        peak=_amount(Resource.MEMORY, held.peak_bytes),
        spent_gib_hours=round(held.spent_gib_hours, 3),
        price_gib_hours=round(held.price_gib_hours, 3),
        falls_to=_amount(Resource.MEMORY, held.falls_to),
        falls_at=_time(held.falls_at),
        is_tried=held.is_tried,
    )


def _show_level(level: CostOfLevel) -> ShownLevel:
    return ShownLevel(
        level=quantities.format_amount(Resource.CPU, level.level),
        idle=round(level.idle, 1),
        missing=round(level.missing, 1),
        short_fraction=round(level.short_fraction, 4),
        cost=round(level.cost, 1),
        is_cheapest=level.is_cheapest,
    )


def _amount(resource: Resource, amount: int | None) -> str | None:
    return None if amount is None else quantities.format_amount(resource, amount)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else times.format_time(moment)
