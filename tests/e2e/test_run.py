"""All components in one process beside a real cluster, and a horizontal autoscaler beside them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.stages.admission import OBSERVED, REGISTRATIONS
from support.stages.components import (
    SLOW_SECONDS,
    Json,
    Lacking,
    Run,
    an_account,
    install,
    rights_of,
    running,
)
from support.stages.updater import (
    SMALL,
    TARGET,
    Stage,
    conditions,
    requests,
    updater,
    wait_for_holds,
)

from rig import controlplane, waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

pytestmark = pytest.mark.e2e

COMPONENTS = ("recommender", "updater", "admission-controller", "roles")
RECOMMENDER_LEASE = "vpa-recommender-lease"


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    install(cluster)
    return cluster


@pytest.fixture
def stage(installed: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("NAMESPACE", namespace)
    return Stage(installed, namespace)


@contextmanager
def all_together(stage: Stage, folder: Path, *flags: str) -> Iterator[Run]:
    """Everything in one process, which the API server asks on loopback."""
    (port,) = controlplane.free_ports(1)
    given = (
        f"--bind-address={LOOPBACK}",
        f"--port={port}",
        "--register-by-url",
        f"--webhook-address=https://{LOOPBACK}",
        f"--webhook-port={port}",
        f"--vpa-object-namespace={stage.namespace}",
        f"--leader-elect-resource-namespace={stage.namespace}",
        "--status-lease-update-interval=1s",
        "--recommender-interval=1s",
        "--updater-interval=1s",
        "--eviction-rate-limit=0",
        "--in-recommendation-bounds-eviction-lifetime-threshold=0s",
        "--cool-down=0s",
        *flags,
    )
    try:
        with running("run", stage.plane.kubeconfig, folder, *given) as run:
            yield run
    finally:
        # It stays, so that a restart leaves no gap; other tests bring their own.
        stage.plane.request("DELETE", f"{REGISTRATIONS}/vpa-webhook-config")


def autoscale(stage: Stage) -> str:
    """An autoscaler of the Deployment, of which nothing is recommended yet; where it is."""
    path = f"/apis/autoscaling.k8s.io/v1/namespaces/{stage.namespace}/verticalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"targetRef": target, "updatePolicy": {"updateMode": "InPlaceOrRecreate"}}
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    stage.plane.create(path, {**kind, "metadata": {"name": "web"}, "spec": spec})
    return f"{path}/web"


def scale_horizontally(stage: Stage, *metrics: Json) -> str:
    """A horizontal autoscaler of the Deployment, which leaves it at two pods; where it is."""
    path = f"/apis/autoscaling/v2/namespaces/{stage.namespace}/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 2, "metrics": metrics}
    kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    stage.plane.create(path, {**kind, "metadata": {"name": "web"}, "spec": spec})
    return f"{path}/web"


ON_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
ON_MEMORY_OF_C0 = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "memory",
        "container": "c0",
        "target": {"type": "AverageValue", "averageValue": "500Mi"},
    },
}


def test_all_components_work_in_one_process_and_end_well(stage: Stage, tmp_path: Path) -> None:
    stage.deploy("web", SMALL)
    autoscaler = autoscale(stage)
    with all_together(stage, tmp_path, "--leader-elect", "--roles") as run:
        run.wait_until("/readyz", lambda answer: answer[0] == 200)
        recommended = wait_for_target(stage, autoscaler)
        stage.wait_for_pods(lambda pods: requests(pods) == [[recommended]] * 2)
        first, *_ = stage.pods()
        stage.kill(first)
        observed = stage.wait_for_pods(
            lambda pods: [pod for pod in pods if OBSERVED in pod["metadata"]["annotations"]]
        )
        _, metrics = run.ask("/metrics")
        pages = [run.ask(path)[0] for path in ("/plan", "/roles")]
        code = run.end()
    lines = [json.loads(line) for line in run.process.log.read_text().splitlines()]

    new = [pod for pod in observed if OBSERVED in pod["metadata"].get("annotations", {})]
    assert {pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in new} == {
        recommended["memory"]
    }
    assert all(f'trimtab_leading{{component="{name}"}} 1.0' in metrics for name in COMPONENTS)
    for prefix in ("recommender", "updater", "admission_controller"):
        assert re.search(rf"^vpa_{prefix}_\w+.* [1-9]", metrics, re.MULTILINE)
    assert pages == [200, 200]
    assert code == 0
    assert {line["component"] for line in lines} == {"run", *COMPONENTS}
    assert holders(stage) == {RECOMMENDER_LEASE: "", "vpa-updater": "", "trimtab-roles": ""}
    assert stored_checkpoints(stage) == ["web-c0"]


def wait_for_target(stage: Stage, autoscaler: str) -> Json:
    """What is recommended for the container, as soon as anything is."""
    found = stage.plane.wait_for(
        autoscaler,
        lambda found: found.get("status", {}).get("recommendation"),
        patience_seconds=SLOW_SECONDS,
    )
    target: Json = found["status"]["recommendation"]["containerRecommendations"][0]["target"]
    return target


def holders(stage: Stage) -> dict[str, str]:
    """Who holds the leases of elections."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{stage.namespace}/leases"
    _, body = stage.plane.request("GET", path)
    leases = {each["metadata"]["name"]: each["spec"] for each in json.loads(body)["items"]}
    elections = leases.keys() - {"vpa-admission-controller"}
    return {name: leases[name].get("holderIdentity") or "" for name in elections}


