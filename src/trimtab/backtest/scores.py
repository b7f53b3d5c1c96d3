"""Scores: a replay's sums as rates and shares, for one workload or many, with confidence."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY
from trimtab.backtest.fleet import FleetSums
from trimtab.core.histogram.buckets import Floats, Ints

_DAY: Final = 1440.0
_MONTH: Final = 30 * _DAY
_CORE_HOUR: Final = 60.0 * 1000.0
_GIB_HOUR: Final = 60.0 * 1024**3
_DRAWS: Final = 400
_TAILS: Final = (0.025, 0.975)


@dataclass(frozen=True, slots=True)
class Scores:
    """Cost and harm of a policy; rates are for one workload."""

    cpu_slack: float
    """The share of the requested CPU that was not needed."""
    cpu_slack_core_hours: float
    """By workload and day."""
    cpu_short_time: float
    """The share of time in which more CPU was needed than requested."""
    cpu_short_area: float
    """The share of the needed CPU that was not requested."""
    memory_slack: float
    memory_slack_gib_hours: float
    """By workload and day."""
    oom_episodes: float
    """Per month."""
    oom_kills: float
    """Per month."""
    workloads_killed: float
    """The share of workloads that had any OOM kill."""
    restarts: float
    """Pods replaced in a month."""
    resizes: float
    """Pods resized in place in a month."""
    updates: float
    """Restarts and resizes together."""
    good_after: float
    """Hours until requests suited the day that followed: the median, infinite if most never did."""


@dataclass(frozen=True, slots=True)
class Interval:
    """95 % confidence interval of a score, as if other workloads of this kind had been drawn."""

    lowest: float
    highest: float


MEASURES: Final = (
    "cpu_slack",
    "cpu_slack_core_hours",
    "cpu_short_time",
    "cpu_short_area",
    "memory_slack",
    "memory_slack_gib_hours",
    "oom_episodes",
    "oom_kills",
    "updates",
)
"""The scores by which policies are compared; less is better."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A measure of one policy relative to that of another; infinite if only the other has none."""

    value: float
    interval: Interval | None
    """None if there are too few workloads."""


def score(tally: FleetSums, workloads: Ints | None = None) -> Scores:
    """Return the scores of some workloads together, or of all; one may be counted several times."""
    some = np.arange(tally.workloads) if workloads is None else workloads
    return Scores(**{name: float(found[0]) for name, found in _rates(tally, some[None]).items()})


def bootstrap(tally: FleetSums, seed: int, workloads: Ints | None = None) -> dict[str, Interval]:
    """Return the confidence interval of each score, by bootstrap over workloads."""
    drawn = _rates(tally, _draw(tally, seed, workloads))
    return {name: _interval(values) for name, values in drawn.items()}


def compare(
    tally: FleetSums, base: FleetSums, seed: int | None, workloads: Ints | None = None
) -> dict[str, Ratio]:
    """Return the ratio of each measure to that of a base policy, with intervals if seeded.

    The bootstrap is paired: each draw takes the same workloads under both policies.
    """
    ours, theirs = score(tally, workloads), score(base, workloads)
    values = {
        name: float(_divide(np.array(getattr(ours, name)), np.array(getattr(theirs, name))))
        for name in MEASURES
    }
    if seed is None:
        return {name: Ratio(value, None) for name, value in values.items()}
    draws = _draw(tally, seed, workloads)
    drawn, drawn_base = _rates(tally, draws), _rates(base, draws)
    return {
        name: Ratio(value, _interval(_divide(drawn[name], drawn_base[name])))
        for name, value in values.items()
    }


def _draw(tally: FleetSums, seed: int, workloads: Ints | None) -> Ints:
    """Return workloads by draw, as many in each as there are: int64[draws, workloads]."""
    some = np.arange(tally.workloads) if workloads is None else workloads
    dice = np.random.default_rng(seed)
    return some[dice.integers(len(some), size=(_DRAWS, len(some)))]


def _rates(tally: FleetSums, draws: Ints) -> dict[str, Floats]:
    """Return each score of each draw of workloads, float64[draws]."""

    def total(values: Floats | Ints) -> Floats:
        return np.asarray(values.take(draws).sum(axis=1), np.float64)

    minutes = total(tally.minutes)
    months, days = minutes / _MONTH, minutes / _DAY
    requested, slack = ([total(each) for each in sums] for sums in (tally.requested, tally.slack))
    restarts, resizes = total(tally.replacements), total(tally.resizes)
    count = np.full(len(draws), float(draws.shape[1]))
    good_after = tally.good_after.take(draws)
    return {
        "cpu_slack": _share(slack[CPU], requested[CPU]),
        "cpu_slack_core_hours": _share(slack[CPU] / _CORE_HOUR, days),
        "cpu_short_time": _share(total(tally.short_minutes), minutes),
        "cpu_short_area": _share(total(tally.cpu_missing), total(tally.cpu_demand)),
        "memory_slack": _share(slack[MEMORY], requested[MEMORY]),
        "memory_slack_gib_hours": _share(slack[MEMORY] / _GIB_HOUR, days),
        "oom_episodes": _share(total(tally.episodes), months),
        "oom_kills": _share(total(tally.kills), months),
        "workloads_killed": _share(total((tally.kills > 0).astype(np.int64)), count),
        "restarts": _share(restarts, months),
        "resizes": _share(resizes, months),
        "updates": _share(restarts + resizes, months),
        "good_after": np.median(good_after, axis=1) if draws.shape[1] else np.inf + count,
    }


def _interval(values: Floats) -> Interval:
    ordered = np.sort(values)
    lowest, highest = (ordered[round(tail * (len(ordered) - 1))] for tail in _TAILS)
    return Interval(float(lowest), float(highest))


def _share(parts: Floats, wholes: Floats) -> Floats:
    """Divide; nothing of nothing is nothing."""
    return np.divide(parts, wholes, out=np.zeros_like(parts), where=wholes != 0)


def _divide(ours: Floats, theirs: Floats) -> Floats:
    """Return ratios; 1 where both are zero."""
    most = np.where(ours == 0, 1.0, np.inf)
    return np.divide(ours, theirs, out=most, where=theirs != 0)
