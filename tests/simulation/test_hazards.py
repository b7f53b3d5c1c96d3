from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model.autoscalers import BoostType, UpdateMode
from trimtab.core.model.resources import BOTH
from trimtab.simulation.faults.hazards import endanger
from trimtab.simulation.run import describe_run
from trimtab.simulation.scenarios import Scenario, Size, draw_scenario

SEEDS = st.integers(0, 10_000)


def a_dangerous_scenario(seed: int, share: float = 1.0) -> Scenario:
    return endanger(draw_scenario(seed, Size()), Random(seed), share)


@given(SEEDS)
def test_without_hazards_a_scenario_stays_as_it_was(seed: int) -> None:
    assert a_dangerous_scenario(seed, share=0.0) == draw_scenario(seed, Size())


@given(SEEDS)
def test_one_seed_is_one_set_of_hazards(seed: int) -> None:
    assert a_dangerous_scenario(seed) == a_dangerous_scenario(seed)


@given(SEEDS)
def test_hazards_make_no_container_ask_for_more_than_it_may_have(seed: int) -> None:
    for workload in a_dangerous_scenario(seed).workloads:
        for container in workload.template.containers:
            requests = container.allocation.requests or {}
            limits = container.allocation.limits or {}
            assert all(requests.get(kind, 0) <= limits.get(kind, 10**15) for kind in BOTH)


@pytest.mark.parametrize(
    "is_there",
    [
        pytest.param(
            lambda one: any(item.max_cpu_ratio for each in one.limit_ranges for item in each.items),
            id="ratios",
        ),
        pytest.param(lambda one: any(e.limits for e in one.quotas), id="quotas of limits"),
        pytest.param(
            lambda one: any(item.type == "Pod" for each in one.limit_ranges for item in each.items),
            id="limit ranges of pods",
        ),
        pytest.param(
            lambda one: any(each.kind == "Database" for each in one.workloads), id="operators"
        ),
        pytest.param(lambda one: any(not each.has_scale for each in one.workloads), id="no scale"),
        pytest.param(
            lambda one: any(each.boost and each.boost.factor == 1 for each in one.autoscalers),
            id="boosts that add nothing",
        ),
        pytest.param(
            lambda one: any(
                each.boost and each.boost.type == BoostType.QUANTITY for each in one.autoscalers
            ),
            id="boosts by a quantity",
        ),
        pytest.param(
            lambda one: any(
                container.needs for each in one.workloads for container in each.template.containers
            ),
            id="sizes that are needed",
        ),
        pytest.param(
            lambda one: any(each.name == "greedy" for each in one.workloads), id="crowded nodes"
        ),
        pytest.param(
            lambda one: sum(e.mode is UpdateMode.UPSCALE_ONLY for e in one.autoscalers) > 2,
            id="UpscaleOnly",
        ),
        pytest.param(
            lambda one: any(each.name.endswith("-all") for each in one.budgets), id="crash loops"
        ),
    ],
)
def test_every_hazard_is_drawn_now_and_then(is_there: Callable[[Scenario], bool]) -> None:
    assert any(is_there(a_dangerous_scenario(seed)) for seed in range(60))


def test_what_a_seed_draws_is_told_with_its_hazards() -> None:
    size = Size(hazard_share=1.0)
    drawn = [describe_run(seed, size) for seed in range(10)]

    assert any("gate off" in line for lines in drawn for line in lines)
