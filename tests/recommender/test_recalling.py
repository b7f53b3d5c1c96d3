"""What somebody knows of numbers who only reads what a recommender has stored."""

from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import minutes

from trimtab.api.explain.recommendation import NumbersFrom, NumbersPage, Origin
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.quantities import format_amount
from trimtab.core.model.resources import Resource
from trimtab.recommender.pages import explain
from trimtab.recommender.restore import recall
from trimtab.recommender.settings import RecommenderSettings

WEB = AutoscalerName("default", "web")


def written(world: RecommenderCluster) -> list[int]:
    return [world.requests[act] for act in ("publish_status", "save_checkpoint")]


async def recalled(world: RecommenderCluster) -> NumbersPage:
    settings, now = RecommenderSettings(), world.clock.now()
    state = await recall(world, settings, now)
    page = explain(state, WEB, settings, Origin(NumbersFrom.CHECKPOINTS, now))
    assert page is not None
    return page


async def test_what_is_stored_explains_what_is_published() -> None:
    world = RecommenderCluster()
    world.deploy(replicas=3)
    world.autoscale()
    world.loads[""] = Load(cpu=500, memory=1e9)
    recommender = world.recommender()
    for _ in range(30):
        await recommender.tick()
        world.wait(minutes(1))
    await recommender.save_all()
    writes = written(world)
    page = await recalled(world)
    (container,) = page.containers

    targets = {each.resource: each.target and each.target.value for each in container.resources}
    assert targets == {kind: format_amount(kind, amount) for kind, amount in world.target().items()}
    assert container.samples == 90
    assert written(world) == writes


async def test_without_anything_stored_nothing_is_known() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale()
    page = await recalled(world)
    (container,) = page.containers

    assert [each.resource for each in container.resources] == [Resource.CPU, Resource.MEMORY]
    assert [each.absence for each in container.resources] == ["NoSamples", "NoSamples"]
