"""Namespaces that share the rate limit of the whole cluster (D26)."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, an_updater, cpu, let_run, planning
from support.makers.records import MIB, a_recommendation, amounts, minutes

from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model.autoscalers import UpdateMode

SLOW = PaceSettings(per_second=0.05, burst=1, slow_start=timedelta())
"""Three acts a minute."""


def recommend(cluster: UpdaterCluster, name: str, millicores: int, mode: UpdateMode) -> None:
    wanted = amounts(millicores, 100 * MIB)
    recommendation = a_recommendation(target=wanted, lower=wanted, upper=wanted)
    cluster.autoscale(recommendation, name=name, mode=mode)


async def swing(cluster: UpdaterCluster, names: list[str], mode: UpdateMode) -> None:
    """Let the recommendations of a tenant swing, so that its pods always want a large change."""
    millicores = 5_000
    while True:
        for name in names:
            recommend(cluster, name, millicores, mode)
        millicores = 15_000 - millicores
        # Just before the next tick: an edit withdraws the acts that wait.
        await asyncio.sleep(59)


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE])
def test_a_tenant_whose_pods_swing_does_not_keep_another_one_waiting(mode: UpdateMode) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        swinging = [f"swing-{number}" for number in range(30)]
        for name in swinging:
            cluster.deploy(name, namespace="swings")
        for namespace in ("calm", "other"):
            cluster.deploy(namespace, namespace=namespace)
            recommend(cluster, namespace, 200, mode)
        settings = planning(cool_down=timedelta())
        updater = an_updater(cluster, replace(settings, pace=SLOW))
        swinging_on = asyncio.create_task(swing(cluster, swinging, mode))
        await let_run(updater, minutes(6))
        swinging_on.cancel()

        assert cpu(cluster, "calm") == [200, 200]
        assert cpu(cluster, "other") == [200, 200]
        # The rest of the rate is for the pods that swing.
        assert len(cluster.acts) >= 10

    run_virtually(scene())


def test_waiting_acts_are_counted_by_namespace() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for name, namespace in (("a", "shop"), ("b", "shop"), ("c", "crm")):
            cluster.deploy(name, namespace=namespace)
            recommend(cluster, name, 200, UpdateMode.RECREATE)
        pace = replace(SLOW, per_second=0.001)
        updater = an_updater(cluster, replace(UNPACED, pace=pace))
        report = await updater.tick()

        assert report.waiting == 2
        assert updater.count_waiting() == {"shop": 2}

    run_virtually(scene())
