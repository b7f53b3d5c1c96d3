"""A HorizontalPodAutoscaler beside the recommender: both come to rest (F27)."""

import math

import pytest
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, amounts, hours, minutes

from trimtab.core.model.autoscalers import TargetReference, UpdateMode
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.resources import Resource
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.simulation.world.objects import HorizontalScaler

WANTED_UTILIZATION, TOLERANCE, MOST_PODS = 0.8, 0.1, 200
"""What people usually ask of a HorizontalPodAutoscaler, and the tolerance that it has."""


class Tandem:
    """A Deployment with a load that its pods share, scaled in both directions."""

    def __init__(self, load: float, pods: int) -> None:
        self.load = load
        self.world = RecommenderCluster()
        self.world.deploy(replicas=0)
        self.world.autoscale()
        usage = UsageSettings(cpu_half_life=hours(1))
        self._recommender = self.world.recommender(usage=usage)
        self.pods = 0
        self.request = 0
        self._scale(pods)

    async def go_on(self, rounds: int) -> list[tuple[int, int]]:
        """The number of pods and what each requests, round by round."""
        history = []
        for _ in range(rounds):
            self.world.loads[""] = Load(cpu=self.load / self.pods, memory=200.0 * MIB)
            await self._recommender.tick()
            self.request = self.world.target().get(Resource.CPU, self.request)
            if self.request:
                self._scale_by(self.load / self.pods / self.request / WANTED_UTILIZATION)
            history.append((self.pods, self.request))
            self.world.wait(minutes(10))
        return history

    def _scale_by(self, ratio: float) -> None:
        if abs(ratio - 1) > TOLERANCE:
            self._scale(max(1, min(math.ceil(self.pods * ratio), MOST_PODS)))

    def _scale(self, pods: int) -> None:
        for number in range(pods, self.pods):
            self.world.end(f"web-{number}")
        for number in range(self.pods, pods):
            container = a_container(requests=amounts(self.request or 100, 200 * MIB))
            self.world.start(f"web-{number}", container)
        self.pods = pods


@pytest.mark.parametrize("pods", [1, 4, 20])
async def test_f27_beside_a_horizontal_autoscaler_the_request_does_not_shrink(
    pods: int,
) -> None:
    tandem = Tandem(load=4000.0, pods=pods)
    *_, rest = [await tandem.go_on(60), await tandem.go_on(60)]

    assert len(set(rest)) == 1
    assert rest[-1][0] < MOST_PODS
    assert rest[-1][1] >= 4000 / pods


@pytest.mark.parametrize("factor", [0.3, 3.0])
async def test_f27_after_the_load_has_changed_both_come_to_rest_again(factor: float) -> None:
    tandem = Tandem(load=4000.0, pods=8)
    await tandem.go_on(60)
    tandem.load *= factor
    await tandem.go_on(150)
    rest = await tandem.go_on(60)
    pods, request = rest[-1]

    assert len(set(rest)) == 1
    assert pods < MOST_PODS
    assert tandem.load / pods / request == pytest.approx(WANTED_UTILIZATION, rel=TOLERANCE)


SCALES_ON_CPU = HorizontalScaler("default", "hpa", WorkloadName("default", "Deployment", "web"))


def a_world(**fields: object) -> RecommenderCluster:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale(**fields)  # type: ignore[arg-type]
    world.truth.scalers.put(SCALES_ON_CPU)
    return world


async def test_what_is_held_is_recommended_all_the_same_and_a_condition_says_so() -> None:
    world = a_world()
    await world.recommender().tick()
    condition = world.condition("HorizontallyScaled")

    assert world.target().keys() == {Resource.CPU, Resource.MEMORY}
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "ResourceHeld")
    assert condition.message == (
        "The HorizontalPodAutoscaler hpa scales on cpu: what is recommended of that is not applied"
    )


async def test_who_scales_a_workload_that_the_target_owns_is_told_in_the_condition() -> None:
    world = a_world(target=TargetReference("App", "shop"))
    app = world.own("App", "shop")
    world.start("web-0", owner=app.reference)
    await world.recommender().tick()
    condition = world.condition("HorizontallyScaled")

    assert condition is not None
    assert condition.reason == "ResourceHeld"


async def test_the_condition_goes_with_the_horizontal_autoscaler() -> None:
    world = a_world()
    recommender = world.recommender()
    await recommender.tick()
    world.truth.scalers.delete("default", "hpa")
    world.wait()
    await recommender.tick()

    assert world.condition("HorizontallyScaled") is None


async def test_who_only_warns_says_that_both_pull_at_it() -> None:
    world = a_world()
    await world.recommender(hpa_conflict=HpaConflict.WARN).tick()
    condition = world.condition("HorizontallyScaled")

    assert condition is not None
    assert condition.reason == "ResourceContested"


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        pytest.param({}, {"hpa_conflict": HpaConflict.IGNORE}, id="nobody looks"),
        pytest.param({"mode": UpdateMode.OFF}, {}, id="nothing is ever applied"),
    ],
)
async def test_nothing_is_said_where_nothing_is_contested(
    fields: dict[str, object], settings: dict[str, object]
) -> None:
    world = a_world(**fields)
    await world.recommender(**settings).tick()

    assert world.condition("HorizontallyScaled") is None
