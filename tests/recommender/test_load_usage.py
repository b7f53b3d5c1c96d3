"""Usage that is missing, broken, half or late: nothing falls by it, and autoscalers say so."""

import math
from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec import structs
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, amounts, minutes

from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.model.pods import ContainerKind
from trimtab.core.model.resources import Resource
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.recommender.controller import Recommender
from trimtab.recommender.reports import Step, TickReport


def a_world(*, replicas: int = 4) -> RecommenderCluster:
    world = RecommenderCluster()
    world.deploy(replicas=replicas)
    world.autoscale()
    return world


async def work(world: RecommenderCluster, recommender: Recommender, ticks: int) -> None:
    for _ in range(ticks):
        await recommender.tick()
        world.wait()


def fail(world: RecommenderCluster) -> None:
    world.failing.add("fetch")


def fall_silent(world: RecommenderCluster) -> None:
    world.silent |= {pod.name for pod in world.pods}


def grow_stale(world: RecommenderCluster) -> None:
    world.read_at = world.clock.now() - minutes(1)


def break_numbers(world: RecommenderCluster) -> None:
    world.loads[""] = Load(math.nan, math.nan)


def lie_about_time(world: RecommenderCluster) -> None:
    world.read_at = world.clock.now() + timedelta(days=400)


FAULTS = [fail, fall_silent, grow_stale, break_numbers, lie_about_time]


@pytest.mark.parametrize("break_usage", FAULTS, ids=lambda fault: fault.__name__)
async def test_f13_an_hour_without_usage_freezes_targets_and_says_so(
    break_usage: Callable[[RecommenderCluster], None],
) -> None:
    world = a_world()
    recommender = world.recommender()
    await work(world, recommender, 3)
    before = world.target()
    break_usage(world)
    await work(world, recommender, 60)
    stale = world.condition("UsageStale")

    assert world.target() == before
    assert stale is not None
    assert (stale.status, stale.reason) == ("True", "NoRecentSamples")
    world.loads, world.read_at = {}, None
    world.failing.clear()
    world.silent.clear()
    await work(world, recommender, 2)
    assert world.condition("UsageStale") is None
    assert world.target() == before


async def test_f13_half_of_the_samples_still_teach_and_nobody_is_stale() -> None:
    world = a_world()
    recommender = world.recommender()
    world.silent |= {"web-0", "web-1"}
    report = await recommender.tick()
    await work(world, recommender, 30)

    assert report.cpu.accepted == 2
    assert world.condition("UsageStale") is None


async def test_f13_a_container_of_which_alone_nothing_is_read_is_named() -> None:
    world = RecommenderCluster()
    one, other = a_container("app"), a_container("side")
    world.deploy("web", one, other)
    world.autoscale()
    world.loads["side"] = Load(math.nan, math.nan)
    await work(world, world.recommender(), 10)
    stale = world.condition("UsageStale")

    assert stale is not None
    assert "side" in stale.message
    assert "app" not in stale.message
    assert world.target(container="app")
    assert not world.target(container="side")


async def test_f12_a_tick_in_which_nothing_can_be_asked_leaves_everything_as_it_was() -> None:
    world = a_world()
    recommender = world.recommender()
    await work(world, recommender, 3)
    autoscaler = world.autoscaler()
    world.failing |= {"fetch", "workload", "publish_status", "save_checkpoint"}
    report = await recommender.tick()

    assert {problem.step for problem in report.problems} == {
        Step.LOAD_AUTOSCALERS,
        Step.LOAD_USAGE,
        Step.PUBLISH,
    }
    assert world.autoscaler() is autoscaler
    world.failing.clear()
    world.wait()
    report = await recommender.tick()
    assert (report.problems, report.cpu.accepted, report.pods) == ((), 4, 4)


