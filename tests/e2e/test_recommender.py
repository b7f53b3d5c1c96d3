"""The recommender as a cluster runs it: a real process, a real API server, real usage."""

import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from e2e.worlds import World, a_template
from support.makers.records import MIB
from support.makers.usage import a_selector
from support.stages.components import (
    SLOW_SECONDS,
    Lacking,
    an_account,
    install,
    rights_of,
    running,
)

from rig import waiting, workers
from rig.controlplane import ControlPlane
from rig.node import Node
from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.checkpoints import Checkpoint, decode_checkpoint, encode_checkpoint
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.recommendation.recommender import Publications
from trimtab.core.usage.aggregates import UsageSettings, to_seconds
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.samples import Samples

pytestmark = pytest.mark.e2e

TICKS = 'vpa_recommender_execution_latency_seconds_count{step="total"}'
CPU_SAMPLES = 'vpa_recommender_samples_total{kind="cpu",outcome="accepted"}'
OOM_KILLS = 'vpa_recommender_samples_total{kind="oom_kill",outcome="accepted"}'

RIGHTS = rights_of("recommender")

recommender = partial(running, "recommender")


@pytest.fixture(
    params=[
        pytest.param(
            Lacking(
                "metrics.k8s.io",
                "pods",
                "list",
                "missing right: list pods.metrics.k8s.io in {namespace}",
            ),
            id="to read usage",
        ),
        pytest.param(
            Lacking(
                "coordination.k8s.io",
                "leases",
                "get",
                "missing right: get leases.coordination.k8s.io in {namespace}",
            ),
            id="to take part in the election",
        ),
        pytest.param(
            Lacking(
                "autoscaling.k8s.io",
                "verticalpodautoscalers/status",
                "patch",
                "missing right: patch verticalpodautoscalers/status.autoscaling.k8s.io"
                " in {namespace}",
            ),
            id="to publish",
        ),
        pytest.param(
            Lacking("", "pods", "list", "missing right: list pods in {namespace}"),
            id="to see pods",
        ),
    ]
)
def lacking(request: pytest.FixtureRequest) -> Lacking:
    found = request.param
    assert isinstance(found, Lacking)
    return found


@pytest.fixture(scope="module")
def installed_on_node(node_cluster: Node) -> ControlPlane:
    install(node_cluster.plane)
    return node_cluster.plane


@pytest.fixture
def node_world(installed_on_node: ControlPlane, node_namespace: str) -> World:
    return World(installed_on_node, node_namespace)


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    install(cluster)
    return cluster


@pytest.fixture
def world(installed: ControlPlane, namespace: str) -> World:
    made = World(installed, namespace)
    made.deploy(a_template())
    made.autoscale()
    return made


def core_target(world: World, memory_bytes: int) -> Resources:
    """What the core says of the CPU samples in the checkpoint, and of one memory reading."""
    _, body = world.plane.request("GET", world.autoscaler)
    autoscaler = decode_autoscaler(body)
    _, body = world.plane.request("GET", f"{world.checkpoints}/web-app")
    checkpoint = decode_checkpoint(body)
    now = checkpoint.aggregate.last_update_time
    assert now is not None
    settings = RecommendationSettings()
    usage = Usage(UsageSettings(), settings)
    publications = Publications(usage, settings)
    usage.learn(autoscaler, a_selector(app="web"))
    usage.restore(autoscaler.identity, "app", checkpoint.aggregate)
    usage.track(PodName(world.namespace, "web-0"), {"app": "web"}, ["app"], now)
    row = usage.containers_of(PodName(world.namespace, "web-0"))["app"]
    seconds = to_seconds(now, missing=0.0)
    reading = Samples(
        np.array([row]), np.array([float(memory_bytes)]), np.array([seconds], np.float64)
    )
    usage.add_memory(reading, seconds)
    (container,) = publications.refresh()[autoscaler.identity].containers
    return container.target


def test_recommendations_come_with_the_first_tick_and_are_those_of_the_core(
    world: World, tmp_path: Path
) -> None:
    world.wait_until_measured()
    calm = ("--recommender-interval=10m", f"--vpa-object-namespace={world.namespace}")
    with recommender(world.plane.kubeconfig, tmp_path, *calm) as run:
        target = world.wait_for_target()
        ticks = waiting.wait_for(lambda: run.metric(TICKS), bool)
        ready = run.ask("/readyz")
        code = run.end()

    assert ticks == 1
    assert ready == (200, "OK")
    assert code == 0
    assert target == core_target(world, 400 * MIB)
    assert target[Resource.CPU] == pytest.approx(150 * 1.15, rel=0.25)


def test_what_was_learned_is_saved_at_the_end_and_survives_a_restart(
    world: World, tmp_path: Path
) -> None:
    world.wait_until_measured()
    with recommender(world.plane.kubeconfig, tmp_path, *world.flags()) as first:
        before = world.wait_for_target()
        samples = waiting.wait_for(lambda: first.metric(CPU_SAMPLES), bool)
        first.end()
    _, body = world.plane.request("GET", f"{world.checkpoints}/web-app")
    world.stop_pods()
    world.forget_status()
    forgotten = world.target()
    with recommender(world.plane.kubeconfig, tmp_path, *world.flags()):
        after = world.wait_for_target()

    assert decode_checkpoint(body).aggregate.total_samples_count >= samples
    assert forgotten == {}
    assert after == before


