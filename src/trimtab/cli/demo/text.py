"""Text of the demo: amounts, times and news for people, and the summary for programs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias, assert_never

from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.simulation.demo.news import DemoEvent, DemoEventKind
from trimtab.simulation.demo.picture import DemoRow, Gauge, Picture

UNITS: Final = {Resource.CPU: 1000, Resource.MEMORY: 1024**3}
"""One core, one GiB."""
UNIT_NAMES: Final = {Resource.CPU: "cores", Resource.MEMORY: "GiB"}
_WIRE_NAMES: Final = {Resource.CPU: "cpuMillicores", Resource.MEMORY: "memoryBytes"}
_HOURS_NAMES: Final = {Resource.CPU: "cpuMillicoreHours", Resource.MEMORY: "memoryByteHours"}
_TWO_DECIMALS_BELOW: Final = 10

Plain: TypeAlias = "dict[str, Plain] | list[Plain] | str | float | int | None"
"""A JSON value."""


def format_number(resource: Resource, amount: float | None) -> str:
    """Format an amount in cores or GiB, without the unit; a dash if it is unknown."""
    if amount is None:
        return "-"
    units = amount / UNITS[resource]
    return f"{units:.2f}" if abs(units) < _TWO_DECIMALS_BELOW else f"{units:.0f}"


def format_amounts(amounts: Resources) -> str:
    """Format amounts with their units."""
    return ", ".join(
        f"{format_number(resource, amounts[resource])} {UNIT_NAMES[resource]}"
        for resource in BOTH
        if resource in amounts
    )


def format_moment(moment: datetime) -> str:
    """Format the day of the week and the time of day."""
    return moment.strftime("%a %H:%M")


def format_news(news: DemoEvent) -> str:
    """Format one event as a line."""
    several = f" {news.times}x" if news.times > 1 else ""
    return f"{format_moment(news.at)}  {news.title:<9}  {_sentence(news)}{several}"


def summarize(picture: Picture, *, seed: int, real_seconds: float) -> Plain:
    """Return the final state for programs: millicores, bytes, seconds and hours of them."""
    return {
        "seed": seed,
        "realSeconds": round(real_seconds, 3),
        "simulatedSeconds": picture.elapsed.total_seconds(),
        "asked": _wire(picture.asked),
        "requested": _wire(picture.requested),
        "saved": {
            _WIRE_NAMES[each]: picture.asked[each] - picture.requested[each] for each in BOTH
        },
        "savedHours": {_HOURS_NAMES[each]: round(picture.saved_hours[each]) for each in BOTH},
        "counts": {str(kind): times for kind, times in picture.counts.items()},
        "workloads": [_wire_row(row) for row in picture.rows],
    }


def _sentence(news: DemoEvent) -> str:
    cpu, memory = (_only(resource, news.after) for resource in BOTH)
    match news.kind:
        case DemoEventKind.LEARNED:
            text = f"first recommendation: {format_amounts(news.after)}"
        case DemoEventKind.SIZED:
            text = f"new pod, smaller from its start: {format_amounts(news.after)}"
        case DemoEventKind.BOOSTED:
            text = f"starting, with its CPU boosted to {cpu}"
        case DemoEventKind.UNBOOSTED:
            text = f"started, boost over: CPU back to {cpu}"
        case DemoEventKind.RESIZED:
            text = f"resized in place: {_change(news)}"
        case DemoEventKind.EVICTED:
            text = "evicted, to come back with another size"
        case DemoEventKind.KILLED:
            text = f"OOM-killed at its limit of {memory}"
        case DemoEventKind.RELEASED:
            text = "its owner rolls out a new version"
        case DemoEventKind.TOOK_OVER:
            text = f"{news.pod} is the leader now"
        case _:
            assert_never(news.kind)
    return text


def _only(resource: Resource, amounts: Resources) -> str:
    return format_amounts({resource: amounts[resource]} if resource in amounts else {})


def _change(news: DemoEvent) -> str:
    changes = ", ".join(
        f"{format_number(resource, news.before[resource])}→{_only(resource, news.after)}"
        for resource in BOTH
        if news.before[resource] != news.after[resource]
    )
    return changes or "there and back again"


def _wire(amounts: Mapping[Resource, int | None]) -> dict[str, Plain]:
    return {_WIRE_NAMES[resource]: amounts[resource] for resource in BOTH}


def _wire_row(row: DemoRow) -> Plain:
    gauges: dict[str, Plain] = {
        _WIRE_NAMES[resource]: _wire_gauge(gauge) for resource, gauge in row.gauges.items()
    }
    return {"name": row.title, "pods": row.pods, **gauges}


def _wire_gauge(gauge: Gauge) -> Plain:
    return {
        "used": gauge.used,
        "requested": gauge.requested,
        "asked": gauge.asked,
        "target": gauge.target,
        "lowerBound": gauge.lower_bound,
        "upperBound": gauge.upper_bound,
    }
