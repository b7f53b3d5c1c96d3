import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from simulation.bare_cluster import (
    BareCluster,
    a_cluster,
    a_node,
    a_placed_pod,
    a_template,
    a_workload,
    passing,
    virtually,
)
from support.makers.records import amounts

from trimtab.core.model.json_patch import Patch
from trimtab.core.model.pods import OwnerReference, Pod, PodPhase
from trimtab.simulation.controllers.manager import ENDED_KEPT, RESYNC_INTERVAL
from trimtab.simulation.world.objects import QuotaObject, WorkloadObject
from trimtab.simulation.world.virtual_time import run_virtually

KINDS = (
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Fleet",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "Rollout",
    "StatefulSet",
)


def one_of_each(cluster: BareCluster) -> list[WorkloadObject]:
    return [cluster.world.add_workload(a_workload_of(kind)) for kind in KINDS]


def a_workload_of(kind: str) -> WorkloadObject:
    name = kind.lower()
    runs_for = timedelta(seconds=30) if kind in ("CronJob", "Job") else None
    every = timedelta(minutes=5) if kind == "CronJob" else None
    template = a_template(name, runs_for=runs_for)
    replicas = None if kind == "CronJob" else 2
    return a_workload(kind, name, replicas=replicas, template=template, every=every)


@virtually
async def test_what_a_workload_owns_goes_with_it() -> None:
    async with a_cluster() as cluster:
        workloads = one_of_each(cluster)
        await passing(minutes=6)
        before = len(cluster.world.pods)
        for workload in workloads:
            cluster.delete(workload)
        await passing(minutes=1)

        assert before > len(KINDS)
        assert len(cluster.world.pods) == 0
        assert sum(len(table) for table in cluster.world.workloads.values()) == 0


@virtually
async def test_a_workload_that_is_made_anew_gets_pods_of_its_own() -> None:
    async with a_cluster() as cluster:
        workload = cluster.world.add_workload(a_workload())
        await passing(minutes=1)
        old = {pod.uid for pod in cluster.pods("web")}
        cluster.delete(workload)
        cluster.world.add_workload(a_workload())
        await passing(minutes=1)
        new = {pod.uid for pod in cluster.pods("web")}

        assert len(new) == 3
        assert old.isdisjoint(new)
        assert len(cluster.world.pods) == 3


@virtually
async def test_a_pod_whose_owner_does_not_exist_is_taken_away() -> None:
    async with a_cluster() as cluster:
        owner = OwnerReference("ReplicaSet", "gone", "apps/v1", "gone")
        await cluster.admitting.create_pod("default", "orphan", a_template(), owner)
        await cluster.admitting.create_pod("default", "free", a_template(), None)
        await passing(minutes=1)

        assert [pod.name for pod in cluster.world.pods] == ["free"]


@virtually
async def test_pods_that_a_quota_forbids_are_missing_until_it_has_room() -> None:
    async with a_cluster() as cluster:
        cluster.world.quotas.put(QuotaObject("default", "room", amounts(cpu=200)))
        cluster.world.add_workload(a_workload("ReplicaSet", replicas=5))
        await passing(minutes=5)
        before = len(cluster.pods("web"))
        cluster.world.quotas.delete("default", "room")
        await passing(minutes=20)

        assert before == 2
        assert len(cluster.pods("web")) == 5


@virtually
async def test_a_quota_that_is_full_is_asked_ever_more_rarely() -> None:
    asked: list[timedelta] = []

    async def webhook(_: Pod) -> Patch:
        asked.append(cluster.world.clock.elapsed())
        return ()

    async with a_cluster() as cluster:
        cluster.admitting.webhooks = [webhook]
        cluster.world.quotas.put(QuotaObject("default", "room", amounts(cpu=0)))
        cluster.world.add_workload(a_workload("ReplicaSet", replicas=50))
        await passing(minutes=5)

    waits = [round((later - sooner).total_seconds()) for sooner, later in pairwise(asked)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128]


