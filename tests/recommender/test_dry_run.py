"""What a bystander says is what the recommender would say, and nothing is written for it."""

import asyncio
from dataclasses import replace

import pytest
from recommender.past import Past
from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, a_recommendation, amounts, minutes

from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.report.virtual_autoscalers import Owned, group_pods
from trimtab.recommender.dry_run import Bystander, DryRunInputs, HistoryProgress
from trimtab.recommender.settings import RecommenderSettings

_SETTINGS = RecommenderSettings()


def _sight(world: RecommenderCluster) -> DryRunInputs:
    pods = [
        Owned(pod, workload, "apps/v1")
        for pod in world.pods
        for workload in world.workloads()
        if workload.selector is not None and workload.selector.matches(pod.labels)
    ]
    return DryRunInputs(
        group_pods(pods, []), world.owners, tuple(world.nodes), tuple(world.checkpoints)
    )


def _targets(bystander: Bystander) -> dict[str, Resources]:
    return {
        group.workload.name: {kind: one.target[kind] for kind in one.target}
        for group, autoscaler, _ in bystander.conclude()
        for one in autoscaler.recommendation or ()
    }


async def _learned(world: RecommenderCluster, readings: int) -> Bystander:
    bystander = Bystander(_sight(world), _SETTINGS, world.clock)
    await bystander.begin()
    for _ in range(readings):
        bystander.take_in(await world.fetch())
        world.wait(minutes(1))
    return bystander


@pytest.mark.parametrize("readings", [1, 30])
async def test_a_shadow_recommends_what_a_real_autoscaler_would(readings: int) -> None:
    world = RecommenderCluster()
    world.deploy("web", replicas=2)
    world.deploy("db")
    world.loads |= {"web-0": Load(700, 900 * MIB), "": Load(30, 100 * MIB)}
    shadows = await _learned(world, readings)
    twin = RecommenderCluster()
    twin.deploy("web", replicas=2)
    twin.deploy("db")
    twin.loads |= world.loads
    twin.autoscale("web")
    twin.autoscale("db")
    recommender = twin.recommender()
    for _ in range(readings):
        await recommender.tick()
        twin.wait(minutes(1))

    assert _targets(shadows) == {name: twin.target(name) for name in ("db", "web")}


async def test_nothing_is_written_for_it() -> None:
    world = RecommenderCluster()
    world.deploy()
    await _learned(world, 3)

    assert set(world.requests) == {"fetch"}


async def test_what_is_published_stays_and_only_what_is_missing_is_added() -> None:
    world = RecommenderCluster()
    world.deploy("web", a_container("app"), a_container("new"))
    said = a_recommendation("app", target=amounts(111, 222 * MIB))
    world.autoscale(recommendation=(said,))
    (workload,) = world.workloads()
    owned = [Owned(pod, workload, "apps/v1") for pod in world.pods]
    observed = [ObservedAutoscaler(world.autoscaler(), workload.selector)]
    bystander = Bystander(
        DryRunInputs(group_pods(owned, observed), world.owners), _SETTINGS, world.clock
    )
    await bystander.begin()
    bystander.take_in(await world.fetch())
    ((group, autoscaler, _),) = bystander.conclude()

    assert not group.is_shadowed
    assert [one.container_name for one in autoscaler.recommendation or ()] == ["app", "new"]
    assert (autoscaler.recommendation or ())[0] == said


async def test_checkpoints_tell_what_an_autoscaler_has_learned() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale()
    recommender = world.recommender()
    for _ in range(20):
        await recommender.tick()
        world.wait(minutes(1))
    await recommender.save_all()
    said = world.target()
    silent = replace(world.autoscaler(), recommendation=None)
    (workload,) = world.workloads()
    owned = [Owned(pod, workload, "apps/v1") for pod in world.pods]
    groups = group_pods(owned, [ObservedAutoscaler(silent, workload.selector)])
    sight = DryRunInputs(groups, world.owners, (), tuple(world.checkpoints))
    bystander = Bystander(sight, _SETTINGS, world.clock)
    await bystander.begin()
    ((_, _, learned),) = bystander.conclude()

    assert learned["app"].samples == 20
    assert _targets(bystander) == {"web": said}


async def test_how_much_is_known_is_told_with_it() -> None:
    world = RecommenderCluster()
    world.deploy(replicas=2)
    bystander = await _learned(world, 5)
    ((_, _, learned),) = bystander.conclude()

    assert (learned["app"].samples, learned["app"].span) == (10, minutes(4))


async def test_an_oom_kill_that_can_be_seen_counts() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.loads[""] = Load(100, 50 * MIB)
    calm = _targets(await _learned(world, 1))
    world.kill("web-0")
    shocked = _targets(await _learned(world, 1))

    assert calm["web"][Resource.MEMORY] == 250 * MIB
    assert shocked["web"][Resource.MEMORY] > 300 * MIB


async def _advance(bystander: Bystander) -> HistoryProgress:
    assert bystander.history is not None
    reading = asyncio.create_task(bystander.history.run())
    try:
        while not (progress := await bystander.advance_history()).is_over:
            await LoopClock().sleep(minutes(1))
        return progress
    finally:
        reading.cancel()
        await asyncio.wait({reading})


def test_history_is_read_before_anything_is_concluded() -> None:
    async def scene() -> None:
        world = RecommenderCluster()
        world.clock = LoopClock()  # type: ignore[assignment]
        world.deploy()
        past = Past(loads={"web-0": Load(800, 2000 * MIB)})
        bystander = Bystander(_sight(world), _SETTINGS, world.clock, past)
        await bystander.begin()
        progress = await _advance(bystander)
        ((_, _, learned),) = bystander.conclude()

        assert (progress.done, progress.all, dict(progress.problems)) == (1, 1, {})
        assert learned["app"].samples == 8 * 24 + 1
        assert min(_targets(bystander)["web"].values()) > 800

    run_virtually(scene())


def test_a_past_that_cannot_be_read_is_told_and_ends_the_wait() -> None:
    async def scene() -> None:
        world = RecommenderCluster()
        world.clock = LoopClock()  # type: ignore[assignment]
        world.deploy()
        bystander = Bystander(_sight(world), _SETTINGS, world.clock, Past(is_down=True))
        await bystander.begin()
        progress = await _advance(bystander)

        assert dict(progress.problems) == {"default": "nobody there"}
        assert progress.done == 0

    run_virtually(scene())
