"""Ours in the place of the original and back, on the checkpoints that both of them write."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from e2e.components import SLOW_SECONDS, Run, install, running
from e2e.conftest import Bring
from e2e.worlds import World, a_template

from rig import controlplane, processes, programs, waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from trimtab.core.autoscalers import ContainerRecommendation

pytestmark = pytest.mark.e2e

ORIGINAL = "original-recommender"
TICKS = 'vpa_recommender_execution_latency_seconds_count{step="total"}'
SHORT_WINDOWS = (
    # A checkpoint holds no window that is still open, and nothing shall age out meanwhile.
    "--memory-aggregation-interval=5s",
    "--memory-aggregation-interval-count=1000",
)

ours = partial(running, "recommender")


@contextmanager
def original(kubeconfig: Path, folder: Path, *flags: str) -> Iterator[Run]:
    """The original's recommender for as long as the block lasts."""
    (port,) = controlplane.free_ports(1)
    given = [f"--kubeconfig={kubeconfig}", f"--address={LOOPBACK}:{port}", *flags]
    with processes.running(programs.find(ORIGINAL), given, folder) as process:
        run = Run(process, port)
        process.wait_until(lambda: run.ask("/health-check")[0] == 200)
        yield run


@pytest.fixture
def world(cluster: ControlPlane, namespace: str, bring: Bring) -> World:
    bring(ORIGINAL)
    install(cluster)
    made = World(cluster, namespace)
    made.deploy(a_template())
    made.autoscale()
    return made


def wait_for_samples(world: World, count: int) -> None:
    """Return once so many samples are stored."""
    waiting.wait_for(
        lambda: world.stored().total_samples_count,
        lambda found: found >= count,
        patience_seconds=2 * SLOW_SECONDS,
    )


def wait_for_ticks(run: Run, count: int = 3) -> None:
    """Return once so many more ticks are over."""
    begun = run.metric(TICKS)
    waiting.wait_for(
        lambda: run.metric(TICKS),
        lambda found: found >= begun + count,
        patience_seconds=SLOW_SECONDS,
    )


def wait_for_word(world: World) -> tuple[ContainerRecommendation, ...]:
    return waiting.wait_for(world.recommendation, bool, patience_seconds=SLOW_SECONDS)


def test_ours_goes_on_where_the_original_ended_and_the_original_where_ours_did(
    world: World, tmp_path: Path
) -> None:
    flags = world.flags(*SHORT_WINDOWS)
    kubeconfig = world.plane.kubeconfig
    with original(kubeconfig, tmp_path, *flags) as run:
        wait_for_samples(world, 3)
        world.stop_pods()
        wait_for_ticks(run)
        by_original = world.recommendation()
    learned = world.stored()

    world.forget_status()
    with ours(kubeconfig, tmp_path, *flags, "--checkpoint-rotation=2s") as run:
        taken_over = wait_for_word(world)
        world.scale(1)
        wait_for_samples(world, learned.total_samples_count + 2)
        world.stop_pods()
        wait_for_ticks(run)
        target = world.target()
        run.end()
    saved = world.stored()

    world.forget_status()
    with original(kubeconfig, tmp_path, *flags) as run:
        given_back = wait_for_word(world)
        wait_for_ticks(run)

    assert taken_over == by_original
    assert saved.total_samples_count >= learned.total_samples_count + 2
    assert saved.first_sample_start == learned.first_sample_start
    assert saved.cpu_histogram.total_weight > learned.cpu_histogram.total_weight
    assert saved.memory_histogram.total_weight >= learned.memory_histogram.total_weight
    assert [dict(one.target) for one in given_back] == [target]
    assert world.stored().total_samples_count == saved.total_samples_count
