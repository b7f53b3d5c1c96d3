"""What tallies come to."""

import numpy as np
import pytest

from trimtab.backtest.fleet import FleetSums
from trimtab.backtest.scores import bootstrap, score

_GIB = 1024.0**3


def _tally() -> FleetSums:
    """Two workloads over a month: one of no waste, one of much."""
    tally = FleetSums(2)
    tally.minutes[:] = 43200
    tally.requested[:] = [[43200 * 1000.0, 43200 * 3000.0], [43200 * _GIB, 43200 * 3 * _GIB]]
    tally.slack[:] = [[0.0, 43200 * 2000.0], [0.0, 43200 * 2 * _GIB]]
    tally.cpu_demand[:] = 43200 * 1000.0
    tally.cpu_missing[:] = [43200 * 100.0, 0.0]
    tally.short_minutes[:] = [4320, 0]
    tally.kills[:], tally.episodes[:] = [6, 0], [2, 0]
    tally.replacements[:], tally.resizes[:] = [4, 0], [0, 10]
    tally.good_after[:] = [12.0, np.inf]
    return tally


def test_slack_is_a_share_of_all_that_was_requested() -> None:
    scores = score(_tally())

    assert scores.cpu_slack == pytest.approx(0.5)
    assert scores.memory_slack == pytest.approx(0.5)
    assert scores.cpu_slack_core_hours == pytest.approx(24.0)
    assert scores.memory_slack_gib_hours == pytest.approx(24.0)


def test_harm_is_counted_for_one_workload_and_month() -> None:
    scores = score(_tally())

    assert (scores.oom_kills, scores.oom_episodes) == (3.0, 1.0)
    assert (scores.restarts, scores.resizes) == (2.0, 5.0)
    assert scores.workloads_killed == 0.5
    assert scores.cpu_short_time == pytest.approx(0.05)
    assert scores.cpu_short_area == pytest.approx(0.05)


def test_one_workload_can_be_scored_alone() -> None:
    alone = score(_tally(), np.array([0]))

    assert (alone.cpu_slack, alone.oom_kills, alone.good_after) == (0.0, 6.0, 12.0)


def test_nobody_scores_nothing_rather_than_failing() -> None:
    nobody = score(FleetSums(0))

    assert (nobody.cpu_slack, nobody.oom_kills, nobody.good_after) == (0.0, 0.0, np.inf)


def test_drawing_other_workloads_tells_how_sure_a_score_is() -> None:
    intervals = bootstrap(_tally(), 1)

    assert (intervals["oom_kills"].lowest, intervals["oom_kills"].highest) == (0.0, 6.0)
    assert intervals["cpu_slack"].lowest <= 0.5 <= intervals["cpu_slack"].highest
