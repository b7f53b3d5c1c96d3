"""Held targets for people: why a target is what it is, and when it may fall."""

from collections.abc import Iterator

from trimtab.api.explain.held import ShownHolding
from trimtab.api.explain.recommendation import ShownResource
from trimtab.api.wire import times
from trimtab.cli.output import amounts
from trimtab.core.diagnosis import durations
from trimtab.core.model import quantities
from trimtab.core.model.resources import Resource


def describe(resource: ShownResource, at: str) -> Iterator[str]:
    """Yield sentences about a held target at a time; none if it is not held."""
    if resource.held is None:
        return
    if resource.by_percentile is not None:
        other = _amount(Resource(resource.resource), resource.by_percentile)
        yield f"the estimator `percentile` would say {other}"
    if resource.resource == Resource.CPU.value:
        yield _describe_cpu(resource.held)
    else:
        yield _describe_memory(resource.held, at)


def tabulate(held: ShownHolding | None) -> Iterator[str]:
    """Yield the lines of the table of CPU levels; none if there are none."""
    if held is None or not held.levels:
        return
    yield f"    {'LEVEL':>8} {'IDLE':>9} {'MISSING':>9} {'SHORT':>8} {'COST':>9}"
    for each in held.levels:
        mark = "  cheapest" if each.is_cheapest else ""
        yield (
            f"    {each.level:>8} {each.idle:>8.0f}m {each.missing:>8.1f}m"
            f" {each.short_fraction:>8.2%} {each.cost:>8.0f}m{mark}"
        )


def _describe_memory(held: ShownHolding, at: str) -> str:
    used = f"{held.pod or 'a pod'} used {_amount(Resource.MEMORY, held.peak)}"
    since = "" if held.needed_at is None else f" since {_clock(held.needed_at)} ({used})"
    parts = [f"held{since}"]
    if held.is_tried:
        parts.append("raised on trial after an OOM kill")
    if held.falls_to is None or held.falls_at is None:
        parts.append("no lower target would be enough")
        return ", ".join(parts)
    price = f"{held.spent_gib_hours:.3g} of {held.price_gib_hours:.3g} GiB-h"
    left = times.parse_time(held.falls_at) - times.parse_time(at)
    when = f"in {durations.brief(left)}" if left.total_seconds() > 0 else "within the hour"
    parts.append(f"has cost {price}")
    parts.append(f"can fall to {_amount(Resource.MEMORY, held.falls_to)} {when}")
    return ", ".join(parts)


def _describe_cpu(held: ShownHolding) -> str:
    changed = "" if held.changed_at is None else f" since {_clock(held.changed_at)}"
    if held.wanted is None:
        return f"held{changed}; no level is known to be cheapest yet: starts do not count"
    return f"held{changed}, the cheapest level with its margin is {held.wanted}; costs per sample:"


def _clock(text: str) -> str:
    return f"{times.parse_time(text):%a %Y-%m-%d %H:%M} UTC"


def _amount(kind: Resource, text: str | None) -> str:
    return "-" if text is None else amounts.show_amount(kind, quantities.parse_amount(kind, text))
