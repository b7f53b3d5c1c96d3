"""Metrics of sizes: what pods request, what they would, and what was freed and added so far."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import Counter, Gauge

from trimtab.core.outcomes import Evict, Outcome, Resize, wanted_in_the_end
from trimtab.core.pods import Container, Wanted
from trimtab.core.resources import BOTH, Resource

_UNITS: Final = {Resource.CPU: ("core", 1000), Resource.MEMORY: ("byte", 1)}
_FREED: Final = "freed"
_ADDED: Final = "added"

REQUESTS: Final = Gauge(
    "vpa_updater_requests",
    "What the pods of autoscalers request now.",
    ["resource", "unit"],
)
WANTED_REQUESTS: Final = Gauge(
    "vpa_updater_wanted_requests",
    "What they would request if nothing kept them from what is recommended for them.",
    ["resource", "unit"],
)
CHANGED_REQUESTS: Final = Counter(
    "vpa_updater_requests_changed",
    "What evictions and resizes have freed and added; ends of startup boosts do not count.",
    ["resource", "unit", "direction"],
)


class SizeMeter:
    """Keeps the metrics in step with plans and acts."""

    def __init__(self) -> None:
        for resource in BOTH:
            for direction in (_FREED, _ADDED):
                CHANGED_REQUESTS.labels(resource.value, _UNITS[resource][0], direction)

    def show(self, outcomes: Iterable[Outcome]) -> None:
        """Show what a plan of everything says."""
        now = dict.fromkeys(BOTH, 0)
        change = dict.fromkeys(BOTH, 0)
        for outcome in outcomes:
            wanted = wanted_in_the_end(outcome) or {}
            for container in outcome.pod.containers:
                for resource, amount in (container.current.requests or {}).items():
                    now[resource] += amount
                # Most pods want nothing, and there may be many.
                if container.name in wanted:
                    for resource, before, after in _compare(container, wanted):
                        change[resource] += after - before
        for resource in BOTH:
            unit, scale = _UNITS[resource]
            then = now[resource] + change[resource]
            REQUESTS.labels(resource.value, unit).set(now[resource] / scale)
            WANTED_REQUESTS.labels(resource.value, unit).set(then / scale)

    def count(self, act: Evict | Resize) -> None:
        """Count an act that was done."""
        for container in act.pod.containers:
            for resource, before, after in _compare(container, act.wanted):
                unit, scale = _UNITS[resource]
                direction = _ADDED if after > before else _FREED
                change = abs(after - before) / scale
                CHANGED_REQUESTS.labels(resource.value, unit, direction).inc(change)


def _compare(container: Container, wanted: Wanted) -> Iterator[tuple[Resource, int, int]]:
    """Each resource of a container with what it requests, and what it would."""
    before = container.current.requests or {}
    found = wanted.get(container.name)
    after = {} if found is None else found.requests or {}
    for resource in BOTH:
        amount = before.get(resource, 0)
        yield resource, amount, after.get(resource, amount)
