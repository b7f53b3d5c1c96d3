"""How numbers are explained: the steps are those of what is published, to the unit."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, amounts, an_autoscaler
from support.makers.usage import DAY, World, a_day_of_usage

from trimtab.core.explain.recommendation import (
    ContainerWorking,
    MissingNumber,
    Number,
    NumberWorking,
    ResourceWorking,
    explain_containers,
    with_kept,
)
from trimtab.core.model.autoscalers import ContainerMode, ContainerPolicy, ContainerRecommendation
from trimtab.core.model.recommendation import RecommendationSettings, ResourceSettings
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.steps import StepKind

SETTINGS = [
    RecommendationSettings(),
    RecommendationSettings(
        cpu=ResourceSettings(pod_floor=100, rounding=50, target_percentile=0.5),
        memory=ResourceSettings(pod_floor=10 * MIB, rounding=MIB),
        margin_fraction=0.3,
        integer_cpu=True,
        max_allowed=amounts(2000, 700 * MIB),
    ),
    RecommendationSettings(humanize_memory=True, margin_fraction=0.0),
]
POLICIES = [
    (),
    (ContainerPolicy("*", min_allowed=amounts(300, 300 * MIB)),),
    (ContainerPolicy("app", max_allowed=amounts(200, 200 * MIB)),),
    (ContainerPolicy("app", min_allowed=amounts(10, MIB), max_allowed=amounts(5)),),
    (ContainerPolicy("app", controlled_resources=(Resource.MEMORY,)),),
    (ContainerPolicy("side", mode=ContainerMode.OFF),),
]


def explained(world: World) -> dict[str, ContainerWorking]:
    found = explain_containers(world.usage, world.autoscaler.identity, world.settings)
    return {each.name: each for each in found}


def of(working: ContainerWorking, resource: Resource) -> ResourceWorking:
    (found,) = [each for each in working.resources if each.resource is resource]
    return found


def number(working: ResourceWorking, which: Number) -> NumberWorking:
    (found,) = [each for each in working.numbers if each.number is which]
    return found


def told(working: NumberWorking) -> dict[StepKind, tuple[int | None, int]]:
    return {step.kind: (step.before, step.after) for step in working.steps}


def a_drawn_world(dice: Random) -> World:
    annotations = {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}
    autoscaler = an_autoscaler(
        policies=dice.choice(POLICIES), annotations=dice.choice([{}, annotations])
    )
    world = World(dice.choice(SETTINGS), autoscaler=autoscaler)
    for pod in range(dice.randint(0, 3)):
        name, labels = f"web-{pod}", {"shard": str(dice.randint(0, 1))}
        world.pod(name, "app", *dice.choice([(), ("side",)]), labels=labels)
        minutes = range(dice.choice([0, 1, 50, 3000]))
        peak = dice.choice([0.0, 1.0, 1e3, 1e9])
        world.cpu([dice.random() * peak for _ in minutes], minutes, name)
        world.memory([dice.random() * peak * 1e6 for _ in minutes], minutes, name)
        if dice.random() < 0.3:
            world.oom([dice.random() * 1e9], [dice.randint(0, 3000)], name)
    return world


def test_each_step_of_a_target_is_told_with_what_it_began_from() -> None:
    policies = (ContainerPolicy("app", min_allowed=amounts(110), max_allowed=amounts(120)),)
    world = a_day_of_usage(autoscaler=an_autoscaler(policies=policies))
    target = number(of(explained(world)["app"], Resource.CPU), Number.TARGET)

    assert target.percentile == 0.9
    assert target.bucket is not None
    assert (target.bucket.index, target.bucket.start, target.bucket.end) == (8, 95, 110)
    assert told(target) == {
        StepKind.PERCENTILE: (None, 110),
        StepKind.MARGIN: (110, 126),
        StepKind.CONFIDENCE: (126, 126),
        StepKind.POD_MINIMUM: (126, 126),
        StepKind.OOM_KILLS: (126, 126),
        StepKind.ROUNDING: (126, 126),
        StepKind.INTEGER_CPU: (126, 126),
        StepKind.MIN_ALLOWED: (126, 126),
        StepKind.MAX_ALLOWED: (126, 120),
    }


def test_a_history_is_told_by_its_samples_and_their_time() -> None:
    working = explained(a_day_of_usage())["app"]

    assert working.sample_count == DAY + 1
    assert working.first_sample is not None
    assert working.last_sample is not None
    assert (working.last_sample - working.first_sample).total_seconds() == DAY * 60
    assert of(working, Resource.MEMORY).confidence == pytest.approx(1.0)
    assert (working.history_count, working.live_containers) == (1, 1)


def test_what_an_oom_kill_needs_is_a_step_of_its_own() -> None:
    world = World()
    for pod in range(40):
        world.pod(f"web-{pod}")
        world.memory([100e6], [0], f"web-{pod}")
    world.oom([500e6], [1])
    memory = of(explained(world)["app"], Resource.MEMORY)
    before, after = told(number(memory, Number.TARGET))[StepKind.OOM_KILLS]

    assert before == 250 * MIB
    assert after == memory.oom_need == 500_000_000 + 100 * MIB


@pytest.mark.parametrize(
    ("policies", "make", "absences"),
    [
        pytest.param((), World, ["NoSamples"] * 2, id="nothing is said of what is not known"),
        pytest.param(
            POLICIES[4], a_day_of_usage, ["NotControlled", None], id="memory alone is controlled"
        ),
        pytest.param(
            POLICIES[4], World, ["NoSamples"] * 2, id="nothing is known of what is controlled"
        ),
    ],
)
def test_it_is_told_why_there_is_no_number(
    policies: tuple[ContainerPolicy, ...],
    make: Callable[..., World],
    absences: list[str | None],
) -> None:
    world = make(autoscaler=an_autoscaler(policies=policies))
    world.pod()
    working = explained(world)["app"]

    assert [each.absence and each.absence.value for each in working.resources] == absences
    assert (working.recommendation() is None) == (None not in absences)


def test_what_is_kept_while_a_history_is_relearned_is_the_last_step() -> None:
    world = a_day_of_usage()
    said = ContainerRecommendation("app", amounts(900), amounts(50), amounts(5000))
    (working,) = with_kept(tuple(explained(world).values()), [said], {"app"})
    cpu, memory = working.resources
    (other,) = with_kept(tuple(explained(world).values()), [said], {"side"})

    assert told(number(cpu, Number.TARGET))[StepKind.RELEARNING] == (126, 900)
    assert number(cpu, Number.UPPER_BOUND).amount == 5000
    assert number(memory, Number.TARGET).steps[-1].before == number(memory, Number.TARGET).amount
    assert other == explained(world)["app"]


@given(st.integers(0, 2**32).map(Random))
def test_what_is_explained_is_what_is_published_to_the_unit(dice: Random) -> None:
    world = a_drawn_world(dice)
    published = world.recommendation()
    workings = explained(world).values()
    found = [each.recommendation() for each in workings]
    numbers = [one for each in workings for kind in each.resources for one in kind.numbers]

    assert tuple(each for each in found if each is not None) == published.containers
    assert tuple(each.name for each in workings if each.recommendation() is None) == (
        published.without_samples
    )
    for each in numbers:
        assert [step.before for step in each.steps[1:]] == [step.after for step in each.steps[:-1]]
    assert all(each.absence in (None, *MissingNumber) for one in workings for each in one.resources)
