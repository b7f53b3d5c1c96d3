from collections.abc import Set as AbstractSet

import pytest
from support.makers.records import MIB, NOW, a_recommendation, amounts, an_autoscaler, hours
from support.makers.usage import World

from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.histogram.oom_floors import OomLevel
from trimtab.core.model.autoscalers import ContainerMode, ContainerPolicy
from trimtab.core.model.recommendation import PublishedRecommendation
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.recommendation.relearning import (
    find_lost,
    has_learned_enough,
    keep_up,
    list_explained,
)
from trimtab.core.usage.checkpoint_extras import SavedContainer, Supplement
from trimtab.core.usage.containers import ContainerMemory

SAID = a_recommendation(
    target=amounts(500, 900 * MIB), lower=amounts(400, 800 * MIB), upper=amounts(600, 2000 * MIB)
)
LEARNED = a_recommendation(
    target=amounts(25, 1000 * MIB), lower=amounts(25, 250 * MIB), upper=amounts(9000, 1100 * MIB)
)
SOMETHING = HistogramCheckpoint(NOW, {8: 10000}, 1.0)
NOTHING = HistogramCheckpoint()
OPEN = Supplement(
    containers={"web-0": SavedContainer(ContainerMemory(1.0, 1.0, 2.0, usage_peak=5.0))}
)


@pytest.mark.parametrize(
    ("cpu", "memory", "beside", "explained"),
    [
        pytest.param(SOMETHING, SOMETHING, None, set(BOTH), id="both histograms hold something"),
        pytest.param(SOMETHING, NOTHING, None, {Resource.CPU}, id="no memory"),
        pytest.param(SOMETHING, NOTHING, OPEN, set(BOTH), id="a window was open"),
        pytest.param(
            NOTHING,
            NOTHING,
            Supplement((OomLevel(5, 1.0),)),
            {Resource.MEMORY},
            id="only a kill is known",
        ),
        pytest.param(
            HistogramCheckpoint(NOW, {8: 0}, 1.0), NOTHING, Supplement(), set(), id="all zero"
        ),
    ],
)
def test_a_checkpoint_explains_what_it_holds_anything_of(
    cpu: HistogramCheckpoint,
    memory: HistogramCheckpoint,
    beside: Supplement | None,
    explained: AbstractSet[Resource],
) -> None:
    assert list_explained(AggregateCheckpoint(cpu, memory), beside) == explained


@pytest.mark.parametrize(
    ("explained", "lost"),
    [
        pytest.param({"app": set(BOTH)}, set(), id="all is explained"),
        pytest.param({"app": {Resource.CPU}}, {"app"}, id="memory is not"),
        pytest.param({}, {"app"}, id="there is no checkpoint"),
    ],
)
def test_f4_what_is_said_and_not_explained_is_lost(
    explained: dict[str, AbstractSet[Resource]], lost: set[str]
) -> None:
    assert find_lost(an_autoscaler(SAID), explained) == lost
    assert find_lost(an_autoscaler(), explained) == set()


def test_f4_no_amount_falls_below_what_was_said_while_it_is_relearned() -> None:
    kept = keep_up(PublishedRecommendation((LEARNED,)), an_autoscaler(SAID), {"app"}, {})

    (one,) = kept.containers
    assert one.target == amounts(500, 1000 * MIB)
    assert one.lower_bound == amounts(400, 800 * MIB)
    assert one.upper_bound == amounts(9000, 2000 * MIB)
    assert one.uncapped_target == amounts(500, 1000 * MIB)


def test_what_is_not_relearned_is_said_as_it_is_known() -> None:
    known = PublishedRecommendation((LEARNED,), ("side",))

    assert keep_up(known, an_autoscaler(SAID), set(), {}) == known
    assert keep_up(known, an_autoscaler(), {"app"}, {}) == known
    off = an_autoscaler(SAID, policies=(ContainerPolicy("app", mode=ContainerMode.OFF),))
    assert keep_up(known, off, {"app"}, {}) == known


def test_a_container_without_samples_keeps_what_was_said_of_it() -> None:
    kept = keep_up(PublishedRecommendation((), ("app", "side")), an_autoscaler(SAID), {"app"}, {})

    assert kept == PublishedRecommendation((SAID,), ("side",))


def test_the_policy_of_today_caps_what_was_said_yesterday() -> None:
    policy = ContainerPolicy("app", max_allowed=amounts(100), controlled_resources=(Resource.CPU,))
    autoscaler = an_autoscaler(SAID, policies=(policy,))
    (one,) = keep_up(PublishedRecommendation(), autoscaler, {"app"}, {}).containers

    assert one.target == amounts(100)
    assert one.upper_bound == amounts(100)
    assert one.uncapped_target == amounts(500)
    (other,) = keep_up(
        PublishedRecommendation(), an_autoscaler(SAID), {"app"}, amounts(200)
    ).containers
    assert other.target == amounts(200, 900 * MIB)


def test_a_history_is_believed_once_it_is_long_enough() -> None:
    world = World()
    key = (world.autoscaler.identity, "app")

    assert not has_learned_enough(world.usage, key, hours(1))
    world.pod()
    world.cpu([100, 100], [0, 59])
    assert not has_learned_enough(world.usage, key, hours(1))
    world.cpu([100], [60])
    assert has_learned_enough(world.usage, key, hours(1))
