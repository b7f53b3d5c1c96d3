"""Targets of the cost-based estimator in whole recommenders: their start and their owners."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, amounts

from trimtab.api.explain.recommendation import NumbersFrom, Origin
from trimtab.core.model.autoscalers import AutoscalerName, TargetReference
from trimtab.core.model.estimation import ESTIMATOR_ANNOTATION
from trimtab.core.model.resources import Resource
from trimtab.recommender import pages
from trimtab.recommender.controller import Recommender
from trimtab.recommender.settings import RecommenderSettings

COST = {ESTIMATOR_ANNOTATION: "cost"}
GIB = 1024 * MIB
BOOST = {
    "vpaCpuStartupBoost/app": '{"requests":{"cpu":"300m"}}',
    "vpaUpdates": "Pod resources updated by web: container 0: cpu request",
}
LARGE, SMALL = (a_container(requests=amounts(100, size)) for size in (8 * GIB, 200 * MIB))


async def tick(cluster: RecommenderCluster, recommender: Recommender, times: int = 3) -> None:
    """Let minutes pass, with a tick in each."""
    for _ in range(times):
        await recommender.tick()
        cluster.wait()


async def held_and_then_given_up() -> tuple[RecommenderCluster, Recommender]:
    """A workload held 8 GiB, and its autoscaler chose percentiles before a restart."""
    cluster = RecommenderCluster()
    cluster.deploy("web", LARGE)
    cluster.autoscale(annotations=COST)
    before = cluster.recommender()
    await tick(cluster, before)
    assert cluster.target()[Resource.MEMORY] == 8 * GIB
    await before.save_all()
    cluster.autoscale(annotations={})
    recommender = cluster.recommender()
    await tick(cluster, recommender)
    assert cluster.target()[Resource.MEMORY] < GIB
    return cluster, recommender


async def test_saved_targets_come_back_when_their_estimator_is_chosen_again() -> None:
    cluster, recommender = await held_and_then_given_up()
    cluster.autoscale(annotations=COST)
    await tick(cluster, recommender)

    assert cluster.target()[Resource.MEMORY] == 8 * GIB


async def test_saved_targets_are_not_for_another_workload() -> None:
    cluster, recommender = await held_and_then_given_up()
    cluster.deploy("other", SMALL)
    cluster.autoscale(target=TargetReference("Deployment", "other", "apps/v1"))
    await tick(cluster, recommender)
    cluster.autoscale(annotations=COST)
    await tick(cluster, recommender)

    assert cluster.target()[Resource.MEMORY] < GIB


async def test_saved_targets_go_with_their_autoscaler() -> None:
    cluster, recommender = await held_and_then_given_up()
    cluster.remove_autoscaler()
    cluster.end("web-0")
    # Until its checkpoints are deleted, and its state with them.
    await tick(cluster, recommender, 15)
    cluster.start("web-1", SMALL)
    cluster.autoscale(annotations=COST)
    await tick(cluster, recommender)

    assert cluster.target()[Resource.MEMORY] < GIB


async def restarted() -> tuple[RecommenderCluster, Recommender]:
    """A recommender has ended, and the next one has not seen anything yet."""
    cluster = RecommenderCluster()
    cluster.deploy("web", SMALL)
    cluster.autoscale(annotations=COST)
    cluster.loads = {"": Load(memory=50 * MIB)}
    before = cluster.recommender()
    await tick(cluster, before)
    assert cluster.target()[Resource.MEMORY] == 250 * MIB
    await before.save_all()
    return cluster, cluster.recommender()


async def test_an_oom_kill_during_a_restart_raises_the_target() -> None:
    cluster, recommender = await restarted()
    cluster.kill("web-0")
    cluster.wait()
    await tick(cluster, recommender, 1)

    assert cluster.target()[Resource.MEMORY] == 400 * MIB


async def test_the_first_reading_after_a_restart_raises_the_target() -> None:
    cluster, recommender = await restarted()
    cluster.loads = {"": Load(memory=GIB)}
    await tick(cluster, recommender, 1)

    assert cluster.target()[Resource.MEMORY] > GIB


async def test_a_target_does_not_start_from_a_startup_boost() -> None:
    cluster = RecommenderCluster()
    cluster.deploy(replicas=0)
    cluster.start(
        "web-0",
        a_container(requests=amounts(900, 200 * MIB)),
        annotations=BOOST,
    )
    cluster.loads = {"": Load(cpu=100)}
    cluster.autoscale(annotations=COST)
    await tick(cluster, cluster.recommender(), 20)

    assert cluster.target()[Resource.CPU] == 300


async def test_a_checkpoint_from_the_future_of_one_autoscaler_harms_no_other() -> None:
    cluster = RecommenderCluster()
    for name in ("web", "other"):
        cluster.deploy(name, SMALL)
        cluster.autoscale(name)
    before = cluster.recommender()
    await tick(cluster, before)
    await before.save_all()
    stored = cluster.checkpoint()
    histogram = replace(
        stored.aggregate.cpu_histogram, reference_time=datetime(2200, 1, 1, tzinfo=UTC)
    )
    cluster.store_checkpoint(
        replace(stored, aggregate=replace(stored.aggregate, cpu_histogram=histogram))
    )
    cluster.autoscale(annotations=COST)
    cluster.autoscale("other", recommendation=None)
    await tick(cluster, cluster.recommender(), 1)

    assert cluster.target("other")[Resource.MEMORY] >= 300 * MIB
    assert cluster.target()[Resource.MEMORY] >= 300 * MIB


def start_slowly(cluster: RecommenderCluster, annotations: Mapping[str, str] | None = None) -> None:
    """A pod begins to start, not ready yet, and uses ten times what it needs later."""
    cluster.start(
        "web-0", a_container(requests=amounts(300, 200 * MIB)), annotations=annotations or {}
    )
    cluster.loads = {"": Load(cpu=3000)}


def become_ready(cluster: RecommenderCluster) -> None:
    pod = cluster.pod("web-0")
    cluster.put_pod(structs.replace(pod, ready_since=cluster.clock.now(), annotations={}))


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="a slow start"),
        pytest.param(BOOST, id="a boosted start"),
    ],
)
async def test_cpu_of_a_start_is_no_need(annotations: dict[str, str]) -> None:
    cluster = RecommenderCluster()
    cluster.deploy(replicas=0)
    start_slowly(cluster, annotations=annotations)
    cluster.autoscale(annotations=COST)
    recommender = cluster.recommender()
    await tick(cluster, recommender, 25)
    become_ready(cluster)
    await tick(cluster, recommender, 2)
    cluster.loads = {"": Load(cpu=250)}
    await tick(cluster, recommender, 30)

    assert cluster.target()[Resource.CPU] == 300


async def test_a_target_is_explained_before_any_cpu_counts() -> None:
    cluster = RecommenderCluster()
    cluster.deploy(replicas=0)
    start_slowly(cluster)
    cluster.autoscale(annotations=COST)
    recommender = cluster.recommender()
    await tick(cluster, recommender, 5)
    origin = Origin(NumbersFrom.RECOMMENDER, cluster.clock.now())
    name = AutoscalerName("default", "web")
    page = pages.explain(recommender.state, name, RecommenderSettings(), origin)

    assert page is not None
    (cpu,) = [one for one in page.containers[0].resources if one.resource == "cpu"]
    assert cpu.target is not None
    assert cpu.target.value == "300m"


async def test_the_start_of_every_further_pod_is_no_need_either() -> None:
    cluster = RecommenderCluster()
    cluster.deploy(replicas=0)
    long_ago = cluster.clock.now() - timedelta(hours=5)
    size = a_container(requests=amounts(300, 200 * MIB))
    cluster.start("web-1", size, started_at=long_ago, ready_since=long_ago)
    cluster.loads = {"": Load(cpu=250)}
    cluster.autoscale(annotations=COST)
    recommender = cluster.recommender()
    await tick(cluster, recommender, 30)
    start_slowly(cluster)
    cluster.loads = {"web-0": Load(cpu=3000), "": Load(cpu=250)}
    await tick(cluster, recommender, 25)

    assert cluster.target()[Resource.CPU] == 300


async def test_a_pod_that_never_becomes_ready_gets_the_cpu_that_it_uses() -> None:
    cluster = RecommenderCluster()
    cluster.deploy(replicas=0)
    start_slowly(cluster)
    cluster.autoscale(annotations=COST)
    await tick(cluster, cluster.recommender(), 75)

    assert cluster.target()[Resource.CPU] > 3000


async def test_percentiles_count_starts_as_the_original_does() -> None:
    cluster = RecommenderCluster()
    cluster.deploy(replicas=0)
    start_slowly(cluster)
    cluster.autoscale()
    await tick(cluster, cluster.recommender(), 25)

    assert cluster.target()[Resource.CPU] > 3000
