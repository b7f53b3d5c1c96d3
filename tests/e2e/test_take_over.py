"""Ours in the place of the original and back: checkpoints, the webhook's registration, leases.

These are the steps of docs/migrate.md.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from e2e.conftest import Bring
from e2e.worlds import World, a_template
from support.makers.certificates import a_pair, an_authority
from support.readers.metrics_page import contradictions
from support.stages.admission import REGISTRATIONS, Stage
from support.stages.components import SLOW_SECONDS, Json, Run, install, running

from reference import original_metrics
from rig import controlplane, processes, programs, waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from trimtab.api.kinds.webhook_configurations import decode_registration
from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.webhook.registration import MAIN

pytestmark = pytest.mark.e2e

ORIGINAL = "original-recommender"
ORIGINAL_WEBHOOK = "original-admission"
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


@contextmanager
def original_webhook(stage: Stage, folder: Path, port: int) -> Iterator[Run]:
    """The original's admission controller, registered by itself, for as long as the block lasts."""
    authority = an_authority()
    pair = a_pair(authority, "webhook")
    for name, text in (
        ("tls.crt", pair.certificate),
        ("tls.key", pair.key),
        ("ca.crt", authority.certificate),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    (told_at,) = controlplane.free_ports(1)
    flags = [
        f"--kubeconfig={stage.plane.kubeconfig}",
        f"--address={LOOPBACK}:{told_at}",
        *asked_at(stage, port),
        f"--tls-cert-file={folder / 'tls.crt'}",
        f"--tls-private-key={folder / 'tls.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
    ]
    with processes.running(programs.find(ORIGINAL_WEBHOOK), flags, folder) as process:
        yield Run(process, told_at)


def asked_at(stage: Stage, port: int) -> list[str]:
    """The flags by which either admission controller is asked at a port of loopback."""
    return [
        f"--port={port}",
        "--register-by-url",
        f"--webhook-address=https://{LOOPBACK}",
        f"--webhook-port={port}",
        f"--vpa-object-namespace={stage.namespace}",
        f"--status-lease-namespace={stage.namespace}",
    ]


def wait_until_asked_at(stage: Stage, port: int) -> None:
    """Return once the API server asks the webhook at that port, and no other one."""

    def ports() -> list[str]:
        _, body = stage.plane.request("GET", REGISTRATIONS)
        found = [
            decode_registration(json.dumps(each).encode()) for each in json.loads(body)["items"]
        ]
        mains = [main for each in found if (main := each.find(MAIN))]
        return [str(main.address).rstrip("/").rpartition(":")[2] for main in mains]

    waiting.wait_for(ports, lambda found: found == [str(port)], patience_seconds=SLOW_SECONDS)


def renewed_pod(stage: Stage) -> str:
    """The CPU request of a pod that was created now, with its size."""
    stage.plane.request("DELETE", stage.pods)
    fresh = stage.observed_pod(lambda pod: "requests" in resources(pod))
    return str(resources(fresh)["requests"]["cpu"])


def resources(pod: Json) -> Json:
    found: Json = pod["spec"]["containers"][0].get("resources", {})
    return found


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
        _, told = run.ask("/metrics")
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

    assert contradictions(told, original_metrics.RECOMMENDER) == {}
    assert taken_over == by_original
    assert saved.total_samples_count >= learned.total_samples_count + 2
    assert saved.first_sample_start == learned.first_sample_start
    assert saved.cpu_histogram.total_weight > learned.cpu_histogram.total_weight
    assert saved.memory_histogram.total_weight >= learned.memory_histogram.total_weight
    assert [dict(one.target) for one in given_back] == [target]
    assert world.stored().total_samples_count == saved.total_samples_count


def test_the_original_reads_checkpoints_with_held_targets_and_ours_finds_them_again(
    world: World, tmp_path: Path
) -> None:
    flags = world.flags(*SHORT_WINDOWS)
    held = (*flags, "--estimator=cost")
    kubeconfig = world.plane.kubeconfig
    with ours(kubeconfig, tmp_path, *held, "--checkpoint-rotation=2s") as run:
        wait_for_samples(world, 3)
        world.stop_pods()
        wait_for_ticks(run)
        by_cost = world.target()
        run.end()
    saved = world.stored()

    world.forget_status()
    with ours(kubeconfig, tmp_path, *flags, name="percentile") as run:
        by_percentile = dict(wait_for_word(world)[0].target)
        run.end()

    world.forget_status()
    with original(kubeconfig, tmp_path, *flags) as run:
        given_back = dict(wait_for_word(world)[0].target)
        wait_for_ticks(run)

    world.forget_status()
    with ours(kubeconfig, tmp_path, *held, name="cost-again"):
        again = dict(wait_for_word(world)[0].target)

    assert by_cost != by_percentile
    assert given_back == by_percentile
    assert again == by_cost
    assert world.stored().total_samples_count == saved.total_samples_count


def test_one_registration_serves_whichever_webhook_runs(
    cluster: ControlPlane,
    namespace: str,
    bring: Bring,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bring(ORIGINAL_WEBHOOK)
    install(cluster)
    monkeypatch.setenv("NAMESPACE", namespace)
    theirs, mine = controlplane.free_ports(2)
    stage = Stage(cluster, namespace)
    stage.autoscale({})
    given = []
    try:
        with original_webhook(stage, tmp_path, theirs) as run:
            wait_until_asked_at(stage, theirs)
            stage.recommend({"app": {"cpu": "300m", "memory": "300Mi"}})
            stage.deploy({"containers": [{"name": "app", "image": "none"}]})
            given.append(renewed_pod(stage))
            _, told = run.ask("/metrics")
        flags = [*asked_at(stage, mine), f"--bind-address={LOOPBACK}"]
        with running("admission-controller", cluster.kubeconfig, tmp_path, *flags):
            wait_until_asked_at(stage, mine)
            stage.recommend({"app": {"cpu": "400m", "memory": "300Mi"}})
            given.append(renewed_pod(stage))
        with original_webhook(stage, tmp_path, theirs):
            wait_until_asked_at(stage, theirs)
            stage.recommend({"app": {"cpu": "500m", "memory": "300Mi"}})
            given.append(renewed_pod(stage))
    finally:
        cluster.request("DELETE", f"{REGISTRATIONS}/vpa-webhook-config")

    assert given == ["300m", "400m", "500m"]
    assert contradictions(told, original_metrics.ADMISSION) == {}


def test_while_the_original_leads_ours_waits_and_then_takes_its_turn(
    world: World, tmp_path: Path
) -> None:
    electing = world.flags(
        "--leader-elect=true",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=1s",
    )
    kubeconfig = world.plane.kubeconfig
    with ours(kubeconfig, tmp_path, *electing) as first:
        waiting.wait_for(first.leads, bool, patience_seconds=SLOW_SECONDS)
        first.end()
    with original(kubeconfig, tmp_path, *electing) as theirs:
        wait_for_ticks(theirs)
        with ours(kubeconfig, tmp_path, *electing) as run:
            _, reason = run.wait_until(
                "/readyz", lambda answer: "vpa-recommender-lease" in answer[1]
            )
            led_meanwhile = run.leads()
            theirs.process.popen.terminate()
            waiting.wait_for(run.leads, bool, patience_seconds=SLOW_SECONDS)
            wait_for_ticks(run, 1)

    assert not led_meanwhile
    assert "vpa-recommender-lease" in reason
