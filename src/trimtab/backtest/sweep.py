"""The sweep: the cost and the risk of different settings of the recommender.

More spare memory means fewer OOM kills. The cheapest setting that kills rarely enough differs
between clusters, and can be found in a cluster's own past.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from typing import Final

from trimtab.backtest.autoscaler_policy import AutoscalerSettings
from trimtab.backtest.contenders import AutoscalerContender
from trimtab.backtest.scores import Scores
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.recommendation import ResourceSettings

GIB_PER_CORE: Final = 8.0
"""Memory that costs as much as one core, according to the price lists of clouds."""
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Setting:
    """Recommender settings that the sweep varies."""

    percentile: float
    """Target percentile of both resources; the upper bound's percentile is at least as high."""
    margin: float
    half_life: timedelta
    """Half-life of both resources' histories."""

    def __str__(self) -> str:
        hours = self.half_life / _HOUR
        return f"p{100 * self.percentile:g} +{100 * self.margin:g}% {hours:g}h"


@dataclass(frozen=True, slots=True)
class Grid:
    """The settings that are tried, in all combinations."""

    percentiles: tuple[float, ...] = (0.9, 0.95, 0.99)
    margins: tuple[float, ...] = (0.05, 0.15, 0.3)
    half_lives: tuple[timedelta, ...] = (12 * _HOUR, 24 * _HOUR, 72 * _HOUR)

    def __iter__(self) -> Iterator[Setting]:
        for each in product(self.percentiles, self.margins, self.half_lives):
            yield Setting(*each)


@dataclass(frozen=True, slots=True)
class Point:
    """Scores of a setting."""

    setting: Setting
    scores: Scores

    @property
    def risk(self) -> float:
        """OOM episodes of one workload in a month."""
        return self.scores.oom_episodes

    @property
    def cost(self) -> float:
        """Slack of one workload in a day, with memory converted, all in core-hours."""
        scores = self.scores
        return scores.cpu_slack_core_hours + scores.memory_slack_gib_hours / GIB_PER_CORE


def governed(setting: Setting, autoscaler: Autoscaler) -> AutoscalerContender:
    """Return an autoscaler under a recommender with this setting."""
    plain = AutoscalerSettings()
    usage = replace(
        plain.usage, cpu_half_life=setting.half_life, memory_half_life=setting.half_life
    )
    recommendations = replace(
        plain.recommendations,
        cpu=_aim(plain.recommendations.cpu, setting.percentile),
        memory=_aim(plain.recommendations.memory, setting.percentile),
        margin_fraction=setting.margin,
    )
    settings = replace(plain, usage=usage, recommendations=recommendations)
    return AutoscalerContender(str(setting), autoscaler, settings)


def frontier(points: Sequence[Point]) -> list[Point]:
    """Return the points for which no other is both cheaper and safer, the safest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda each: (each.risk, each.cost)):
        if not best or point.cost < best[-1].cost:
            best.append(point)
    return best


def cheapest(points: Sequence[Point], most_risk: float) -> Point | None:
    """Return the cheapest point within the risk; None if all are riskier."""
    safe = [point for point in points if point.risk <= most_risk]
    return min(safe, key=lambda each: (each.cost, each.risk), default=None)


def _aim(settings: ResourceSettings, percentile: float) -> ResourceSettings:
    upper = max(settings.upper_percentile, percentile)
    return replace(settings, target_percentile=percentile, upper_percentile=upper)
