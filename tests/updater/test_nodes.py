"""Nodes: no pod becomes larger than the largest of them, and the plan says so."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, an_updater, cpu, holds, let_run
from support.makers.records import MIB, a_container, a_recommendation, amounts, minutes

from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.model.workloads import Workload

HUGE = a_recommendation(target=amounts(9000, 100 * MIB), lower=amounts(8000, 100 * MIB))


def a_cluster(mode: UpdateMode = UpdateMode.IN_PLACE) -> UpdaterCluster:
    cluster = UpdaterCluster()
    cluster.deploy()
    cluster.autoscale(HUGE, mode=mode)
    node = Node("large", amounts(4000, 8192 * MIB))
    cluster.node_writer.put(StoredObject(ObjectName("", node.name), node))
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


def a_daemon_set(cluster: UpdaterCluster, cpu: int, ready: int = 1) -> None:
    """A DaemonSet whose pods take so much of each node, if they run."""
    name = WorkloadName("kube-system", "DaemonSet", "agent")
    container = a_container(requests=amounts(cpu, 100 * MIB))
    template = Pod("kube-system", "", containers=(container,))
    place = ObjectName(name.namespace, name.name)
    workload = Workload(name, replicas=1, ready=ready, updated=1, template=template)
    cluster.daemon_set_writer.put(StoredObject(place, workload))


def put_on_nodes(cluster: UpdaterCluster, *names: str) -> None:
    for pod, name in zip(cluster.pods_of("web"), names, strict=True):
        cluster.put(structs.replace(pod, node_name=name))


def neighbour(cpu: int, name: str = "beside") -> Pod:
    """A pod that no autoscaler governs."""
    return Pod(
        "other",
        name,
        uid=name,
        labels={"app": name},
        phase=PodPhase.RUNNING,
        containers=(a_container(requests=amounts(cpu, 100 * MIB)),),
        node_name="large",
    )


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.UPSCALE_ONLY])
def test_d25_pods_grow_to_what_daemon_sets_leave_of_the_largest_node(mode: UpdateMode) -> None:
    async def scene() -> None:
        cluster = a_cluster(mode)
        a_daemon_set(cluster, 500)
        updater = an_updater(cluster)
        await let_run(updater, minutes(30))

        assert cpu(cluster) == [3500, 3500]
        assert set(holds(updater).values()) == {"InsideBounds"}

    run_virtually(scene())


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.UPSCALE_ONLY])
def test_d25_a_daemon_set_that_runs_nowhere_takes_nothing_of_a_node(mode: UpdateMode) -> None:
    async def scene() -> None:
        cluster = a_cluster(mode)
        a_daemon_set(cluster, 3900, ready=0)
        updater = an_updater(cluster)
        await let_run(updater, minutes(30))

        assert cpu(cluster) == [4000, 4000]
        assert set(holds(updater).values()) == {"InsideBounds"}

    run_virtually(scene())


def test_d25_a_pod_waits_for_room_on_its_node_and_grows_when_there_is_some() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        put_on_nodes(cluster, "large", "unseen")
        beside = cluster.put(neighbour(1000))
        updater = an_updater(cluster)
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(minutes(5).total_seconds())
        asked, held = cpu(cluster), holds(updater)
        cluster.drop(beside)
        await asyncio.sleep(minutes(5).total_seconds())
        running.cancel()

        # The node of the other is not known, so nothing speaks against that resize.
        assert asked == [100, 4000]
        assert held == {"web-0": "ResizeInfeasible", "web-1": "InsideBounds"}
        assert cpu(cluster) == [4000, 4000]

    run_virtually(scene())


def test_d25_pods_that_have_ended_take_nothing_of_a_node() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        put_on_nodes(cluster, "large", "unseen")
        cluster.put(structs.replace(neighbour(1000), phase=PodPhase.SUCCEEDED))
        await let_run(an_updater(cluster), minutes(5))

        assert cpu(cluster) == [4000, 4000]

    run_virtually(scene())


def test_d25_what_a_node_has_left_counts_without_a_cap_to_the_largest_node_too() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        put_on_nodes(cluster, "large", "unseen")
        settings = replace(UNPACED, caps_to_nodes=False)
        await let_run(an_updater(cluster, settings), minutes(5))

        assert cpu(cluster) == [100, 9000]

    run_virtually(scene())
