"""Demand that is replayed under policies, from constant loads to random ones."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.backtest.contenders import (
    BUILT_IN,
    TEMPLATE,
    AutoscalerContender,
    Contender,
    Today,
    make_policy,
)
from trimtab.backtest.demand import CPU, MEMORY, Demand, DemandError, gather
from trimtab.backtest.fleet import Fleet, FleetSums
from trimtab.backtest.policies import Static
from trimtab.backtest.replay import Replay
from trimtab.backtest.runs import Run, WorkerPool, play, run_all
from trimtab.backtest.scenarios import SCENARIOS, Scenario, first_requests, limits_of
from trimtab.core.model.autoscalers import Autoscaler, ContainerPolicy, UpdateMode
from trimtab.core.model.estimation import ESTIMATOR_ANNOTATION, Estimator
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import Resource
from trimtab.simulation.load.traces import Recording
from trimtab.simulation.world.loads import Trace

_MIB = 1024.0 * 1024.0
_DAY = 288
_START = datetime(2026, 3, 2, tzinfo=UTC)
_STRICT = SCENARIOS["over-strict"]


def _recording(name: str, cpu: list[float], memory: list[float]) -> Recording:
    return Recording(name, _START, Trace(tuple(cpu), tuple(memory)))


def _constant(days: float, *, cpu: float = 1000.0, memory: float = 1000 * _MIB) -> Demand:
    steps = int(days * _DAY)
    return gather([_recording("steady", [cpu] * steps, [memory] * steps)])


def _play(contender: Contender, demand: Demand, scenario: Scenario = _STRICT) -> FleetSums:
    return play(Run(contender, scenario), demand).tally


def _governed(mode: UpdateMode, *policies: ContainerPolicy) -> AutoscalerContender:
    return AutoscalerContender("test", Autoscaler("", "", mode=mode, policies=policies))


def test_who_changes_nothing_wastes_what_is_not_needed() -> None:
    tally = _play(Today(), _constant(1))

    assert tally.minutes.tolist() == [1440]
    assert tally.slack[:, 0] == pytest.approx([1440 * 1000.0, 1440 * 1000 * _MIB])
    assert tally.requested[:, 0] == pytest.approx(2 * tally.slack[:, 0])
    assert (tally.kills[0], tally.short_minutes[0]) == (0, 0)


def test_as_it_is_begins_with_what_is_requested_today() -> None:
    size = Allocation(
        {Resource.CPU: 1500, Resource.MEMORY: int(1200 * _MIB)}, {Resource.MEMORY: int(1300 * _MIB)}
    )
    known = replace(_recording("known", [1000.0] * _DAY, [1000 * _MIB] * _DAY), size=size)
    bare = replace(known, workload="bare", size=Allocation())
    unknown = replace(known, workload="unknown", size=None)
    demand = gather([known, bare, unknown])
    tally = _play(Today(), demand, SCENARIOS["as-is"])
    limits = limits_of(first_requests(demand, SCENARIOS["as-is"]), demand, SCENARIOS["as-is"])

    assert (tally.requested / 1440)[CPU].tolist() == [1500, 10, 2000]
    assert (tally.requested / 1440)[MEMORY].tolist() == [1200 * _MIB, 32 * _MIB, 2000 * _MIB]
    assert limits[CPU].tolist() == [np.inf] * 3
    assert limits[MEMORY].tolist() == [1300 * _MIB, np.inf, 2000 * _MIB]


def test_who_requests_too_little_misses_cpu_and_is_killed_every_five_minutes() -> None:
    tally = _play(Today(), _constant(1), SCENARIOS["under-strict"])

    assert tally.short_minutes.tolist() == [1440]
    assert tally.cpu_missing[0] == pytest.approx(tally.cpu_demand[0] / 2)
    assert tally.kills[0] == pytest.approx(1440 / 5, abs=5)
    assert tally.episodes.tolist() == [1]


def test_the_original_brings_an_idle_workload_to_its_target_after_half_a_day() -> None:
    demand = _constant(3, cpu=500.0, memory=1e9)
    tally = _play(BUILT_IN["original"], demand)

    # The original's own answer to this history is 587m and 1168723596 bytes (its vector V2).
    assert tally.replacements.tolist() == [1]
    slack = tally.slack[:, 0] - [720 * 500.0, 720 * 1e9]
    assert slack / (tally.minutes[0] - 720) == pytest.approx([87.0, 168723596.0])


def test_whoever_is_killed_at_the_start_grows_until_it_is_not() -> None:
    tally = _play(BUILT_IN["trimtab"], _constant(1), SCENARIOS["under-strict"])

    assert 0 < tally.kills[0] < 10
    assert tally.episodes.tolist() == [1]
    assert tally.short_minutes[0] < 60


def test_every_estimator_of_the_recommender_is_a_policy_by_its_name() -> None:
    by_flag = {each: BUILT_IN[each.value] for each in Estimator}

    assert {
        each: contender.settings.recommendations.estimator
        for each, contender in by_flag.items()
        if isinstance(contender, AutoscalerContender)
    } == {each: each for each in Estimator}
    assert replace(by_flag[Estimator.PERCENTILE], name="trimtab") == BUILT_IN["trimtab"]


def test_cost_doubles_the_limit_after_an_oom_kill() -> None:
    limit = 2000 * _MIB
    memory = [1000 * _MIB] * 24 + [1.2 * limit] * 12
    demand = gather([_recording("grows", [500.0] * 36, memory)])
    fleet = Fleet(np.array([[1000.0], [limit]]), np.array([[np.inf], [limit]]))
    policy = make_policy(BUILT_IN["cost"], demand, fleet)
    tally = Replay(demand, fleet, policy, FleetSums(1)).run()

    assert tally.kills.tolist() == [1]
    assert fleet.limits[MEMORY, 0] == pytest.approx(2 * limit, rel=1e-6)


def test_cost_gives_up_a_large_peak_before_percentile_forgets_it() -> None:
    peak = [3000.0 * _MIB] * 12 + [300.0 * _MIB] * (_DAY - 12)
    quiet = [300.0 * _MIB] * _DAY
    memory = peak + 6 * quiet
    demand = gather([_recording("weekly", [100.0] * len(memory), memory)])
    low = {
        name: _play(BUILT_IN[name], demand).requested[MEMORY, 0] for name in ("percentile", "cost")
    }

    # An OOM kill at 3.4 GiB is worth 107 GiB-hours, which 3 GiB unused cost in 36 hours.
    assert low["cost"] < low["percentile"]


def test_the_annotation_of_an_autoscaler_chooses_the_estimator_of_its_policy() -> None:
    annotated = replace(TEMPLATE, annotations={ESTIMATOR_ANNOTATION: "cost"})
    memory = [1000.0 * _MIB] * _DAY + [1900.0 * _MIB] * _DAY + [200.0 * _MIB] * 3 * _DAY
    demand = gather([_recording("steps", [500.0] * len(memory), memory)])
    by_annotation = _play(AutoscalerContender("mine", annotated), demand)
    by_flag = _play(BUILT_IN["cost"], demand)

    assert by_annotation.slack.tolist() == by_flag.slack.tolist()
    assert by_annotation.slack.tolist() != _play(BUILT_IN["percentile"], demand).slack.tolist()


def test_a_kill_of_more_than_a_week_ago_keeps_no_request_up() -> None:
    slack = {}
    for days in (7, 9, 12):
        memory = (2000 * _MIB, *(200 * _MIB for _ in range(24 * days)))
        trace = Trace((100.0,) * len(memory), memory, timedelta(hours=1))
        demand = gather([Recording("spike", _START, trace)])
        tally = _play(BUILT_IN["trimtab"], demand, SCENARIOS["under-strict"])
        slack[days] = tally.slack[MEMORY, 0]

    assert slack[7] / (7 * 1440) > 1500 * _MIB
    assert (slack[12] - slack[9]) / (3 * 1440) < 100 * _MIB


@pytest.mark.parametrize("mode", [UpdateMode.OFF, UpdateMode.INITIAL])
def test_a_mode_that_touches_no_running_pod_is_as_good_as_none(mode: UpdateMode) -> None:
    tally, today = _play(_governed(mode), _constant(1)), _play(Today(), _constant(1))

    assert (tally.replacements[0], tally.resizes[0]) == (0, 0)
    assert tally.slack.tolist() == today.slack.tolist()


def test_upscale_only_shrinks_nothing() -> None:
    tally = _play(_governed(UpdateMode.UPSCALE_ONLY), _constant(2))

    assert (tally.replacements[0], tally.resizes[0]) == (0, 0)


def test_a_mode_that_resizes_replaces_nobody() -> None:
    tally = _play(_governed(UpdateMode.IN_PLACE_OR_RECREATE), _constant(1))

    assert tally.replacements.tolist() == [0]
    assert tally.resizes[0] >= 1


def test_the_policy_of_a_container_caps_what_it_gets() -> None:
    capped = ContainerPolicy("*", min_allowed={Resource.CPU: 1500})
    tally = _play(_governed(UpdateMode.RECREATE, capped), _constant(2))

    after = tally.requested[CPU, 0] - 720 * 2000.0
    assert after == pytest.approx(1500.0 * (2880 - 720))


def test_who_knows_the_next_day_requests_its_largest_need() -> None:
    first, second = [100.0] * _DAY, [300.0] * _DAY
    demand = gather([_recording("grows", first + second, [each * _MIB for each in first + second])])
    tally = _play(BUILT_IN["clairvoyant-daily"], demand)

    assert tally.slack.tolist() == [[0.0], [0.0]]
    assert (tally.kills[0], tally.replacements[0]) == (0, 1)


def test_recordings_of_different_resolution_are_refused() -> None:
    fine = Recording("fine", _START, Trace((1.0,), (1.0,), timedelta(minutes=1)))

    with pytest.raises(DemandError, match="resolution"):
        gather([_recording("coarse", [1.0], [1.0]), fine])


_LOADS = st.lists(
    st.tuples(st.floats(1, 3000), st.floats(_MIB, 3000 * _MIB)), min_size=20, max_size=60
)


@given(st.lists(_LOADS, min_size=1, max_size=4), st.sampled_from(sorted(SCENARIOS)))
@settings(max_examples=25, deadline=None)
def test_steps_and_minutes_come_to_the_same_where_nothing_is_changed(
    loads: list[list[tuple[float, float]]], scenario: str
) -> None:
    demand = gather(
        [
            _recording(str(number), [cpu for cpu, _ in load], [memory for _, memory in load])
            for number, load in enumerate(loads)
        ]
    )
    coarse, fine = (_replay_static(demand, is_fine=is_fine) for is_fine in (False, True))

    assert coarse.kills.tolist() == fine.kills.tolist(), scenario
    assert coarse.slack == pytest.approx(fine.slack)


def _replay_static(demand: Demand, *, is_fine: bool) -> FleetSums:
    requests = np.array([[1000.0] * len(demand), [1000 * _MIB] * len(demand)])
    fleet = Fleet(requests, np.stack([requests[CPU], requests[MEMORY]]))
    return Replay(demand, fleet, Static(), FleetSums(len(demand)), is_fine=is_fine).run()


def test_the_original_changes_in_the_same_minute_in_steps_as_in_minutes() -> None:
    # Idle at zero bytes for most of the time, so that a memory window often begins with nothing.
    dice = np.random.default_rng(3)
    recordings = [
        _recording(
            str(number),
            dice.lognormal(5, 2, 2 * _DAY).tolist(),
            (dice.lognormal(5, 1.5, 2 * _DAY) * _MIB * (dice.random(2 * _DAY) < 0.4)).tolist(),
        )
        for number in range(6)
    ]
    demand = gather(recordings)
    coarse, fine = (_replay(BUILT_IN["original"], demand, is_fine=each) for each in (False, True))

    assert fine.kills.sum() > 20
    assert coarse.kills.tolist() == fine.kills.tolist()
    assert coarse.replacements.tolist() == fine.replacements.tolist()
    assert coarse.minutes.tolist() == fine.minutes.tolist()
    assert coarse.slack == pytest.approx(fine.slack, rel=1e-12)


def _replay(contender: Contender, demand: Demand, *, is_fine: bool) -> FleetSums:
    requests = first_requests(demand, _STRICT)
    fleet = Fleet(requests, limits_of(requests, demand, _STRICT))
    policy = make_policy(contender, demand, fleet)
    return Replay(demand, fleet, policy, FleetSums(len(demand)), is_fine=is_fine).run()


def test_results_do_not_depend_on_how_the_work_is_divided() -> None:
    dice = np.random.default_rng(7)
    demand = gather(
        [
            _recording(
                str(number),
                dice.integers(100, 900, 2 * _DAY).astype(float).tolist(),
                (dice.integers(100, 900, 2 * _DAY) * _MIB).tolist(),
            )
            for number in range(5)
        ]
    )
    runs = [Run(BUILT_IN["trimtab"], SCENARIOS["under-strict"])]
    told_alone: list[float] = []
    told_shared: list[float] = []
    alone = run_all(runs, demand, workers=WorkerPool(1), report=told_alone.append)
    shared = run_all(runs, demand, workers=WorkerPool(2), report=told_shared.append)

    assert told_alone == [0.5, 1.0]
    assert told_shared[-1] == 1.0
    assert told_shared == sorted(set(told_shared))
    assert alone[0].tally.slack.tolist() == shared[0].tally.slack.tolist()
    assert alone[0].tally.kills.tolist() == shared[0].tally.kills.tolist()
    assert alone[0].tally.good_after.tolist() == shared[0].tally.good_after.tolist()
