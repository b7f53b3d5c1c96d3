"""What tallies come to."""

import numpy as np
import pytest

from trimtab.backtest.fleet import FleetSums
from trimtab.backtest.scores import MEASURES, bootstrap, compare, score

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


def test_measures_are_compared_with_those_of_another_policy() -> None:
    ours, base = _tally(), _tally()
    ours.kills[:], ours.slack[:] = [3, 0], base.slack / 4
    ratios = compare(ours, base, None)

    assert tuple(ratios) == MEASURES
    assert ratios["oom_kills"].value == pytest.approx(0.5)
    assert ratios["memory_slack_gib_hours"].value == pytest.approx(0.25)
    assert ratios["updates"].value == pytest.approx(1.0)
    assert ratios["updates"].interval is None


def test_a_draw_takes_the_same_workloads_under_both_policies() -> None:
    # Each workload is killed half as often, so every draw of workloads is too.
    ours, base = FleetSums(6), FleetSums(6)
    base.minutes[:] = ours.minutes[:] = 43200
    base.kills[:] = [2, 4, 100, 6, 8, 20]
    ours.kills[:] = base.kills // 2
    interval = compare(ours, base, 1)["oom_kills"].interval

    assert interval is not None
    assert (interval.lowest, interval.highest) == (0.5, 0.5)


def test_nothing_compared_with_nothing_is_equal_and_something_is_infinitely_more() -> None:
    ours, base = _tally(), _tally()
    base.kills[:] = 0
    base.episodes[:] = ours.episodes[:] = 0
    ratios = compare(ours, base, 1)

    assert ratios["oom_kills"].value == np.inf
    assert ratios["oom_episodes"].value == 1.0


def test_intervals_of_some_workloads_draw_only_those() -> None:
    kills = bootstrap(_tally(), 1, np.array([0]))["oom_kills"]

    assert (kills.lowest, kills.highest) == (6.0, 6.0)
