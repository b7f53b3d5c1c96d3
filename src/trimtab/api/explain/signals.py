"""Sentences about signals of pressure that raised targets."""

from datetime import datetime
from typing import Final

from trimtab.api.wire import times
from trimtab.core.model import quantities
from trimtab.core.model.estimation import PressureKind
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.cost.signals import AppliedSignal
from trimtab.core.usage import aggregates

_SEEN: Final = {
    PressureKind.CPU_AT_LIMIT: "used {part:.0%} of its CPU limit",
    PressureKind.CPU_THROTTLED: "was throttled in {part:.0%} of its CPU periods",
    PressureKind.CPU_PRESSURE: "waited for a CPU {part:.0%} of the time",
    PressureKind.MEMORY_PRESSURE: "waited for memory {part:.0%} of the time, close to its limit",
    PressureKind.MEMORY_HIGH: "was held back {rate:.3g} times per second, close to its limit",
}


def tell_signal(
    container: str, resource: Resource, signal: AppliedSignal, pod: str, until: datetime | None
) -> str:
    """Return the sentence about a signal: what was seen and when, its effect, and its end."""
    before, after = (
        quantities.format_amount(resource, int(amount)) for amount in (signal.before, signal.after)
    )
    seen = _SEEN[signal.kind].format(part=signal.strength, rate=signal.strength)
    at = aggregates.from_seconds(signal.seconds)
    when = "" if at is None else f" at {times.format_time(at)}"
    lasts = "" if until is None else f", which stays until {times.format_time(until)} at least"
    return (
        f"container {container}, signal {signal.kind}{when}: {pod or 'a pod'} {seen}, so {resource}"
        f" rose from {before} to {after}{lasts}"
    )
