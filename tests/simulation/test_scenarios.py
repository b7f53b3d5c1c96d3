import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import BOTH
from trimtab.simulation.scenarios import Scenario, Size, draw_scenario

SEEDS = st.integers(0, 10**9)


@given(SEEDS)
def test_one_seed_is_one_scenario(seed: int) -> None:
    assert draw_scenario(seed, Size()) == draw_scenario(seed, Size())


def test_different_seeds_are_different_scenarios() -> None:
    drawn = [replace(draw_scenario(seed, Size()), seed=0) for seed in range(50)]

    assert all(one != other for one, other in pairwise(drawn))


def test_a_scenario_does_not_depend_on_the_hashes_of_a_process() -> None:
    program = "from trimtab.simulation.scenarios import *; print(draw_scenario(7, Size()))"

    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(told) == 1


@given(SEEDS)
def test_what_is_drawn_is_as_large_as_asked(seed: int) -> None:
    size = Size(nodes=(2, 3), workloads=(4, 5), replicas=(2, 2), disturbed_hours=(1, 2))

    scenario = draw_scenario(seed, size)

    assert 2 <= len(scenario.nodes) <= 3
    assert 4 <= len(scenario.workloads) <= 5
    assert {workload.replicas for workload in scenario.workloads} <= {2, None}
    assert 1 <= scenario.disturbed.total_seconds() / 3600 <= 2


def test_seed_23_a_load_that_runs_less_than_once_a_short_day_starts_idle() -> None:
    drawn = [each for seed in range(60) for each in draw_scenario(seed, Size()).workloads]
    works = {
        kind: {
            one.startup.work_cpu_seconds > 0
            for each in drawn
            for one in each.template.containers
            if each.kind == kind
        }
        for kind in ("CronJob", "Job")
    }

    assert works == {"CronJob": {False}, "Job": {False, True}}


@given(SEEDS)
def test_no_container_asks_for_more_than_it_may_have(seed: int) -> None:
    assert all(map(is_possible, allocations(draw_scenario(seed, Size()))))


@given(SEEDS)
def test_every_autoscaler_has_a_workload_for_its_target(seed: int) -> None:
    scenario = draw_scenario(seed, Size())

    known = {(each.namespace, each.kind, each.name) for each in scenario.workloads}
    targets = {
        (each.namespace, each.target.kind, each.target.name)
        for each in scenario.autoscalers
        if each.target is not None
    }
    assert targets <= known
    assert len(targets) == len(scenario.autoscalers)


@pytest.mark.parametrize(
    "kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Rollout"]
)
def test_every_kind_of_workload_is_drawn_now_and_then(kind: str) -> None:
    drawn = [draw_scenario(seed, Size()) for seed in range(40)]

    assert any(each.kind == kind for scenario in drawn for each in scenario.workloads)


def allocations(scenario: Scenario) -> list[Allocation]:
    return [
        container.allocation
        for workload in scenario.workloads
        for container in workload.template.containers
    ]


def is_possible(allocation: Allocation) -> bool:
    requests, limits = allocation.requests or {}, allocation.limits or {}
    return all(requests.get(kind, 0) <= limits.get(kind, requests.get(kind, 0)) for kind in BOTH)
