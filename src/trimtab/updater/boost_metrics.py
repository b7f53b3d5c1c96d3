"""Metrics of startup boosts: their number, the causes of their ends, and their durations.

The admission controller gives boosts; here a boost begins when it is first seen.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from trimtab.core.changes.outcomes import (
    EndOfBoost,
    Evict,
    Hold,
    Outcome,
    Resize,
    Unboost,
    wanted_in_the_end,
)
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Container, Pod, TargetResources
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing import startup_boost
from trimtab.updater.actions import ActResult
from trimtab.updater.reports import Acted, News, PlanMade

BOOSTED_CONTAINERS: Final = Gauge(
    "vpa_updater_boosted_containers",
    "Containers that have more CPU now because they start.",
)
BOOSTS_STARTED: Final = Counter(
    "vpa_updater_boosts_started",
    "Startup boosts of containers that were seen for the first time.",
)
BOOSTS_ENDED: Final = Counter(
    "vpa_updater_boosts_ended",
    "Startup boosts of containers that ended, by cause.",
    ["cause"],
)
BOOST_SECONDS: Final = Histogram(
    "vpa_updater_boost_duration_seconds",
    "How long containers were boosted that are so no more, from the start of their pod.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600),
)
FAILED_ENDS: Final = Counter(
    "vpa_updater_failed_boost_ends",
    "Attempts to end startup boosts of pods that failed.",
)

_GONE: Final = "PodGone"
"""The cause of an end without an act: the pod is gone."""
_NO_FAILURE: Final = frozenset({ActResult.DONE, ActResult.WITHDRAWN, ActResult.OUTDATED})
_OF_BOOSTED: Final = frozenset(
    {
        HoldReason.BOOST_ACTIVE,
        HoldReason.UNBOOST_DELAYED,
        HoldReason.POD_PENDING,
        HoldReason.RESIZE_IN_PROGRESS,
        HoldReason.BUDGET_SPENT,
        HoldReason.PAUSED,
    }
)
"""The only reasons for which a boosted pod is held, so that few pods need a look."""


@dataclass(frozen=True, slots=True)
class _Boost:
    since: datetime
    containers: frozenset[str]


class BoostMeter:
    """Updates the boost metrics from plans and acts."""

    def __init__(self) -> None:
        self._boosts: dict[str, _Boost] = {}
        """By the uid of the pod."""
        self._over: dict[str, frozenset[str]] = {}
        """Containers whose boost was ended, by uid of the pod, whatever the view still shows."""
        for cause in (*EndOfBoost, _GONE):
            BOOSTS_ENDED.labels(cause)

    def note(self, news: News) -> None:
        """Count what a report adds."""
        match news:
            case PlanMade(at, outcomes, is_all=is_all):
                seen = [each.pod for each in _of_boosted(outcomes)]
                for pod in seen:
                    self._meet(pod, at)
                if is_all:
                    self._forget_others({pod.uid for pod in seen}, at)
            case Acted(at, task, result) if isinstance(task.act, Unboost):
                if result is ActResult.DONE:
                    if task.act.is_reported:
                        self._end(task.act, at)
                elif result not in _NO_FAILURE:
                    FAILED_ENDS.inc()
            case _:
                return
        BOOSTED_CONTAINERS.set(sum(len(each.containers) for each in self._boosts.values()))

    def _meet(self, pod: Pod, now: datetime) -> None:
        over = self._over.get(pod.uid, frozenset())
        containers = frozenset(startup_boost.boosted_containers(pod)) - over
        known = self._boosts.get(pod.uid)
        fresh = containers - (known.containers if known else frozenset())
        if fresh:
            BOOSTS_STARTED.inc(len(fresh))
            since = pod.started_at or pod.created_at or now
            before = frozenset() if known is None else known.containers
            self._boosts[pod.uid] = _Boost(since, before | fresh)

    def _end(self, act: Unboost, now: datetime) -> None:
        uid = act.pod.uid
        self._over[uid] = self._over.get(uid, frozenset()).union(act.containers)
        known = self._boosts.pop(uid, None)
        if known is None:
            return
        ended = known.containers.intersection(act.containers)
        self._count(known.since, len(ended), act.cause.value, now)
        if left := known.containers - ended:
            self._boosts[uid] = _Boost(known.since, left)

    def _forget_others(self, standing: set[str], now: datetime) -> None:
        for uid in self._boosts.keys() - standing:
            gone = self._boosts.pop(uid)
            self._count(gone.since, len(gone.containers), _GONE, now)
        self._over = {uid: names for uid, names in self._over.items() if uid in standing}

    def _count(self, since: datetime, containers: int, cause: str, now: datetime) -> None:
        BOOSTS_ENDED.labels(cause).inc(containers)
        for _ in range(containers):
            BOOST_SECONDS.observe(max((now - since).total_seconds(), 0.0))


def _of_boosted(outcomes: Iterable[Outcome]) -> Iterable[Outcome]:
    return (
        each
        for each in outcomes
        if isinstance(each, Unboost) or (isinstance(each, Hold) and each.reason in _OF_BOOSTED)
        if startup_boost.boosted_containers(each.pod)
    )


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
    """Updates the metrics of requests from plans and acts."""

    def __init__(self) -> None:
        for resource in BOTH:
            for direction in (_FREED, _ADDED):
                CHANGED_REQUESTS.labels(resource.value, _UNITS[resource][0], direction)

    def show(self, outcomes: Iterable[Outcome]) -> None:
        """Show the sums of a plan of everything."""
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


def _compare(container: Container, wanted: TargetResources) -> Iterator[tuple[Resource, int, int]]:
    """Yield each resource of a container with its present and its future request."""
    before = container.current.requests or {}
    found = wanted.get(container.name)
    after = {} if found is None else found.requests or {}
    for resource in BOTH:
        amount = before.get(resource, 0)
        yield resource, amount, after.get(resource, amount)
