"""Nodes: no pod becomes larger than the largest of them, and the plan says so."""

from dataclasses import replace

import pytest
from makers import MIB, a_recommendation, amounts, minutes
from updater.scenes import UNPACED, an_updater, cpu, holds, let_run
from updater.small_cluster import SmallCluster
from virtual_time import run_virtually

from trimtab.api.watch_events import Entry, ObjectName
from trimtab.core.autoscalers import UpdateMode
from trimtab.core.nodes import Node

HUGE = a_recommendation(target=amounts(9000, 100 * MIB), lower=amounts(8000, 100 * MIB))


def a_cluster(mode: UpdateMode = UpdateMode.IN_PLACE) -> SmallCluster:
    cluster = SmallCluster()
    cluster.deploy()
    cluster.autoscale(HUGE, mode=mode)
    node = Node("large", amounts(4000, 8192 * MIB))
    cluster.node_writer.put(Entry(ObjectName("", node.name), node))
    return cluster


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.UPSCALE_ONLY])
def test_f21_pods_grow_to_the_size_of_the_largest_node_and_then_rest(mode: UpdateMode) -> None:
    async def scene() -> None:
        cluster = a_cluster(mode)
        updater = an_updater(cluster)
        await let_run(updater, minutes(30))

        assert cpu(cluster) == [4000, 4000]
        assert len(cluster.acts) == 2
        assert set(holds(updater).values()) == {"InsideBounds"}

    run_virtually(scene())


def test_nodes_that_come_when_needed_do_not_bound_anything() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        await let_run(an_updater(cluster, replace(UNPACED, caps_to_nodes=False)), minutes(30))

        assert cpu(cluster) == [9000, 9000]

    run_virtually(scene())
