from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from simulation.bare_cluster import (
    a_cluster,
    a_placed_pod,
    a_template,
    a_workload,
    passing,
    virtually,
)
from support.makers.records import NOW, a_container

from trimtab.core.model.pods import PodPhase
from trimtab.simulation.controllers.replicas import _dispensability

KINDS = pytest.mark.parametrize(
    "kind",
    [
        pytest.param("ReplicaSet", id="a ReplicaSet"),
        pytest.param("ReplicationController", id="a ReplicationController"),
        pytest.param("Fleet", id="a kind that nobody knows"),
    ],
)


@KINDS
@virtually
async def test_a_workload_gets_as_many_pods_as_it_wants(kind: str) -> None:
    async with a_cluster() as cluster:
        workload = cluster.world.add_workload(a_workload(kind, replicas=4))
        await passing(minutes=1)
        pods = cluster.pods("web")

    assert len(pods) == 4
    assert {pod.owner for pod in pods} == {workload.reference}
    assert all(pod.ready_since for pod in pods)
    assert all(pod.name.startswith("web-") and len(pod.name) == 9 for pod in pods)


@KINDS
@pytest.mark.parametrize("wanted", [0, 1, 6])
@virtually
async def test_a_workload_that_is_scaled_follows(kind: str, wanted: int) -> None:
    async with a_cluster() as cluster:
        workload = cluster.world.add_workload(a_workload(kind, replicas=3))
        await passing(minutes=1)
        before = cluster.pods("web")
        cluster.change(workload, replicas=wanted)
        await passing(minutes=1)
        after = cluster.pods("web")

    assert len(after) == wanted
    assert len({pod.uid for pod in before} & {pod.uid for pod in after}) == min(3, wanted)


@virtually
async def test_a_pod_that_goes_is_replaced_by_another_at_once() -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_workload("ReplicaSet"))
        await passing(minutes=1)
        gone = cluster.pods("web")[0]
        cluster.serving.delete_pod(gone)
        await passing(seconds=2)
        # The old one is still there, and its successor need not wait for it.
        present = [pod.uid for pod in cluster.world.pods]
        pods = cluster.pods("web")

    assert len(pods) == 3
    assert gone.uid in present
    assert gone.name not in [pod.name for pod in pods]


@virtually
async def test_a_pod_that_failed_is_replaced_and_stays_to_be_seen() -> None:
    async with a_cluster() as cluster:
        cluster.world.add_workload(a_workload("ReplicaSet"))
        await passing(minutes=1)
        failed = structs.replace(cluster.pods("web")[0], phase=PodPhase.FAILED, ready_since=None)
        cluster.world.pods.put(failed)
        await passing(minutes=1)

        assert len(cluster.pods("web")) == 3
        assert len(cluster.world.pods) == 4


@virtually
async def test_those_go_first_that_do_the_least() -> None:
    async with a_cluster(nodes=1) as cluster:
        workload = cluster.world.add_workload(a_workload("ReplicaSet", replicas=4))
        await passing(minutes=1)
        unready, *ready = cluster.pods("web")
        cluster.world.pods.put(structs.replace(unready, ready_since=None))
        young = ready[1]
        assert young.ready_since is not None
        later = young.ready_since + timedelta(seconds=30)
        cluster.world.pods.put(structs.replace(young, ready_since=later))
        # There is no room for two more.
        cluster.world.nodes.delete("", "node-0")
        cluster.change(workload, replicas=6)
        await passing(minutes=1)
        left = []
        for size in (4, 3, 2):
            cluster.change(workload, replicas=size)
            await passing(minutes=1)
            left.append({pod.uid for pod in cluster.pods("web")})

    old = {ready[0].uid, ready[2].uid}
    assert left == [{unready.uid, young.uid, *old}, {young.uid, *old}, old]


@virtually
async def test_a_kind_that_lets_others_make_its_pods_makes_none() -> None:
    async with a_cluster() as cluster:
        fleet = cluster.world.add_workload(a_workload("Fleet", replicas=2))
        below = a_workload("ReplicaSet", "web-1", replicas=2, owner=fleet.reference)
        cluster.world.add_workload(replace(below, template=a_template("web")))
        await passing(minutes=1)
        pods = cluster.pods("web")

    assert {pod.owner.kind for pod in pods if pod.owner} == {"ReplicaSet"}
    assert len(pods) == 2


def test_the_order_in_which_pods_are_given_up_is_total() -> None:
    moment = NOW - timedelta(hours=1)
    restarted = a_container(restart_count=3)
    pods = [
        a_placed_pod(name="waits", node_name="", phase=PodPhase.PENDING, ready_since=None),
        a_placed_pod(name="starts", phase=PodPhase.PENDING, ready_since=None),
        a_placed_pod(name="is broken", ready_since=None),
        a_placed_pod(name="has a neighbour", node_name="b", ready_since=moment),
        a_placed_pod(name="the neighbour", node_name="b", ready_since=moment),
        a_placed_pod(name="is young", node_name="c"),
        a_placed_pod(restarted, name="restarted", node_name="d", ready_since=moment),
        a_placed_pod(name="came late", node_name="e", ready_since=moment, created_at=NOW),
        a_placed_pod(name="came early", node_name="f", ready_since=moment, created_at=moment),
    ]
    shuffled = sorted(pods, key=lambda pod: pod.name)

    assert sorted(shuffled, key=_dispensability(pods)) == pods
