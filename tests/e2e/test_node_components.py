"""The components as pods of a real node, from our image, by the manifests that the chart renders.

Their namespace lets in only what fulfils the restricted Pod Security profile. Usage is measured by
the kubelet, recommendations are made of it, and the kernel shows what became of them.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.install_stage import NAMESPACE, Ground
from e2e.node_stage import NodeStage, containers, restarts, uids_of, worker
from support.stages.admission import JSON_PATCH, MERGE_PATCH, an_autoscaler
from support.stages.components import SLOW_SECONDS, Json

from rig import component_image, waiting

pytestmark = pytest.mark.e2e

COMPONENTS = {"admission-controller", "recommender", "updater"}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# Told by the interpreter, since there is nothing else in the image that could tell.
LOOK_AROUND = """\
import os
os.access("/tmp", os.W_OK) or exit("no place for temporary files")
print(os.getuid(), os.getgid(), bool(os.statvfs("/").f_flag & os.ST_RDONLY))
"""


class Installation:
    """Our components in their namespace."""

    def __init__(self, ground: Ground, folder: Path) -> None:
        self.ground = ground
        self._folder = folder

    def kubectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.ground.kubectl(f"--namespace={NAMESPACE}", *words, folder=self._folder)

    def ask(self, *words: str) -> str:
        done = self.kubectl(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def explain(self, name: str, namespace: str) -> Json:
        """Why an autoscaler says what it says, of components that are asked through the server."""
        command = ["trimtab", "explain", name, f"--namespace={namespace}", "--output=json"]
        surroundings = self.ground.surroundings(self._folder)
        done = subprocess.run(
            command, env=surroundings, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        told: Json = json.loads(done.stdout)
        return told

    def wait_until_available(self) -> None:
        self.ask("wait", "--for=condition=Available", "--timeout=2m", "deployment", "--all")

    def pods(self) -> dict[str, Json]:
        """One pod of each component that is not about to go."""
        _, body = self.ground.on.plane.request("GET", PODS)
        return {
            pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod
            for pod in json.loads(body)["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }


@pytest.fixture(scope="module")
def installation(
    ground: Ground, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """All components, until the last of these tests is over."""
    folder = tmp_path_factory.mktemp("installation")
    ground.clear()
    component_image.build(folder / "image.tar")
    ground.on.load_image(folder / "image.tar")
    # It is large, and pytest keeps folders.
    (folder / "image.tar").unlink()
    ground.write_manifests(folder)
    made = Installation(ground, folder)
    try:
        made.ask("apply", "--server-side", "-f", "deploy/trimtab.yaml")
        made.wait_until_available()
        yield made
    finally:
        ground.clear()


def test_usage_becomes_a_recommendation_that_running_and_new_pods_get(
    installation: Installation, node_namespace: str
) -> None:
    stage = NodeStage(installation.ground.on, node_namespace)
    busy = worker("-cpu=300", requests={"cpu": "10m", "memory": "300Mi"})
    stays = stage.run(busy, name="stays", replicas=1)
    goes = stage.run(busy, name="goes", replicas=1)
    autoscalers = f"/apis/autoscaling.k8s.io/v1/namespaces/{node_namespace}/verticalpodautoscalers"
    for name, mode in (("stays", "InPlace"), ("goes", "Recreate")):
        policy = {"updatePolicy": {"updateMode": mode, "minReplicas": 1}}
        stage.plane.create(autoscalers, an_autoscaler(policy, name, name))
    # Of 300m that are used, and of next to no history, the lower bound is some tens.
    waiting.wait_for(
        lambda: stage.shares(stays[0]), lambda found: found > 100, patience_seconds=SLOW_SECONDS
    )
    (successor,) = stage.wait_for_pods(
        lambda pods: len(pods) == 1 and not uids_of(pods) & uids_of(goes), "goes"
    )
    explained = waiting.wait_for(
        lambda: installation.explain("stays", node_namespace),
        lambda told: told["plan"]["source"] == "updater",
        patience_seconds=SLOW_SECONDS,
    )

    after = stage.pods("stays")
    assert containers(after) == containers(stays)
    assert restarts(after) == 0
    assert requested_cpu(after[0]) > 100
    assert "vpaUpdates" in successor["metadata"]["annotations"]
    assert requested_cpu(successor) > 100
    assert explained["numbers"]["source"] == "recommender"
    assert [each["pod"] for each in explained["plan"]["pods"]] == [after[0]["metadata"]["name"]]
    teller = installation.pods()["updater"]["metadata"]["name"]
    assert explained["plan"]["remarks"] == [f"answered by the pod {teller} in {NAMESPACE}"]


def test_pods_run_without_root_on_a_root_that_nobody_can_write_to(
    installation: Installation,
) -> None:
    _, body = installation.ground.on.plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}")
    labels = json.loads(body)["metadata"]["labels"]
    pods = installation.pods()

    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert set(pods) == COMPONENTS
    for component in COMPONENTS:
        told = installation.ask(
            "exec", f"deploy/trimtab-{component}", "--", "python3", "-c", LOOK_AROUND
        )
        shell = installation.kubectl(
            "exec", f"deploy/trimtab-{component}", "--", "sh", "-c", "true"
        )
        assert told.split() == ["65534", "65534", "True"]
        assert shell.returncode != 0
        assert "not found" in shell.stderr or "no such file" in shell.stderr


def test_pods_that_are_told_to_end_do_so_in_peace_and_others_take_over(
    installation: Installation,
) -> None:
    plane = installation.ground.on.plane
    pods = installation.pods()
    keep = json.dumps({"metadata": {"finalizers": ["trimtab.dev/look"]}}).encode()
    release = json.dumps([{"op": "remove", "path": "/metadata/finalizers"}]).encode()
    paths = {name: f"{PODS}/{pod['metadata']['name']}" for name, pod in pods.items()}
    for path in paths.values():
        plane.request("PATCH", path, keep, MERGE_PATCH)
        plane.request("DELETE", path)
    codes = {}
    for name, path in paths.items():
        ended = plane.wait_for(path, _has_ended, patience_seconds=SLOW_SECONDS)
        (status,) = ended["status"]["containerStatuses"]
        codes[name] = status["state"]["terminated"]["exitCode"]
        plane.request("PATCH", path, release, JSON_PATCH)
    installation.wait_until_available()

    assert codes == dict.fromkeys(COMPONENTS, 0)
    assert uids_of(installation.pods().values()).isdisjoint(uids_of(pods.values()))
    assert restarts(installation.pods().values()) == 0


def requested_cpu(pod: Json) -> int:
    """The millicores that the first container of a pod requests."""
    text: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(text.removesuffix("m"))


def _has_ended(pod: Json) -> bool:
    return all("terminated" in each["state"] for each in pod["status"]["containerStatuses"])
