"""OOM kills on their way from pods and events into targets: each exactly once, whoever tells it."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, amounts, hours, minutes

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.core.model.autoscalers import ContainerPolicy, TargetReference
from trimtab.core.model.pods import PodPhase, Termination
from trimtab.core.model.resources import Resource
from trimtab.recommender.controller import Recommender
from trimtab.recommender.reports import TickReport

APP = a_container(requests=amounts(100, 1000 * MIB), is_running=True)
SECOND = timedelta(seconds=1)


def a_world(*, replicas: int = 1) -> RecommenderCluster:
    world = RecommenderCluster()
    world.deploy("web", APP, replicas=replicas)
    world.autoscale()
    return world


async def tick(world: RecommenderCluster, recommender: Recommender) -> TickReport:
    report = await recommender.tick()
    world.wait()
    return report


def memory(world: RecommenderCluster) -> int:
    return world.target().get(Resource.MEMORY, 0)


def dead_now(world: RecommenderCluster) -> Termination:
    return Termination("OOMKilled", finished_at=world.clock.now())


async def test_a_kill_raises_the_target_in_the_next_tick() -> None:
    world = a_world()
    recommender = world.recommender()
    await tick(world, recommender)
    before = memory(world)
    world.kill("web-0")
    report = await tick(world, recommender)

    assert before < 1000 * MIB
    assert report.oom_kills.accepted == 1
    assert memory(world) >= 1200 * MIB


async def test_a_deleted_autoscaler_does_not_say_what_a_kill_means() -> None:
    """Its checkpoints are still there, and the one in its place has no policy for OOM kills."""
    world = a_world()
    world.autoscale(policies=(ContainerPolicy("*", oom_bump_up_ratio=3.0),))
    recommender = world.recommender()
    for _ in range(3):
        await tick(world, recommender)
    await recommender.save_all()
    world.remove_autoscaler()
    world.autoscale("new", target=TargetReference("Deployment", "web", "apps/v1"))
    await tick(world, recommender)
    world.kill("web-0")
    await tick(world, recommender)

    assert len(list(world.checkpoints)) >= 1
    assert 1200 * MIB <= world.target("new")[Resource.MEMORY] < 2000 * MIB


@pytest.mark.parametrize("is_back", [True, False], ids=["runs again", "lies dead"])
async def test_f7_a_kill_counts_once_in_whatever_states_the_container_is_seen(
    *, is_back: bool
) -> None:
    world = a_world()
    recommender = world.recommender()
    reports = [await tick(world, recommender)]
    world.kill("web-0", is_back=False)
    reports.append(await tick(world, recommender))
    killed = world.pod("web-0")
    (down,) = killed.containers
    waiting = structs.replace(
        down, termination=None, last_termination=down.termination, restart_count=1
    )
    world.put_pod(structs.replace(killed, containers=(waiting,)))
    reports.append(await tick(world, recommender))
    world.put_pod(
        structs.replace(killed, containers=(structs.replace(waiting, is_running=is_back),))
    )
    reports.append(await tick(world, recommender))

    assert [report.oom_kills.accepted for report in reports] == [0, 1, 0, 0]


async def test_f7_a_pod_that_is_never_restarted_is_counted_when_it_is_first_seen_dead() -> None:
    world = a_world(replicas=0)
    recommender = world.recommender()
    await tick(world, recommender)
    dead = structs.replace(APP, is_running=False, termination=dead_now(world))
    world.start("web-0", dead, phase=PodPhase.FAILED)
    reports = [await tick(world, recommender) for _ in range(3)]

    assert [report.oom_kills.accepted for report in reports] == [1, 0, 0]
    assert memory(world) >= 1200 * MIB


async def test_f8_a_pod_that_is_gone_before_its_kill_is_read_still_counts() -> None:
    world = a_world()
    recommender = world.recommender()
    running = asyncio.create_task(recommender.run())
    await world.tick_done()
    world.kill("web-0", is_back=False)
    await asyncio.sleep(0)
    world.end("web-0")
    await world.tick_done()
    await world.tick_done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert memory(world) >= 1200 * MIB


async def test_f5_f8_a_job_that_lived_between_two_ticks_teaches_and_is_not_forgotten() -> None:
    world = a_world(replicas=0)
    recommender = world.recommender()
    running = asyncio.create_task(recommender.run())
    await world.tick_done()
    dead = structs.replace(APP, is_running=False, termination=dead_now(world))
    world.start("web-job-1", dead, phase=PodPhase.FAILED, labels={"job": "1"})
    await asyncio.sleep(0)
    world.end("web-job-1")
    for _ in range(65):
        await world.tick_done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert memory(world) >= 1200 * MIB
    assert len(recommender._state.usage.containers) == 0


async def test_f6_a_kill_seconds_before_the_edge_of_a_window_is_recorded_once() -> None:
    world = a_world()
    recommender = world.recommender()
    for _ in range(24):
        await recommender.tick()
        world.wait(hours(1))
    world.wait(-SECOND * 2)
    edge = world.clock.now()
    world.kill("web-0", at=edge)
    world.wait(SECOND * 5)
    reports = [await tick(world, recommender) for _ in range(3)]

    assert [report.oom_kills.accepted for report in reports] == [1, 0, 0]
    await recommender.save_all()
    supplement = world.checkpoint().supplement
    assert supplement is not None
    assert [level.needed_bytes for level in supplement.oom_levels] == [1200 * MIB]


async def test_f9_the_target_reaches_the_need_of_one_pod_in_forty_within_a_few_kills() -> None:
    world = a_world(replicas=40)
    recommender = world.recommender()
    await tick(world, recommender)
    need, kills = 3000 * MIB, 0
    while memory(world) < need:
        kills += 1
        world.kill("web-7")
        await tick(world, recommender)
        grown = structs.replace(
            world.pod("web-7").containers[0],
            spec=structs.replace(APP.spec, requests=amounts(100, memory(world))),
        )
        world.put_pod(structs.replace(world.pod("web-7"), containers=(grown,)))
        await tick(world, recommender)

    assert kills <= 8


async def test_f9_what_kills_taught_survives_restarts_for_eight_days_and_no_longer() -> None:
    world = a_world(replicas=40)
    recommender = world.recommender()
    await tick(world, recommender)
    low = memory(world)
    world.kill("web-7")
    await tick(world, recommender)
    for _ in range(7):
        await recommender.save_all()
        recommender = world.recommender()
        world.wait(timedelta(days=1))
        await tick(world, recommender)

    assert memory(world) == 1200 * MIB
    world.wait(timedelta(days=1))
    await tick(world, recommender)
    assert memory(world) == low


async def test_kills_of_a_pod_that_never_gets_to_run_always_lead_to_the_same_target() -> None:
    world = RecommenderCluster()
    world.deploy("web", APP, replicas=0)
    world.autoscale()
    recommender = world.recommender(garbage_interval=minutes(10))
    running = asyncio.create_task(recommender.run())
    await world.tick_done()
    sidecar = a_container("sidecar", requests=amounts(10, 10 * MIB), is_running=False)
    world.start("web-0", sidecar, APP, phase=PodPhase.PENDING)
    targets = []
    for minute in range(35):
        if minute % 5 == 0:
            world.kill("web-0", is_back=False)
        await world.tick_done()
        targets.append(world.target(container="sidecar"))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert {told.get(Resource.MEMORY) for told in targets[3:]} == {250 * MIB}


async def test_f10_a_kill_before_any_sample_gives_a_recommendation() -> None:
    world = a_world()
    world.silent.add("web-0")
    world.kill("web-0")
    await tick(world, world.recommender())

    assert memory(world) >= 1200 * MIB
    assert Resource.CPU not in world.target()


async def test_f15_a_storm_of_kills_is_bounded_by_the_largest_node() -> None:
    world = a_world()
    recommender = world.recommender(oom_ceiling_bytes=8000 * MIB)
    for _ in range(60):
        world.kill("web-0")
        await tick(world, recommender)
        container = world.pod("web-0").containers[0]
        spec = structs.replace(container.spec, requests=amounts(100, memory(world)))
        world.put_pod(
            structs.replace(world.pod("web-0"), containers=(structs.replace(container, spec=spec),))
        )

    assert memory(world) <= 8000 * MIB * 1.05 * 1.15


async def test_f15_a_storm_of_kills_asks_for_no_more_than_the_largest_node_in_sight_has() -> None:
    world = a_world()
    world.add_node("small", 2000 * MIB)
    world.add_node("large", 8000 * MIB)
    recommender = world.recommender()
    for _ in range(250):
        world.kill("web-0")
        await tick(world, recommender)
        container = world.pod("web-0").containers[0]
        spec = structs.replace(container.spec, requests=amounts(100, memory(world)))
        world.put_pod(
            structs.replace(world.pod("web-0"), containers=(structs.replace(container, spec=spec),))
        )

    assert 7000 * MIB < memory(world) <= 8000 * MIB


async def test_nodes_that_tell_nothing_bound_nothing() -> None:
    world = a_world()
    world.add_node("new", 0)
    world.kill("web-0")
    await tick(world, world.recommender())

    assert memory(world) >= 1200 * MIB


async def test_a_kill_is_saved_though_nothing_else_was_learned() -> None:
    world = a_world()
    recommender = world.recommender()
    await tick(world, recommender)
    await recommender.save_all()
    world.silent.add("web-0")
    world.kill("web-0")
    await recommender.tick()
    report = await recommender.save_all()

    assert report.checkpoints_written == 1
    supplement = world.checkpoint().supplement
    assert supplement is not None
    assert supplement.oom_levels


async def test_a_kill_that_was_counted_before_a_restart_is_not_counted_again() -> None:
    world = a_world()
    recommender = world.recommender()
    await tick(world, recommender)
    world.kill("web-0")
    await tick(world, recommender)
    await recommender.save_all()
    report = await tick(world, world.recommender())

    assert report.oom_kills.accepted == 0


async def test_a_kill_that_nobody_had_seen_before_a_restart_is_counted_after_it() -> None:
    world = a_world()
    recommender = world.recommender()
    await tick(world, recommender)
    world.kill("web-0")
    await recommender.save_all()
    world.wait()
    report = await tick(world, world.recommender())

    assert report.oom_kills.accepted == 1


async def test_f8_an_eviction_that_is_told_after_its_pod_is_gone_still_counts() -> None:
    world = a_world()
    eviction = MemoryEviction("default", "web-0", "app", 5000 * MIB, world.clock.now())
    recommender = world.recommender()
    running = asyncio.create_task(recommender.run())
    await world.tick_done()
    world.end("web-0")
    await world.tick_done()
    recommender.state.oom_watch.note_eviction(eviction)
    await world.tick_done()
    await world.tick_done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert memory(world) >= 6000 * MIB
    assert len(recommender.state.usage.containers) == 0


async def test_an_eviction_for_want_of_memory_counts_with_what_was_used() -> None:
    world = a_world()
    eviction = MemoryEviction("default", "web-0", "app", 5000 * MIB, world.clock.now())
    unknown = replace(eviction, pod="never-seen")
    for each in (eviction, unknown, eviction):
        world.truth.evictions.append(each)
    recommender = world.recommender()
    running = asyncio.create_task(recommender.run())
    for _ in range(3):
        await world.tick_done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert memory(world) >= 6000 * MIB


async def test_a_pod_recreated_under_its_name_may_be_killed_again() -> None:
    world = a_world()
    recommender = world.recommender()
    await tick(world, recommender)
    world.kill("web-0")
    reports = [await tick(world, recommender)]
    world.start("web-0", APP)
    reports.append(await tick(world, recommender))
    world.kill("web-0")
    reports.append(await tick(world, recommender))

    assert [report.oom_kills.accepted for report in reports] == [1, 0, 1]


async def test_kills_of_containers_that_nobody_is_for_are_told_apart() -> None:
    world = a_world()
    world.start("lone", APP, app="lone")
    recommender = world.recommender(memory_saver=True)
    running = asyncio.create_task(recommender.run())
    await world.tick_done()
    world.kill("lone")
    total = TickReport()
    for _ in range(3):
        await world.tick_done()
        result = recommender.last_result
        total += result.report if result and result.report else TickReport()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert (total.oom_kills.accepted, total.unplaced_oom_kills) == (0, 1)


async def test_memory_use_above_the_request_is_what_counts() -> None:
    world = a_world()
    world.loads[""] = Load(memory=3000 * MIB)
    recommender = world.recommender()
    await tick(world, recommender)
    world.kill("web-0")
    await tick(world, recommender)
    world.wait(minutes(1))

    assert memory(world) >= 3600 * MIB
