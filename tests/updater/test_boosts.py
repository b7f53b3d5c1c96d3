"""Ends of startup boosts that do not succeed at once."""

import asyncio
from dataclasses import replace

import pytest
from makers import MIB, a_container, amounts, minutes
from updater.scenes import UP, an_updater, cpu, holds
from updater.small_cluster import SmallCluster
from virtual_time import run_virtually

from trimtab.api.statuses import Status
from trimtab.cluster.errors import ApiError, InvalidError
from trimtab.core.autoscalers import CpuBoost, UpdateMode
from trimtab.core.boost import annotation_name, format_original

MARK = annotation_name("app")


def boost(cluster: SmallCluster) -> None:
    """One of two pods has a boost that is over."""
    cluster.deploy()
    cluster.autoscale(mode=UpdateMode.IN_PLACE_OR_RECREATE, boost=CpuBoost(factor=4))
    pod = cluster.pods_of("web")[0]
    cluster.put(
        replace(
            pod,
            containers=(a_container(requests=amounts(400, 100 * MIB)),),
            annotations={MARK: format_original(pod.containers[0].spec)},
        )
    )


@pytest.mark.parametrize("act", ["resize", "patch_pod"])
def test_a_boost_that_cannot_be_ended_is_told_and_tried_again_never_evicted(act: str) -> None:
    async def scene() -> None:
        cluster = SmallCluster()
        boost(cluster)
        cluster.refusals[act] = [InvalidError("x", Status())]
        updater = an_updater(cluster)
        await updater.tick()
        await asyncio.sleep(5)
        await updater.tick()
        held = holds(updater)["web-0"]
        condition = cluster.condition("UpdatesHeld")
        await asyncio.sleep(minutes(5).total_seconds())
        await updater.tick()
        kept = [pod.name for pod in cluster.pods if MARK in pod.annotations]

        assert held == "UnboostDelayed"
        assert condition is not None
        assert condition.reason == "UnboostDelayed"
        assert cluster.events[0].reason == "StartupBoostNotEnded"
        assert cpu(cluster) == [100, 100]
        assert kept == []
        assert "evict" not in cluster.requests

    run_virtually(scene())


def test_a_resize_stands_even_if_the_pod_cannot_be_marked() -> None:
    async def scene() -> None:
        cluster = SmallCluster()
        cluster.deploy()
        cluster.autoscale(UP, mode=UpdateMode.IN_PLACE)
        cluster.refusals["patch_pod"] = [ApiError("x", Status(code=500))]
        report = await an_updater(cluster).tick()

        assert report.done("Resize") == 1
        assert cpu(cluster) == [100, 500]

    run_virtually(scene())