@virtually
async def test_whoever_succeeded_is_patient_anew() -> None:
    async with a_cluster() as cluster:
        quota = cluster.world.quotas.put(QuotaObject("default", "room", amounts(cpu=100)))
        workload = cluster.world.add_workload(a_workload("ReplicaSet", replicas=2))
        await passing(minutes=5)
        cluster.world.quotas.delete("default", "room")
        await passing(minutes=10)
        cluster.world.quotas.put(replace(quota, requests=amounts(cpu=200)))
        cluster.change(workload, replicas=3)
        await passing(seconds=3)
        cluster.world.quotas.delete("default", "room")
        await passing(seconds=3)

        assert len(cluster.pods("web")) == 3


@virtually
async def test_a_slow_webhook_delays_nobody_but_those_who_ask_it() -> None:
    async def webhook(pod: Pod) -> Patch | None:
        await asyncio.sleep(10 if pod.labels["app"] == "slow" else 0)
        return None

    async with a_cluster() as cluster:
        cluster.admitting.webhooks = [webhook]
        cluster.world.add_workload(a_workload("ReplicaSet", "slow", replicas=30))
        cluster.world.add_workload(a_workload("ReplicaSet", "quick", replicas=30))
        await passing(seconds=5)
        soon = len(cluster.pods("slow")), len(cluster.pods("quick"))
        await passing(minutes=1)

        assert soon == (0, 30)
        # One, then two, four, eight and the rest at once: five times ten seconds.
        assert len(cluster.pods("slow")) == 30


@virtually
async def test_a_workload_that_changes_while_its_pods_are_made_is_looked_at_again() -> None:
    async def webhook(_: Pod) -> Patch | None:
        await asyncio.sleep(10)
        return None

    async with a_cluster() as cluster:
        cluster.admitting.webhooks = [webhook]
        workload = cluster.world.add_workload(a_workload("ReplicaSet", replicas=1))
        await passing(seconds=5)
        cluster.change(workload, replicas=0)
        await passing(seconds=30)

        assert len(cluster.pods("web")) == 0


@virtually
async def test_of_pods_that_have_ended_only_the_last_are_left_to_be_seen() -> None:
    async with a_cluster() as cluster:
        await passing(seconds=1)
        for number in range(ENDED_KEPT + 3):
            name, phase = f"pod-{number}", PodPhase.FAILED
            cluster.world.pods.put(a_placed_pod(name=name, phase=phase, node_name=""))
        await passing(seconds=RESYNC_INTERVAL.total_seconds())

        assert next(iter(cluster.world.pods)).name == "pod-3"
        assert len(cluster.world.pods) == ENDED_KEPT