def stored_checkpoints(stage: Stage) -> list[str]:
    kind = "verticalpodautoscalercheckpoints"
    path = f"/apis/autoscaling.k8s.io/v1/namespaces/{stage.namespace}/{kind}"
    _, body = stage.plane.request("GET", path)
    return [each["metadata"]["name"] for each in json.loads(body)["items"]]


def test_what_a_horizontal_autoscaler_scales_on_is_held_by_all_components(
    stage: Stage, tmp_path: Path
) -> None:
    horizontal = scale_horizontally(stage, ON_CPU)
    stage.deploy("web", SMALL)
    autoscaler = autoscale(stage)
    with all_together(stage, tmp_path) as run:
        run.wait_until("/readyz", lambda answer: answer[0] == 200)
        recommended = wait_for_target(stage, autoscaler)
        held = {"cpu": SMALL["cpu"], "memory": recommended["memory"]}
        stage.wait_for_pods(lambda pods: requests(pods) == [[held]] * 2)
        first, *_ = stage.pods()
        stage.kill(first)
        stage.wait_for_pods(lambda pods: requests(pods) == [[held]] * 2)
        condition = stage.condition("HorizontallyScaled")
        wait_for_holds(run, "ScaledHorizontally")
        stage.plane.request("DELETE", horizontal)
        stage.wait_for_pods(lambda pods: requests(pods) == [[recommended]] * 2)
        stage.plane.wait_for(
            autoscaler, lambda found: "HorizontallyScaled" not in conditions(found)
        )

    assert recommended["cpu"] != SMALL["cpu"]
    assert condition["reason"] == "ResourceHeld"
    assert "HorizontalPodAutoscaler web scales on cpu" in condition["message"]


def test_of_a_resource_of_one_container_the_others_are_changed(
    stage: Stage, tmp_path: Path
) -> None:
    scale_horizontally(stage, ON_MEMORY_OF_C0)
    stage.deploy("web", SMALL, SMALL)
    stage.autoscale(TARGET, TARGET, mode="InPlace")
    stage.promise_admission()
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        first = {"cpu": TARGET["cpu"], "memory": SMALL["memory"]}
        stage.wait_for_pods(lambda pods: requests(pods) == [[first, TARGET]] * 2)
        wait_for_holds(run, "ScaledHorizontally")


def test_who_may_not_see_horizontal_autoscalers_holds_nothing_and_says_so(
    stage: Stage, tmp_path: Path
) -> None:
    scale_horizontally(stage, ON_CPU)
    stage.deploy("web", SMALL)
    stage.autoscale(mode="InPlace")
    stage.promise_admission()
    lacking = Lacking("autoscaling", "horizontalpodautoscalers", "list", "")
    rights = lacking.taken_from(rights_of("updater"))
    kubeconfig = an_account(stage.plane, stage.namespace, rights, tmp_path)
    with updater(kubeconfig, tmp_path, *stage.flags()) as run:
        stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET]] * 2)
        told = waiting.wait_for(
            run.process.log.read_text,
            lambda text: "works without seeing everything" in text,
            patience_seconds=SLOW_SECONDS,
        )

    assert "list horizontalpodautoscalers.autoscaling" in told