async def test_f12_before_pods_could_be_listed_nothing_is_taken_for_gone() -> None:
    world = a_world()
    recommender = world.recommender()
    await work(world, recommender, 3)
    before = world.target()
    restarted = world.recommender()
    world.view_age = None
    blind = await restarted.tick()
    world.view_age = timedelta()
    await work(world, restarted, 1)

    assert blind == TickReport()
    assert world.requests["delete_checkpoint"] == 0
    assert world.target() == before


async def test_f12_what_is_known_of_sidecars_does_not_grow_from_tick_to_tick() -> None:
    world = RecommenderCluster()
    sidecar = a_container("proxy", kind=ContainerKind.SIDECAR)
    world.deploy("web", a_container("app"), sidecar)
    world.autoscale()
    recommender = world.recommender()
    sizes = set()
    for _ in range(20):
        await work(world, recommender, 1)
        # The pod is told anew, as it is after each change of its status.
        world.put_pod(structs.replace(world.pod("web-0"), resource_version=str(world.clock.now())))
        usage = recommender.state.usage
        sizes.add((len(usage.containers), len(usage.aggregates)))

    assert sizes == {(2, 2)}


async def test_samples_that_cannot_be_are_refused_and_counted() -> None:
    world = a_world(replicas=3)
    world.loads["web-0"] = Load(-5, -5)
    world.loads["web-1"] = Load(math.nan, math.inf)
    report = await world.recommender().tick()

    assert (report.cpu.accepted, report.cpu.absurd) == (1, 2)
    assert (report.memory.accepted, report.memory.absurd) == (1, 2)


async def test_a_late_answer_tells_nothing_of_a_pod_that_was_not_there_yet() -> None:
    world = a_world(replicas=1)
    recommender = world.recommender()
    await work(world, recommender, 2)
    world.read_at = world.clock.now() - minutes(1)
    pod = world.pod("web-0")
    world.end("web-0")
    await work(world, recommender, 1)
    world.put_pod(structs.replace(pod, uid="another", created_at=world.clock.now()))
    report = await recommender.tick()

    assert (report.cpu.accepted, report.cpu.outdated) == (0, 1)


async def test_f11_the_floor_of_a_renamed_container_is_not_split_over_a_ghost() -> None:
    world = RecommenderCluster()
    world.deploy("web", a_container("old"))
    world.autoscale()
    world.loads[""] = Load(cpu=1, memory=1 * MIB)
    recommender = world.recommender()
    await work(world, recommender, 3)
    world.end("web-0")
    world.start("web-1", a_container("new"))
    await work(world, recommender, 3)

    assert world.target(container="new") == amounts(25, 250 * MIB)


def said(world: RecommenderCluster) -> list[str]:
    return [one.container_name for one in world.autoscaler().recommendation or ()]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["all along", "after a restart"])
@pytest.mark.parametrize("has_samples", [False, True], ids=["not measured yet", "measured"])
async def test_a_container_that_no_pod_has_leaves_the_status_within_one_tick(
    *, has_samples: bool, is_restarted: bool
) -> None:
    world = RecommenderCluster()
    world.deploy("web", a_container("old"), a_container("app"))
    world.autoscale()
    recommender = world.recommender()
    await work(world, recommender, 3)
    await recommender.save_all()
    if is_restarted:
        recommender = world.recommender()
    world.end("web-0")
    world.start("web-1", a_container("app"), a_container("new"))
    if not has_samples:
        world.silent.add("web-1")
    await work(world, recommender, 1)

    assert said(world) == (["app", "new"] if has_samples else ["app"])
    assert {one.container_name for one in world.checkpoints} >= {"old", "app"}


async def test_a_container_leaves_the_status_though_nothing_is_known_of_its_successor() -> None:
    world = RecommenderCluster()
    world.deploy("web", a_container("old"))
    world.autoscale()
    recommender = world.recommender()
    await work(world, recommender, 3)
    world.end("web-0")
    world.start("web-1", a_container("new"))
    world.silent.add("web-1")
    await work(world, recommender, 1)

    assert said(world) == []


