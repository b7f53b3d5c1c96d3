"""Settings against each other: which are worth a thought, and which is cheapest."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.backtest.contenders import TEMPLATE, AutoscalerContender
from trimtab.backtest.demand import MEMORY, gather
from trimtab.backtest.fleet import FleetSums
from trimtab.backtest.runs import Run, play
from trimtab.backtest.scenarios import SCENARIOS
from trimtab.backtest.scores import score
from trimtab.backtest.sweep import Grid, Point, Setting, cheapest, frontier, governed
from trimtab.simulation.load.traces import Recording
from trimtab.simulation.world.loads import Trace
from trimtab.simulation.world.virtual_time import START

_DAY = timedelta(days=1)
_SETTING = Setting(0.9, 0.15, _DAY)
_NOTHING = score(FleetSums(0))


def _point(cost: float, risk: float) -> Point:
    scores = replace(_NOTHING, cpu_slack_core_hours=cost, oom_episodes=risk)
    return Point(_SETTING, scores)


_POINTS = st.lists(st.builds(_point, st.integers(0, 9), st.integers(0, 9)), max_size=12)


@given(_POINTS)
def test_nothing_on_the_frontier_is_beaten_and_everything_else_is(points: list[Point]) -> None:
    best = frontier(points)

    for point in points:
        beaten = any(
            other.cost <= point.cost
            and other.risk <= point.risk
            and (other.cost, other.risk) != (point.cost, point.risk)
            for other in points
        )
        assert beaten == ((point.cost, point.risk) not in [(each.cost, each.risk) for each in best])


@given(_POINTS, st.integers(0, 9))
def test_the_cheapest_within_a_risk_lies_on_the_frontier(points: list[Point], most: int) -> None:
    found = cheapest(points, most)

    if found is None:
        assert all(point.risk > most for point in points)
    else:
        assert found.risk <= most
        assert found.cost == min(point.cost for point in frontier(points) if point.risk <= most)


def test_a_gib_is_an_eighth_of_a_core() -> None:
    scores = replace(_NOTHING, cpu_slack_core_hours=2.0, memory_slack_gib_hours=16.0)

    assert Point(_SETTING, scores).cost == pytest.approx(4.0)


def test_a_grid_is_all_combinations_and_each_has_a_name() -> None:
    grid = Grid((0.9, 0.95), (0.0, 0.15), (_DAY, 3 * _DAY))

    names = [str(setting) for setting in grid]
    assert len(set(names)) == 8
    assert names[:2] == ["p90 +0% 24h", "p90 +0% 72h"]


def test_the_usual_setting_is_what_an_autoscaler_does_anyway() -> None:
    assert governed(_SETTING, TEMPLATE).settings == AutoscalerContender("trimtab").settings


def test_a_higher_percentile_and_a_higher_margin_request_more() -> None:
    values = np.random.default_rng(5).integers(200, 900, 3 * 288)
    trace = Trace(tuple(values * 1.0), tuple(values * 1024.0**2))
    demand = gather([Recording("web", START, trace)])
    scenario = SCENARIOS["over-loose"]
    requested = [
        play(Run(governed(setting, TEMPLATE), scenario), demand).tally.requested[:, 0]
        for setting in (Setting(0.5, 0.0, _DAY), _SETTING, Setting(0.99, 0.5, _DAY))
    ]

    cpu, memory = zip(*(each.tolist() for each in requested), strict=True)
    assert list(cpu) == sorted(set(cpu))
    assert memory[MEMORY] < memory[2]
