"""Startup boosts on a real node: the kernel sees them begin and end, and no pod is lost for one.

The pod spec asks for 50m and 60m are recommended, written by hand; the admission controller is a
real one. Probes and durations are those of the founding document, which takes longer ones.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from e2e.node_stage import (
    LEASE,
    NodeStage,
    is_boosted,
    is_ready,
    ready_at,
    resize_reason,
    restarts,
    second_worker,
    started_at,
    uids_of,
    wait_for_ticks,
    worker,
)
from support.stages.components import SLOW_SECONDS, Json
from support.stages.updater import updater, wait_for_holds

from rig import waiting, workers

pytestmark = pytest.mark.e2e

OWN, TARGET = {"cpu": "50m", "memory": "32Mi"}, {"cpu": "60m", "memory": "32Mi"}
OWN_SHARES, TARGET_SHARES, TRIPLED_SHARES = 51, 61, 184
EVICTED = 'vpa_updater_acts_total{act="Evict",result="Done"}'
# What is not told by events comes too late.
HARDLY_EVER = "--updater-interval=10m"
READINESS: Json = {"readinessProbe": workers.HTTP_READY}
STARTUP: Json = {"startupProbe": {**workers.HTTP_READY, "failureThreshold": 90}}


def factor(times: int, seconds: int | None = None) -> Json:
    """A boost to so many times the CPU, for so long after the pod is ready."""
    timed = {} if seconds is None else {"durationSeconds": seconds}
    return {"cpu": {"type": "Factor", "factor": times, **timed}}


def quantity(amount: str) -> Json:
    """A boost by so much."""
    return {"cpu": {"type": "Quantity", "quantity": amount}}


def policies(*given: Json) -> Json:
    """What an autoscaler says about containers."""
    return {"containerPolicies": list(given)}


def start(stage: NodeStage, *containers: Json, name: str = "web", replicas: int = 1) -> list[Json]:
    """The pods of a workload, which its autoscaler has boosted."""
    stage.run(*containers, name=name, replicas=replicas)
    return stage.wait_until_observed(replicas, name)


def wait_for_ends(stage: NodeStage, pods: dict[str, Json], expected: int) -> dict[str, datetime]:
    """When the boost of each pod was first seen to be over."""
    ended: dict[str, datetime] = {}

    def look() -> dict[str, datetime]:
        for name, pod in pods.items():
            if name not in ended and stage.shares(pod) == expected:
                ended[name] = datetime.now(UTC)
        return ended

    return waiting.wait_for(
        look, lambda found: len(found) == len(pods), patience_seconds=SLOW_SECONDS
    )


def test_boosts_last_until_a_pod_is_ready_and_as_long_after_that_as_they_shall(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    probes: dict[str, Json] = {"none": {}, "readiness": READINESS, "startup": STARTUP}
    cases = {f"{name}-{seconds}": (probes[name], seconds) for name in probes for seconds in (0, 4)}
    pods = {}
    for name, (probe, seconds) in cases.items():
        boost = factor(3, seconds or None)
        node_stage.autoscale(TARGET, name=name, mode="InPlaceOrRecreate", startupBoost=boost)
        slow = worker("-ready-after=5s", requests=OWN, **probe)
        (pods[name],) = start(node_stage, slow, name=name)
    boosted = {node_stage.shares(pod) for pod in pods.values()}
    flags = node_stage.flags(LEASE, HARDLY_EVER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        ended = wait_for_ends(node_stage, pods, TARGET_SHARES)
        after = {
            name: node_stage.wait_for_pods(lambda found: not any(map(is_boosted, found)), name)[0]
            for name in cases
        }
        evicted = run.metric(EVICTED)

    assert boosted == {TRIPLED_SHARES}
    assert evicted == 0
    assert uids_of(after.values()) == uids_of(pods.values())
    assert restarts(after.values()) == 0
    for name, (_, seconds) in cases.items():
        assert ended[name] >= ready_at(after[name]) + timedelta(seconds=seconds), name


def test_a_boost_that_begins_and_ends_between_two_ticks_is_ended_by_what_happens(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    node_stage.autoscale(TARGET, mode="Recreate", startupBoost=factor(3, 4))
    flags = node_stage.flags(LEASE, HARDLY_EVER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags):
        slow = worker("-ready-after=3s", requests=OWN, **READINESS)
        (pod,) = start(node_stage, slow)
        boosted = node_stage.shares(pod)
        ended = wait_for_ends(node_stage, {"web": pod}, TARGET_SHARES)["web"]

    (after,) = node_stage.pods()
    assert boosted == TRIPLED_SHARES
    assert uids_of([after]) == uids_of([pod])
    assert ended >= ready_at(after) + timedelta(seconds=4)


@dataclass(frozen=True, slots=True)
class Case:
    """What is boosted, and what the kernel lets two containers have before and after."""

    before: tuple[int, int]
    after: tuple[int, int] = (TARGET_SHARES, TARGET_SHARES)
    spec: Json = field(default_factory=dict)
    mode: str = "Recreate"


CASES = {
    "all": Case((TRIPLED_SHARES, TRIPLED_SHARES), spec={"startupBoost": factor(3)}),
    "one": Case(
        (266, TARGET_SHARES),
        spec={
            "resourcePolicy": policies({"containerName": "c0", "startupBoost": quantity("200m")})
        },
    ),
    "all-but-one": Case(
        (TRIPLED_SHARES, TARGET_SHARES),
        spec={
            "startupBoost": factor(3),
            "resourcePolicy": policies({"containerName": "c1", "startupBoost": factor(1)}),
        },
    ),
    "off": Case((153, 153), (OWN_SHARES, OWN_SHARES), spec={"startupBoost": factor(3)}, mode="Off"),
    "container-off": Case(
        (256, TARGET_SHARES),
        (OWN_SHARES, TARGET_SHARES),
        spec={
            "resourcePolicy": policies(
                {"containerName": "c0", "mode": "Off", "startupBoost": quantity("200m")}
            )
        },
    ),
}


def test_factors_and_quantities_boost_their_containers_and_end_where_they_should(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    pods: dict[str, Json] = {}
    for name, case in CASES.items():
        node_stage.autoscale(TARGET, TARGET, name=name, mode=case.mode, **case.spec)
        containers = worker(requests=OWN), second_worker(requests=OWN)
        (pods[name],) = start(node_stage, *containers, name=name)
    before = {name: both_shares(node_stage, pod) for name, pod in pods.items()}
    flags = node_stage.flags(LEASE, HARDLY_EVER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        for name, case in CASES.items():
            wait_for_both(node_stage, pods[name], case.after)
        evicted = run.metric(EVICTED)

    after = [pod for name in CASES for pod in node_stage.pods(name)]
    assert before == {name: case.before for name, case in CASES.items()}
    assert evicted == 0
    assert uids_of(after) == uids_of(pods.values())
    assert restarts(after) == 0


def both_shares(stage: NodeStage, pod: Json) -> tuple[int, int]:
    return stage.shares(pod, "c0"), stage.shares(pod, "c1")


def wait_for_both(stage: NodeStage, pod: Json, expected: tuple[int, int]) -> None:
    waiting.wait_for(
        lambda: both_shares(stage, pod), expected.__eq__, patience_seconds=SLOW_SECONDS
    )


def test_containers_with_different_durations_are_brought_back_one_after_the_other(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    early, late = (
        {"containerName": name, "startupBoost": factor(3, seconds)}
        for name, seconds in (("c0", 1), ("c1", 15))
    )
    node_stage.autoscale(TARGET, TARGET, mode="InPlace", resourcePolicy=policies(early, late))
    (pod,) = start(node_stage, worker(requests=OWN), second_worker(requests=OWN))
    before = both_shares(node_stage, pod)
    flags = node_stage.flags(LEASE, HARDLY_EVER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags):
        wait_for_both(node_stage, pod, (TARGET_SHARES, TRIPLED_SHARES))
        wait_for_both(node_stage, pod, (TARGET_SHARES, TARGET_SHARES))

    assert before == (TRIPLED_SHARES, TRIPLED_SHARES)
    assert restarts(node_stage.pods()) == 0


def test_f25_pods_never_ready_or_without_their_autoscaler_end_their_boosts(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    never = worker("-ready-after=1h", requests=OWN, **READINESS)
    pods = []
    for name in ("stuck", "left"):
        node_stage.autoscale(TARGET, name=name, startupBoost=factor(3, 3600))
    pods += start(node_stage, never, name="stuck")
    pods += start(node_stage, worker(requests=OWN), name="left")
    boosted = [node_stage.shares(pod) for pod in pods]
    flags = node_stage.flags(LEASE, HARDLY_EVER, "--max-boost-duration=20s")
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        wait_for_holds(run, "BoostActive", name="left")
        node_stage.abandon("left")
        node_stage.wait_for_shares(pods, TARGET_SHARES)

    after = [*node_stage.pods("stuck"), *node_stage.pods("left")]
    assert boosted == [TRIPLED_SHARES] * 2
    assert not is_ready(after[0])
    assert uids_of(after) == uids_of(pods)


def test_a_boost_whose_end_is_refused_goes_on_without_an_eviction(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    node_stage.autoscale(TARGET, mode="Recreate", startupBoost=factor(3))
    pods = start(node_stage, worker(requests=OWN), replicas=2)
    flags = node_stage.flags(LEASE, "--cool-down=0s")
    with (
        node_stage.refusing_resizes(pods[0]) as allow,
        updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run,
    ):
        wait_for_holds(run, "UnboostDelayed")
        wait_for_ticks(run)
        refused = [node_stage.shares(pod) for pod in pods]
        evicted = run.metric(EVICTED)
        allow()
        node_stage.wait_for_shares(pods, TARGET_SHARES)

    after = node_stage.pods()
    assert refused == [TRIPLED_SHARES] * 2
    assert evicted == 0
    assert uids_of(after) == uids_of(pods)
    assert restarts(after) == 0


def test_a_boost_that_ends_on_a_full_node_with_a_larger_target_evicts_nobody(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    node_stage.autoscale(TARGET, mode="InPlaceOrRecreate", startupBoost=factor(3, 8))
    pods = start(node_stage, worker(requests=OWN))
    node_stage.edit({"minReplicas": 1})
    capacity = node_stage.capacity()
    node_stage.fill(capacity - 400)
    node_stage.recommend({"cpu": "800m", "memory": "32Mi"})
    flags = node_stage.flags(LEASE, "--cool-down=0s", "--evict-after-deferred-threshold=1s")
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        node_stage.wait_for_pods(lambda found: not is_boosted(found[0]) or resize_reason(found[0]))
        wait_for_ticks(run, 6)
        evicted = run.metric(EVICTED)
        node_stage.make_room()
        node_stage.wait_for_shares(pods, 819)

    assert evicted == 0
    assert uids_of(node_stage.pods()) == uids_of(pods)


def test_when_all_pods_of_a_node_start_at_once_boosts_make_room_for_one_another(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    # Six times 60m for ten pods is nearly twice the node.
    node_stage.autoscale(TARGET, mode="Recreate", startupBoost=factor(6, 1))
    slow = worker("-ready-after=1s", requests=OWN, **READINESS)
    flags = node_stage.flags(LEASE, HARDLY_EVER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        node_stage.run(slow, replicas=10)
        node_stage.kill_all()
        pods = node_stage.wait_for_pods(
            lambda found: len(found) == 10 and all(map(is_ready, found))
        )
        node_stage.wait_for_shares(pods, TARGET_SHARES)
        evicted = run.metric(EVICTED)

    after = node_stage.pods()
    assert evicted == 0
    assert uids_of(after) == uids_of(pods)
    assert restarts(after) == 0


def test_a_boost_of_three_makes_a_start_that_needs_cpu_much_faster(node_stage: NodeStage) -> None:
    own = {"cpu": "200m", "memory": "32Mi"}
    busy = worker("-start-work=2s", requests=own, limits=own, **READINESS)
    node_stage.autoscale(name="boosted", mode="Off", startupBoost=factor(3))
    start(node_stage, busy, name="boosted")
    node_stage.run(busy, name="plain", replicas=1)
    boosted, plain = (seconds_to_ready(node_stage, name) for name in ("boosted", "plain"))

    # The work is the same and the limit is three times as high; the rest is not work.
    assert boosted < plain / 1.5


def seconds_to_ready(stage: NodeStage, name: str) -> float:
    (pod,) = stage.wait_for_pods(lambda pods: all(map(is_ready, pods)), name)
    return (ready_at(pod) - started_at(pod)).total_seconds()
