"""Bounds of held targets: a pod is outside of them exactly when it has to follow."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.makers.usage import World

from trimtab.core.changes import change
from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.recommendation.cost.held_columns import CPU, MEMORY
from trimtab.core.sizing import capping

MIB = 1024**2
GIB = 1024**3
HELD = RecommendationSettings(estimator=Estimator.COST)
COLUMNS = {Resource.CPU: CPU, Resource.MEMORY: MEMORY}
STEP = 1.06
"""Just outside of the distance within which a pod need not follow."""


@dataclass(frozen=True)
class Case:
    """Held targets, and everything that moves them before they reach a pod."""

    cpu: float
    memory: float
    rounding: int = 1
    whole_cores: bool = False
    policy: ContainerPolicy | None = None
    limit_range: LimitRangeItem | None = None

    def published(self, *, is_raised: bool = True, is_lowered: bool = True) -> World:
        """A recommender that publishes these targets after a change."""
        cpu = replace(HELD.cpu, rounding=self.rounding)
        world = World(replace(HELD, cpu=cpu, integer_cpu=True))
        policies = () if self.policy is None else (self.policy,)
        asked = {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}
        world.say(policies=policies, annotations=asked if self.whole_cores else {})
        world.pod()
        world.cpu([20], [0])
        world.memory([50 * MIB], [0])
        world.publications.refresh()
        targets = world.publications.held.targets
        (key,) = targets.keys()
        row = targets.find(key)
        assert row is not None
        record = targets.record(row)
        record["held"] = (self.cpu, self.memory)
        record["is_raised"], record["is_lowered"] = is_raised, is_lowered
        # Bounds of a target that was never changed follow from what was needed.
        world.cpu([20], [1])
        world.memory([50 * MIB], [1])
        record["changed"] = (1e10, 1e10)
        record["now"] = 1e9
        return world

    def change(self, world: World, requests: Resources) -> tuple[change.Change, Resources]:
        """Return what an updater measures of a pod, and the target as capped for it."""
        pod = Pod("default", "web-0", containers=(Container("app", spec=Allocation(requests)),))
        said = world.recommendation().containers
        ranges = () if self.limit_range is None else (self.limit_range,)
        policies = () if self.policy is None else (self.policy,)
        capped = capping.cap_for_pod(said, pod, policies, ranges).recommendations
        return change.measure_change(pod, capped), capped[0].target


def policy(least: Resources | None = None, most: Resources | None = None) -> ContainerPolicy:
    return ContainerPolicy("app", min_allowed=least or {}, max_allowed=most or {})


def amounts(cpu: int, memory: int) -> Resources:
    return {Resource.CPU: cpu, Resource.MEMORY: memory}


def limit_range(least: Resources, most: Resources) -> LimitRangeItem:
    return LimitRangeItem(LimitRangeType.CONTAINER, min=least, max=most)


CASES = [
    pytest.param(Case(500, 2 * GIB), id="nothing moves them"),
    pytest.param(Case(3, 5 * MIB), id="below the minimum of a pod"),
    pytest.param(Case(1001, 2 * GIB, rounding=100), id="CPU is rounded up"),
    pytest.param(Case(2100, 2 * GIB, whole_cores=True), id="whole cores"),
    pytest.param(Case(500, 2 * GIB, policy=policy(most=amounts(300, GIB))), id="maxAllowed"),
    pytest.param(Case(500, 2 * GIB, policy=policy(most=amounts(480, 2000 * MIB))), id="just above"),
    pytest.param(Case(500, 2 * GIB, policy=policy(least=amounts(900, 3 * GIB))), id="minAllowed"),
    pytest.param(
        Case(500, 2 * GIB, limit_range=limit_range(amounts(1, 1), amounts(300, GIB))),
        id="the largest of a limit range",
    ),
    pytest.param(
        Case(500, 2 * GIB, limit_range=limit_range(amounts(900, 3 * GIB), amounts(9000, 9 * GIB))),
        id="the smallest of a limit range",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_a_pod_is_outside_its_bounds_exactly_when_it_has_to_follow(case: Case) -> None:
    world = case.published()
    _, target = case.change(world, amounts(500, GIB))
    assert not case.change(world, target)[0].outside_bounds
    for resource in Resource:
        for factor in (1 / STEP, STEP):
            other = {**target, resource: round(target[resource] * factor)}
            # One millicore is more than 5 % of little.
            if abs(other[resource] - target[resource]) > 1:
                assert case.change(world, other)[0].outside_bounds, (resource, factor)


@pytest.mark.parametrize("case", CASES)
def test_a_target_that_only_rose_leaves_larger_pods_alone(case: Case) -> None:
    world = case.published(is_lowered=False)
    _, target = case.change(world, amounts(500, GIB))
    for resource in Resource:
        smaller = {**target, resource: round(target[resource] / STEP)}
        if target[resource] - smaller[resource] > 1:
            assert case.change(world, smaller)[0].outside_bounds
    if case.policy is None and case.limit_range is None:
        larger = {kind: amount * 3 for kind, amount in target.items()}
        assert not case.change(world, larger)[0].outside_bounds


@settings(max_examples=40, deadline=None)
@given(
    st.floats(1, 1e6),
    st.floats(1e6, 1e13),
    st.sampled_from([1, 10, 100, 1000]),
    st.none() | st.builds(amounts, st.integers(1, 10**6), st.integers(1, 10**13)),
    st.none() | st.builds(amounts, st.integers(1, 10**6), st.integers(1, 10**13)),
)
def test_bounds_are_in_order_and_close_whatever_caps_say(
    cpu: float, memory: float, rounding: int, least: Resources | None, most: Resources | None
) -> None:
    case = Case(cpu, memory, rounding, policy=policy(least, most))
    world = case.published()
    (said,) = world.recommendation().containers
    assert said.lower_bound is not None
    assert said.upper_bound is not None
    for resource, target in said.target.items():
        lower, upper = said.lower_bound[resource], said.upper_bound[resource]
        # All three are whole numbers, cut off on their own, and CPU is rounded up.
        rounded = rounding if resource is Resource.CPU else 0
        assert target * 0.95 - 2 <= lower <= target <= upper <= target * 1.05 + 2 + rounded
    changed, _ = case.change(world, said.target)
    assert not changed.outside_bounds
