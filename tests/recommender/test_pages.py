"""The page on which a recommender tells how its numbers came about."""

import json
from typing import Any

from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, a_recommendation, amounts, minutes

from trimtab.api.explain.recommendation import NumbersFrom, Origin
from trimtab.core.model.estimation import ESTIMATOR_ANNOTATION
from trimtab.core.model.resources import Resource
from trimtab.recommender.controller import Recommender
from trimtab.recommender.pages import show_page
from trimtab.recommender.settings import RecommenderSettings


def page(world: RecommenderCluster, recommender: Recommender, name: str = "web") -> Any:
    query = {"namespace": "default", "autoscaler": name}
    origin = Origin(NumbersFrom.RECOMMENDER, world.clock.now(), remarks=("as told",))
    return json.loads(show_page(recommender.state, RecommenderSettings(), query, origin))


def a_world() -> RecommenderCluster:
    world = RecommenderCluster()
    world.deploy(replicas=3)
    world.autoscale()
    world.loads[""] = Load(cpu=500, memory=1e9)
    return world


def cpu_of(shown: Any) -> Any:
    return shown["containers"][0]["resources"][0]


async def test_a_recommender_explains_what_it_has_published() -> None:
    world = a_world()
    recommender = world.recommender()
    await recommender.tick()
    world.wait(minutes(1))
    await recommender.tick()
    shown = page(world, recommender)
    target = cpu_of(shown)["target"]

    assert world.target()[Resource.CPU] == 587
    assert (target["value"], target["published"]) == ("587m", "587m")
    assert shown["containers"][0]["samples"] == 6
    assert shown["source"] == "recommender"
    assert any("a bound is published once" in each for each in shown["remarks"])


async def test_a_held_target_is_explained_as_it_is_published() -> None:
    world = a_world()
    world.autoscale(annotations={ESTIMATOR_ANNOTATION: "cost"})
    world.start("web-0", a_container(requests=amounts(2000, 4000 * MIB)))
    recommender = world.recommender()
    for _ in range(3):
        await recommender.tick()
        world.wait(minutes(1))

    assert world.target() == amounts(2000, 4000 * MIB)
    for resource in page(world, recommender)["containers"][0]["resources"]:
        for number in ("target", "lowerBound", "upperBound"):
            assert resource[number]["value"] == resource[number]["published"]
        rules = {each["step"]: each["rule"] for each in resource["steps"]}
        assert "`cost`" in rules["held"]


async def test_nothing_is_told_of_an_autoscaler_that_nobody_knows() -> None:
    world = a_world()
    recommender = world.recommender()
    await recommender.tick()

    assert page(world, recommender, "nobody") is None


async def test_what_is_kept_while_a_history_is_relearned_is_explained() -> None:
    world = a_world()
    said = a_recommendation(target=amounts(900, 2000 * MIB))
    world.autoscale(recommendation=(said,))
    recommender = world.recommender()
    await recommender.tick()
    cpu = cpu_of(page(world, recommender))

    assert cpu["steps"][-1]["step"] == "relearning"
    assert cpu["steps"][-1]["target"] == {"before": "587m", "after": "900m"}
    assert cpu["target"]["value"] == "900m"
    assert world.target()[Resource.CPU] == 900


async def test_whatever_else_bears_on_numbers_is_remarked() -> None:
    world = a_world()
    recommender = world.recommender()
    await recommender.tick()
    world.autoscale(recommenders=("another",))
    await recommender.tick()

    assert page(world, recommender)["remarks"] == [
        "as told",
        "published by another recommender: another",
    ]