async def test_a_container_whose_history_was_lost_leaves_the_status_when_no_pod_has_it() -> None:
    world = RecommenderCluster()
    world.deploy("web", a_container("old"), a_container("app"))
    world.autoscale()
    await work(world, world.recommender(), 3)
    for checkpoint in list(world.checkpoints):
        await world.delete_checkpoint(checkpoint.namespace, checkpoint.name)
    world.end("web-0")
    world.start("web-1", a_container("app"))
    await work(world, world.recommender(), 1)

    assert said(world) == ["app"]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["all along", "after a restart"])
async def test_a_workload_without_pods_keeps_its_status(*, is_restarted: bool) -> None:
    world = RecommenderCluster()
    world.deploy("web", a_container("old"), a_container("app"))
    world.autoscale()
    recommender = world.recommender()
    await work(world, recommender, 3)
    await recommender.save_all()
    if is_restarted:
        recommender = world.recommender()
    world.end("web-0")
    await work(world, recommender, 15)

    assert said(world) == ["app", "old"]


async def test_a_container_that_comes_back_is_recommended_from_its_history() -> None:
    world = RecommenderCluster()
    world.deploy("web", a_container("old"))
    world.autoscale()
    world.loads["old"] = Load(cpu=2000)
    recommender = world.recommender()
    await work(world, recommender, 60)
    before = world.target(container="old")
    world.end("web-0")
    world.start("web-1", a_container("new"))
    await work(world, recommender, 3)
    world.end("web-1")
    world.start("web-2", a_container("old"))
    world.silent.add("web-2")
    await work(world, recommender, 1)

    assert said(world) == ["old"]
    assert world.target(container="old") == before


SHORT = UsageSettings(memory_interval=minutes(10), memory_interval_count=6)


async def test_f11_what_was_known_of_a_renamed_container_ages_out_with_its_checkpoint() -> None:
    world = RecommenderCluster()
    world.deploy("web", a_container("old"))
    world.autoscale()
    recommender = world.recommender(usage=SHORT)
    await work(world, recommender, 3)
    await recommender.save_all()
    world.end("web-0")
    world.start("web-1", a_container("new"))
    restarted = world.recommender(usage=SHORT)
    await work(world, restarted, 125)

    said = world.autoscaler().recommendation or ()
    assert [one.container_name for one in said] == ["new"]
    assert {one.container_name for one in world.checkpoints} == {"new"}


async def test_f33_rollouts_and_jobs_with_labels_of_their_own_leave_memory_flat() -> None:
    world = a_world(replicas=0)
    recommender = world.recommender(usage=SHORT, garbage_interval=minutes(10))
    sizes = []
    for rollout in range(300):
        world.start(f"web-{rollout}", labels={"hash": str(rollout)})
        if rollout:
            world.end(f"web-{rollout - 1}")
        await work(world, recommender, 1)
        sizes.append(len(recommender._state.usage.aggregates))

    assert max(sizes[150:]) <= max(sizes[:150])
    assert max(sizes) <= 75
    assert len(recommender._state.usage.containers) == 1
    assert len(recommender._state.oom_watch._looks) <= 12
    assert len(recommender._state.pods.counted_kills) <= 1


async def test_f5_a_container_with_memory_alone_is_not_taken_for_garbage() -> None:
    world = a_world(replicas=1)
    world.loads[""] = Load(math.nan, 900 * MIB)
    recommender = world.recommender(usage=SHORT)
    await work(world, recommender, 130)

    assert world.target() == {Resource.MEMORY: world.target()[Resource.MEMORY]}
    assert world.target()[Resource.MEMORY] > 900 * MIB


async def test_a_policy_may_switch_a_container_off() -> None:
    world = a_world()
    world.autoscale(policies=(ContainerPolicy("app", max_allowed=amounts(cpu=50)),))
    await work(world, world.recommender(), 1)

    assert world.target()[Resource.CPU] == 50
