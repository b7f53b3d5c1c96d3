import asyncio
from datetime import timedelta

from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import minutes

from trimtab.core.model.resources import Resource
from trimtab.recommender.controller import Recommender
from trimtab.recommender.reports import TickResult
from trimtab.recommender.settings import RecommenderSettings


def a_world(*, replicas: int = 1) -> RecommenderCluster:
    """A Deployment with an autoscaler."""
    world = RecommenderCluster()
    world.deploy(replicas=replicas)
    world.autoscale()
    return world


async def test_the_first_tick_publishes_what_the_first_samples_say() -> None:
    world = a_world(replicas=3)
    world.loads[""] = Load(cpu=500, memory=1e9)
    report = await world.recommender().tick()

    assert (report.autoscalers, report.pods, report.published) == (1, 3, 1)
    assert (report.cpu.accepted, report.memory.accepted) == (3, 3)
    assert report.problems == ()
    assert world.target() == {Resource.CPU: 587, Resource.MEMORY: 1168723596}


async def test_a_second_tick_without_news_writes_nothing() -> None:
    world = a_world()
    recommender = world.recommender()
    await recommender.tick()
    world.silent.add("web-0")
    writes = world.requests["publish_status"]
    for _ in range(3):
        world.wait(minutes(1))
        await recommender.tick()

    assert world.requests["publish_status"] == writes


async def test_nothing_is_done_before_everything_was_listed_once() -> None:
    world = a_world()
    world.view_age = None
    report = await world.recommender().tick()

    assert report.autoscalers == 0
    assert world.requests.total() == 0


async def test_every_sample_is_counted_once_however_often_it_is_read() -> None:
    world = a_world(replicas=2)
    recommender = world.recommender()
    world.read_at = world.clock.now()
    first = await recommender.tick()
    world.wait(timedelta(seconds=10))
    second = await recommender.tick()

    assert first.cpu.accepted == 2
    assert (second.cpu.accepted, second.cpu.outdated) == (0, 2)


async def test_who_cannot_tell_of_a_tick_goes_on_with_the_next_one() -> None:
    world = a_world()
    told = []

    def tell(result: TickResult) -> None:
        told.append(result)
        raise IndexError("told wrongly")

    recommender = Recommender(
        world, world, settings=RecommenderSettings(), clock=world.clock, report=tell
    )
    running = asyncio.create_task(recommender.run())
    await world.tick_done()
    await world.tick_done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert len(told) >= 2
