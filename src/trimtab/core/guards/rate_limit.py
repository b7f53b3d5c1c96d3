"""Rate limit of changes: a token bucket that fills slowly just after a start.

A change takes one token, `per_second` of them come back, and at most `burst` are kept. Just after a
start little is known and much may want to change at once, so both begin small (D14).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.model import validation

_FIRST_SHARE: Final = 0.1
"""Share of the full pace that is allowed at a start."""


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """Rate limit of one kind of changes, over the whole cluster (D14)."""

    per_second: float = 1.0
    """`--eviction-rate-limit`; zero or less for no limit at all."""
    burst: int = 10
    """`--eviction-rate-burst`."""
    slow_start: timedelta = timedelta(minutes=10)
    """Time after a start in which the pace grows to the full one."""

    def __post_init__(self) -> None:
        """Refuse a burst below one, and a negative slow start."""
        validation.require_at_least("burst", self.burst, 1)
        validation.require_at_least("slow_start", self.slow_start.total_seconds(), 0)

    @property
    def is_limited(self) -> bool:
        """True if there is any limit."""
        return self.per_second > 0


@dataclass(frozen=True, slots=True)
class Pace:
    """The tokens that are left, and when they were counted."""

    started_at: datetime
    counted_at: datetime
    # Not a whole burst: an updater that crashes in a loop would get one at each start.
    tokens: float = 1.0


def begin_pace(now: datetime) -> Pace:
    """Return the pace at a start: one change may be made at once."""
    return Pace(now, now)


def refill(pace: Pace, settings: PaceSettings, now: datetime) -> Pace:
    """Return the pace with the tokens that have come back meanwhile."""
    # A clock that was set back gives nothing, and takes nothing.
    passed = max(0.0, (now - pace.counted_at).total_seconds())
    share = _share(pace, settings, now)
    # The share of now, also for the time before: at most a tick ago it was nearly the same.
    tokens = pace.tokens + passed * settings.per_second * share
    return replace(pace, counted_at=now, tokens=min(tokens, max(1.0, settings.burst * share)))


def time_to_token(pace: Pace, settings: PaceSettings) -> timedelta:
    """Return the time from the last count until there is a whole token."""
    missing = 1.0 - pace.tokens
    if missing <= 0:
        return timedelta()
    rate = settings.per_second * _share(pace, settings, pace.counted_at)
    # Rounded up: a microsecond too early, the caller would find no whole token.
    return timedelta(seconds=missing / rate) + timedelta(microseconds=1)


def spend(pace: Pace) -> Pace:
    """Return the pace with one token less."""
    return replace(pace, tokens=pace.tokens - 1.0)


def _share(pace: Pace, settings: PaceSettings, now: datetime) -> float:
    """Return the share of the full pace that is allowed at `now`."""
    if not settings.slow_start:
        return 1.0
    return min(1.0, max((now - pace.started_at) / settings.slow_start, _FIRST_SHARE))


USUAL_HALF_LIFE: Final = timedelta(hours=3)
"""Half-life of the usual share of pods that want a change.

A surge that lasts becomes usual after some hours: by then an operator has seen or intended it.
"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The pods of a namespace under active autoscalers, and those that want a change."""

    wanting: int
    counted: int

    @property
    def share(self) -> float:
        """Share of the pods that want a change."""
        return self.wanting / max(self.counted, 1)


def remember_share(usual: float | None, share: float, *, passed: timedelta) -> float:
    """Return the usual share after a new share was seen, `passed` after the one before."""
    if usual is None:
        return share
    # An exponential average over time, not over ticks, whose length may change.
    weight = math.exp2(-max(passed, timedelta()) / USUAL_HALF_LIFE)
    return weight * usual + (1.0 - weight) * share


def find_surging(
    wishes: Mapping[str, Wishes], usual: Mapping[str, float], *, margin: float, min_pods: int
) -> frozenset[str]:
    """Return the namespaces in which far more pods than usual want a change.

    A namespace without a usual share yet is in no surge.
    """
    known = {name: found for name, found in wishes.items() if name in usual}
    large = {name for name, found in known.items() if found.counted >= min_pods}
    surging = {name for name in large if known[name].share - usual[name] > margin}
    small = {name: found for name, found in known.items() if name not in large}
    if _is_surge(small, usual, margin=margin, min_pods=min_pods):
        surging |= small.keys()
    return frozenset(surging)


def _is_surge(
    small: Mapping[str, Wishes], usual: Mapping[str, float], *, margin: float, min_pods: int
) -> bool:
    """Judge namespaces with few pods together, without the one with the largest excess."""
    excess = {name: each.wanting - usual[name] * each.counted for name, each in small.items()}
    # Without it one namespace of a single pod would decide about all the others.
    boldest = max(excess, key=lambda name: (excess[name], name), default=None)
    others = [name for name in small if name != boldest]
    counted = sum(small[name].counted for name in others)
    unusual = sum(excess[name] for name in others)
    return counted >= max(min_pods, 1) and unusual > margin * counted