def test_a_process_that_was_killed_learns_on_within_two_minutes_of_the_next_start(
    world: World, tmp_path: Path
) -> None:
    """Row R5: the restart shows in the checkpoint, with the rotation of ten minutes."""
    world.wait_until_measured()
    with recommender(world.plane.kubeconfig, tmp_path, *world.flags()) as first:
        world.wait_for_target()
        before = waiting.wait_for(world.stored, lambda one: one.total_samples_count > 0)
        first.kill()
    with recommender(world.plane.kubeconfig, tmp_path, *world.flags()):
        after = waiting.wait_for(
            world.stored,
            lambda one: one.total_samples_count > before.total_samples_count,
            patience_seconds=120,
        )

    assert after.first_sample_start == before.first_sample_start


def test_f38_an_orphan_goes_within_one_interval_and_takes_no_other_right(
    world: World, tmp_path: Path
) -> None:
    """Rows R1 and G1."""
    orphan = Checkpoint(world.namespace, "gone", "app", AggregateCheckpoint())
    made, _ = world.plane.request("POST", world.checkpoints, encode_checkpoint(orphan))
    world.wait_until_measured()
    kubeconfig = an_account(world.plane, world.namespace, RIGHTS, tmp_path)
    interval = "--checkpoints-gc-interval=30s"
    with recommender(kubeconfig, tmp_path, *world.flags(interval)) as run:
        world.wait_for_target()
        begun = time.monotonic()
        waiting.wait_for(
            lambda: world.plane.request("GET", f"{world.checkpoints}/gone-app")[0],
            lambda status: status == 404,
            patience_seconds=SLOW_SECONDS,
        )
        taken = time.monotonic() - begun
        ready = run.ask("/readyz")

    assert made == 201
    assert taken < 45
    assert ready == (200, "OK")
    assert world.stored().total_samples_count > 0


def test_of_two_processes_one_acts_and_the_other_takes_over_when_it_ends(
    world: World, tmp_path: Path
) -> None:
    flags = world.flags("--leader-elect")
    kubeconfig = world.plane.kubeconfig
    with (
        recommender(kubeconfig, tmp_path, *flags, name="first") as first,
        recommender(kubeconfig, tmp_path, *flags, name="second") as second,
    ):
        waiting.wait_for(first.leads, bool)
        world.wait_for_target()
        waits, ready = not second.leads(), second.ask("/readyz")
        idle = second.metric(TICKS)
        code = first.end()
        waiting.wait_for(second.leads, bool)
        works = waiting.wait_for(lambda: second.metric(TICKS), bool)

    assert waits
    assert ready == (200, "OK")
    assert (idle, code) == (0, 0)
    assert works >= 1


def test_a_right_that_is_missing_is_named_by_readiness(
    world: World, tmp_path: Path, lacking: Lacking
) -> None:
    rights = lacking.taken_from(RIGHTS)
    kubeconfig = an_account(world.plane, world.namespace, rights, tmp_path)
    with recommender(kubeconfig, tmp_path, *world.flags("--leader-elect")) as run:
        status, told = run.wait_until("/readyz", lambda answer: "missing right" in answer[1])
        alive = run.ask("/health-check")

    assert status == 500
    assert lacking.told.format(namespace=world.namespace) in told.splitlines()
    assert alive == (200, "OK")


def test_usage_on_a_real_node_becomes_a_target_with_a_margin(
    node_world: World, tmp_path: Path
) -> None:
    node_world.deploy(workers.template([workers.container("-cpu=150", "-memory=300")]))
    node_world.autoscale()
    with recommender(node_world.plane.kubeconfig, tmp_path, *node_world.flags()):
        target = node_world.wait_for_target()

    # A busy machine may give less than is wanted, and the start of a program costs more.
    assert target[Resource.CPU] == pytest.approx(150 * 1.15, rel=0.4)
    ends_of_buckets = [int(10 * (1.05**number - 1) / 0.05) for number in range(1, 176)]
    assert target[Resource.CPU] in [end + int(end * 0.15) for end in ends_of_buckets]
    assert 300 * MIB * 1.15 <= target[Resource.MEMORY] < 400 * MIB * 1.15


def test_an_oom_kill_on_a_real_node_raises_the_memory_target(
    node_world: World, tmp_path: Path
) -> None:
    greedy = workers.container(
        "-memory=200", "-grow=50", requests={"memory": "400Mi"}, limits={"memory": "400Mi"}
    )
    node_world.deploy(workers.template([greedy]))
    node_world.autoscale()
    with recommender(node_world.plane.kubeconfig, tmp_path, *node_world.flags()) as run:
        kills = waiting.wait_for(lambda: run.metric(OOM_KILLS), bool, patience_seconds=SLOW_SECONDS)
        target = node_world.wait_for_target(lambda told: told and told[Resource.MEMORY] > 500 * MIB)

    # 400 MiB and the bump of at least 100 MiB, in the bucket of that, and the margin.
    assert kills >= 1
    assert target[Resource.MEMORY] >= 500 * MIB * 1.15