@virtually
async def test_where_nothing_changes_nothing_is_written() -> None:
    async with a_cluster() as cluster:
        for kind in KINDS:
            if kind != "CronJob":
                cluster.world.add_workload(a_workload_of(kind))
        await passing(minutes=10)
        latest = cluster.world.versions.latest
        await passing(seconds=10 * RESYNC_INTERVAL.total_seconds())

        assert cluster.world.versions.latest == latest


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Something that happens to a cluster, drawn by number."""

    what: str
    number: int
    after: timedelta


DISTURBANCES = st.builds(
    Disturbance,
    st.sampled_from(
        (
            "delete pod",
            "fail pod",
            "unready pod",
            "scale",
            "roll out",
            "add node",
            "remove node",
            "lose node",
        )
    ),
    st.integers(0, 1000),
    st.integers(0, 90).map(lambda seconds: timedelta(seconds=seconds)),
)


@given(st.lists(DISTURBANCES, max_size=12), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_after_any_disturbance_pods_are_as_wanted_and_stay_so(
    disturbances: list[Disturbance], seed: int
) -> None:
    async def play() -> None:
        async with a_cluster(seed=seed) as cluster:
            for kind in KINDS:
                if kind not in ("CronJob", "Job"):
                    cluster.world.add_workload(a_workload_of(kind))
            await passing(minutes=1)
            for disturbance in disturbances:
                _disturb(cluster, disturbance)
                await passing(seconds=disturbance.after.total_seconds())
            _mend(cluster)
            await passing(minutes=15)
            _mend(cluster)
            await passing(minutes=15)
            latest = cluster.world.versions.latest
            await passing(minutes=30)

            assert cluster.world.versions.latest == latest
            for kind in KINDS:
                _check(cluster, kind)

    run_virtually(play())


def _disturb(cluster: BareCluster, disturbance: Disturbance) -> None:
    random, world = Random(disturbance.number), cluster.world
    if disturbance.what.endswith("pod"):
        _disturb_pod(cluster, disturbance.what, random)
        return
    table = world.workloads_of(random.choice(("Deployment", "Fleet", "Rollout", "StatefulSet")))
    (workload,) = table
    node = random.choice(list(world.nodes) or [a_node("node-9")])
    match disturbance.what:
        case "scale":
            table.put(replace(workload, replicas=random.randint(0, 5)))
        case "roll out":
            table.put(replace(workload, revision=workload.revision + 1))
        case "add node":
            world.nodes.put(a_node(f"node-{random.randint(3, 6)}"))
        case "remove node":
            world.nodes.delete("", node.name)
        case _:
            world.nodes.put(replace(node, is_ready=False))


def _disturb_pod(cluster: BareCluster, what: str, random: Random) -> None:
    pods = [pod for pod in cluster.world.pods if pod.phase is PodPhase.RUNNING]
    if not pods:
        return
    pod = random.choice(pods)
    match what:
        case "delete pod":
            cluster.serving.delete_pod(pod)
        case "fail pod":
            failed = structs.replace(pod, phase=PodPhase.FAILED, ready_since=None)
            cluster.world.pods.put(failed)
        case _:
            cluster.world.pods.put(structs.replace(pod, ready_since=None))


def _mend(cluster: BareCluster) -> None:
    """What kubelets and the node lifecycle would do: nodes are back, pods of no node go."""
    world = cluster.world
    world.nodes.put(a_node())
    for node in world.nodes:
        if not node.is_ready:
            world.nodes.put(replace(node, is_ready=True))
    for pod in world.pods:
        if pod.node_name and world.nodes.find("", pod.node_name) is None:
            cluster.serving.remove_pod(pod)
        elif pod.phase is PodPhase.RUNNING and pod.ready_since is None and not pod.is_deleting:
            world.pods.put(structs.replace(pod, ready_since=world.now()))


def _check(cluster: BareCluster, kind: str) -> None:
    for workload in cluster.world.workloads_of(kind):
        if workload.owner is not None or kind in ("CronJob", "Job"):
            continue
        pods = cluster.pods(workload.name)
        wanted = len(cluster.world.nodes) if kind == "DaemonSet" else workload.replicas
        assert len(pods) == wanted, workload.identity
        assert all(pod.ready_since is not None for pod in pods)
        owners = [cluster.world.find_owner(pod.namespace, pod.owner) for pod in pods]
        assert all(owner is not None for owner in owners)
        if kind in ("Deployment", "Rollout"):
            assert {owner.revision for owner in owners if owner} <= {workload.revision}
        if kind == "StatefulSet":
            names = [f"{workload.name}-{ordinal}" for ordinal in range(workload.replicas or 0)]
            assert [pod.name for pod in pods] == names


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_makes_the_same_pods_in_the_same_order(seed: int) -> None:
    async def play() -> list[object]:
        async with a_cluster(seed=seed) as cluster:
            told: list[object] = []
            cluster.world.pods.subscribe(told.append)
            one_of_each(cluster)
            await passing(minutes=30)
            return told

    assert run_virtually(play()) == run_virtually(play())
