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
    good_after: float
    """Hours until requests suited the day that followed: the median, infinite if most never did."""


@dataclass(frozen=True, slots=True)
class Interval:
    """95 % confidence interval of a score, as if other workloads of this kind had been drawn."""

    lowest: float
    highest: float


def score(tally: FleetSums, workloads: Ints | None = None) -> Scores:
    """Return the scores of some workloads together, or of all; one may be counted several times."""
    some = np.arange(tally.workloads) if workloads is None else workloads
    minutes = float(tally.minutes[some].sum())
    requested, slack = tally.requested[:, some].sum(axis=1), tally.slack[:, some].sum(axis=1)
    months, days = minutes / _MONTH, minutes / _DAY
    return Scores(
        cpu_slack=_share(slack[CPU], requested[CPU]),
        cpu_slack_core_hours=_share(slack[CPU] / _CORE_HOUR, days),
        cpu_short_time=_share(tally.short_minutes[some].sum(), minutes),
        cpu_short_area=_share(tally.cpu_missing[some].sum(), tally.cpu_demand[some].sum()),
        memory_slack=_share(slack[MEMORY], requested[MEMORY]),
        memory_slack_gib_hours=_share(slack[MEMORY] / _GIB_HOUR, days),
        oom_episodes=_share(tally.episodes[some].sum(), months),
        oom_kills=_share(tally.kills[some].sum(), months),
        workloads_killed=_share((tally.kills[some] > 0).sum(), len(some)),
        restarts=_share(tally.replacements[some].sum(), months),
        resizes=_share(tally.resizes[some].sum(), months),
        good_after=float(np.median(tally.good_after[some])) if len(some) else np.inf,
    )


def bootstrap(tally: FleetSums, seed: int) -> dict[str, Interval]:
    """Return the confidence interval of each score, by bootstrap over workloads."""
    dice = np.random.default_rng(seed)
    draws = dice.integers(tally.workloads, size=(_DRAWS, tally.workloads))
    drawn = [score(tally, workloads) for workloads in draws]
    names = Scores.__slots__
    return {name: _interval(np.array([getattr(each, name) for each in drawn])) for name in names}


def _interval(values: Floats) -> Interval:
    ordered = np.sort(values)
    lowest, highest = (ordered[round(tail * (len(ordered) - 1))] for tail in _TAILS)
    return Interval(float(lowest), float(highest))


def _share(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else 0.0
