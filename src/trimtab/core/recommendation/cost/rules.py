"""Rules of the cost-based estimator: arithmetic on arrays, without state.

Memory. A level that was needed once is held until holding it has cost as much as an OOM kill is
worth: (what is held - what would do) times the hours since it was last needed.
CPU. The level that would have cost least in a histogram: idle CPU costs 1, missing CPU more, and
every moment short as much as a certain amount of idle CPU.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import CORE, CPU_BUCKETS, Floats
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.histogram.window_storage import WindowCopies
from trimtab.core.model.estimation import CostSettings
from trimtab.core.recommendation.cost.levels import LevelWindows

_GIB: Final = 1024.0**3
GIB_HOUR: Final = _GIB * 3600.0
"""One GiB-hour in byte-seconds."""
# A sample is somewhere in its bucket: its middle stands for usage, its end for a request.
_CPU_MIDDLES: Final = (CPU_BUCKETS.starts + CPU_BUCKETS.ends) / 2 * CORE
_CPU_ENDS: Final = CPU_BUCKETS.ends * CORE


def need(peaks: Floats, settings: CostSettings) -> Floats:
    """Return the requests that are enough for peaks of memory."""
    # A part and a fixed amount: small processes grow by more than a share of themselves.
    margin = peaks * (1 + settings.memory_margin_fraction) + settings.memory_margin_bytes
    return np.maximum(margin, settings.least_memory_bytes)


@dataclass(frozen=True, slots=True)
class Holding:
    """The conditions under which levels of memory are held, by row."""

    held: Floats
    """Targets in bytes."""
    now: Floats
    """The time of the newest sample of each row, in seconds."""
    price: Floats
    """The price of an OOM kill in byte-seconds."""
    is_tried: Booleans
    """True where an OOM kill raised the target further than any need that was seen."""


def price(base: Floats, held: Floats, settings: CostSettings) -> Floats:
    """Return the prices of an OOM kill for containers with these targets, in byte-seconds."""
    # A kill costs more where more memory is in use: its caches are to be filled again. One price
    # for all sizes would leave large containers less time than any daily peak needs.
    sized: Floats = base * (held / _GIB) ** settings.price_exponent
    return sized


@dataclass(frozen=True, slots=True)
class HoldingCosts:
    """The cost of holding more than each level, float64[slots, rows], and what follows from it."""

    needs: Floats
    """The request that each level needs."""
    unneeded_since: Floats
    """Time since which no usage was above the level; 0 if it never was."""
    costs: Floats
    """Byte-seconds that were held above the level since then."""
    top: Floats
    """The need of the highest remembered level, by row; NaN without levels."""
    last_seen: Floats
    """Time of the last usage in that level, by row; 0 without levels."""
    lowered: Floats
    """The target that the rules allow now, by row: `held` where nothing may be lowered."""


def holding_costs(windows: LevelWindows, held: Holding, settings: CostSettings) -> HoldingCosts:
    """Return what it has cost to hold more than each level, and the target that follows.

    `held` has one element for each row of the windows.
    """
    # Shapes: fresh, above, seen, needs, latest, since, costs and may are [slots, rows], with the
    # lowest bucket in slot 0; top, start, best, chosen and everything of `held` are [rows].
    fresh = windows.is_known & (held.now - windows.seen <= settings.remembered.total_seconds())
    # Levels above the highest fresh one are forgotten. Those below it stay.
    # True from the lowest slot up to the highest fresh one: 1010, lowest first, gives 1110.
    above = np.maximum.accumulate(fresh[::-1], axis=0)[::-1]
    seen = np.where(above, windows.seen, 0.0)
    needs = need(np.where(windows.peaks > 0, windows.peaks, windows.ends), settings)
    # The running maximum from the top: when usage was last in this slot or in any above it.
    latest = np.maximum.accumulate(seen[::-1], axis=0)[::-1]
    # Usage above a level: in the next higher slot or any beyond.
    since = np.zeros_like(latest)
    # The highest slot keeps 0: no usage was ever above it, so no waiting time can be known.
    since[:-1] = latest[1:]
    tops = np.where(fresh, needs, -np.inf)
    # `argmax` finds the first True, and in reversed order that is the highest one.
    highest = len(seen) - 1 - np.argmax(fresh[::-1], axis=0)
    top = np.take_along_axis(tops, highest[np.newaxis], axis=0)[0]
    is_any = fresh.any(axis=0)
    top = np.where(is_any, top, np.nan)
    last_seen = np.take_along_axis(seen, highest[np.newaxis], axis=0)[0]
    # What an OOM kill raised on trial is given back in smaller steps than what was once needed.
    least_step = np.where(held.is_tried, settings.tried_lower_fraction, settings.lower_fraction)
    # What is held above every remembered need buys nothing: count from the top level.
    start = np.where(top < held.held * (1 - least_step), top, held.held)
    ages = held.now - since
    # Byte-seconds: 1 GiB too much for 32 hours is 32 GiB-hours, the default price of a kill.
    costs = (start - needs) * ages
    # `least_age` is longer than a day: a level that is needed once a day is never given up.
    may = (since > 0) & above & (ages >= settings.least_age.total_seconds())
    may &= (needs <= held.held * (1 - settings.lower_fraction)) & (costs >= held.price)
    costs = np.where(since > 0, costs, 0.0)
    # Of equal scores the highest level wins, which is the safest one: hence the reversed order.
    scores = np.where(may, costs, -np.inf)[::-1]
    best = len(seen) - 1 - np.argmax(scores, axis=0)
    chosen = np.take_along_axis(needs, best[np.newaxis], axis=0)[0]
    # Without a level that has paid its price, only what was never needed is dropped.
    lowered = np.where(may.any(axis=0), chosen, start)
    lowered = np.where(is_any, lowered, held.held)
    return HoldingCosts(needs, since, costs, top, last_seen, lowered)


@dataclass(frozen=True, slots=True)
class CpuCosts:
    """Costs of the levels of CPU, float64[slots, rows]; per sample, in millicores."""

    levels: Floats
    """The end of each bucket."""
    idle: Floats
    missing: Floats
    """CPU that was used above the level."""
    short: Floats
    """The part of time spent above the level."""
    costs: Floats
    """Infinite for buckets without weight."""


def cpu_costs(windows: WindowCopies, settings: CostSettings) -> CpuCosts:
    """Return what each level of CPU would have cost over the history in a histogram."""
    middles, levels = _CPU_MIDDLES.take(windows.buckets), _CPU_ENDS.take(windows.buckets)
    weights = windows.weights
    # By slot: the weight at or below a level, and the CPU that was used there.
    below, used = np.cumsum(weights, axis=0), np.cumsum(weights * middles, axis=0)
    total, total_used = below[-1], used[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        # Over samples at or below the level: what was requested and not used.
        idle = (levels * below - used) / total
        # Over samples above the level: what was used and not requested.
        missing = (total_used - used - levels * (total - below)) / total
        short = (total - below) / total
        # A fixed part for small containers, and a share of the mean for large ones.
        price = settings.short_millicores + settings.short_mean_factor * total_used / total
        # Only occupied buckets are candidates. Between two of them the cost grows with the level.
        costs = idle + settings.missing_price * missing + price * short
    return CpuCosts(levels, idle, missing, short, np.where(weights > 0, costs, np.inf))


def cheapest_cpu(windows: WindowCopies, settings: CostSettings) -> Floats:
    """Return the CPU request of each row that would have cost least, with its margin."""
    found = cpu_costs(windows, settings)
    best = np.argmin(found.costs, axis=0)[np.newaxis]
    cheapest = np.take_along_axis(found.levels, best, axis=0)[0]
    margin = 1 + settings.cpu_margin_fraction
    wanted: Floats = np.maximum(cheapest * margin, settings.least_cpu_millicores)
    return wanted


def raise_fraction(ratios: Floats, settings: CostSettings) -> Floats:
    """Return by what part a need must exceed a target, given limits relative to requests."""
    # A limit above the request absorbs some growth without a kill, so the target may wait longer:
    # at a ratio of 1 not at all, at 2 and more by the whole looseness.
    looseness: Floats = np.clip(ratios, 1.0, 2.0) - 1.0
    return settings.raise_fraction + settings.loose_raise_fraction * looseness
