"""Weeks of a recommender: what it keeps does not grow with what has come and gone."""

import gc
import tracemalloc
from dataclasses import dataclass
from datetime import timedelta

import pytest
from support.fakes.recommender_cluster import RecommenderCluster
from support.makers.records import MIB, a_container, amounts

from trimtab.core.model import quantities
from trimtab.recommender.state import RecommenderState

TICK = timedelta(hours=1)
TICKS_A_DAY = timedelta(days=1) // TICK
APP = a_container(requests=amounts(100, 300 * MIB), is_running=True)


@dataclass(frozen=True)
class Kept:
    """What a recommender keeps at the end of a day."""

    objects: dict[str, int]
    memory_bytes: int


def count_objects(state: RecommenderState) -> dict[str, int]:
    usage, pods, watch = state.usage, state.pods, state.oom_watch
    return {
        "aggregates": len(usage.aggregates),
        "histograms": len(usage.aggregates.cpu) + len(usage.aggregates.memory),
        "containers": len(usage.containers),
        "pods": len(pods.tracked) + len(pods.unmatched) + len(pods.ended) + len(pods.leaving),
        "kills": len(pods.counted_kills) + len(usage.aggregates.oom_ledger),
        "looks": len(watch._looks) + len(watch._gone_since) + len(watch._last_kills),
        "label sets": len(usage.links._siblings) + len(usage.links._labels_by_pin),
        "subjects": len(state.subjects) + len(usage.links.learners),
    }


def held_memory() -> int:
    """The bytes that the recommender's own code has allocated and still holds."""
    # A cache of written amounts, which has its own bound.
    quantities.format_amount.cache_clear()
    gc.collect()
    ours = [
        tracemalloc.Filter(inclusive=True, filename_pattern=f"*/trimtab/{layer}/*")
        for layer in ("recommender", "core")
    ]
    snapshot = tracemalloc.take_snapshot().filter_traces(ours)
    return sum(each.size for each in snapshot.statistics("filename"))


def come_and_go(world: RecommenderCluster, turn: int) -> None:
    """A rollout, and a job that is killed for want of memory; both have labels of their own."""
    world.start(f"web-{turn}", APP, labels={"pod-template-hash": str(turn)})
    world.start(f"job-{turn}", APP, app="job", labels={"job-name": str(turn)})
    world.kill(f"job-{turn}", is_back=False)
    if turn:
        world.end(f"web-{turn - 1}")
        world.end(f"job-{turn - 1}")


async def live_a_week(*, restarts: bool) -> list[Kept]:
    world = RecommenderCluster()
    for name in ("web", "job"):
        world.deploy(name, replicas=0)
        world.autoscale(name)
    recommender = world.recommender(interval=TICK)
    days = []
    for turn in range(7 * TICKS_A_DAY):
        come_and_go(world, turn)
        await recommender.tick()
        world.wait(TICK)
        into_the_day = turn % TICKS_A_DAY
        if restarts and into_the_day == TICKS_A_DAY // 2:
            recommender = world.recommender(interval=TICK)
        if into_the_day == TICKS_A_DAY - 1:
            world.readings.clear()
            world.compact()
            days.append(Kept(count_objects(recommender.state), held_memory()))
    return days


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a restart each day"])
async def test_f33_a_week_of_rollouts_and_jobs_keeps_memory_flat(*, restarts: bool) -> None:
    tracemalloc.start()
    try:
        days = await live_a_week(restarts=restarts)
    finally:
        tracemalloc.stop()
    second, third, *_, sixth, last = days[1:]

    assert all(last.objects[kind] <= second.objects[kind] for kind in second.objects)
    # The interpreter keeps places of numbers that are gone, more of them from day to day at first.
    assert last.memory_bytes <= 1.1 * third.memory_bytes
    assert last.memory_bytes <= 1.03 * sixth.memory_bytes
