"""Targets that the estimator `cost` holds: through kills, crashes and changes of the estimator."""

import json
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from e2e.worlds import World, a_template
from support.makers.records import MIB
from support.stages.components import SLOW_SECONDS, TRIMTAB, Json, Run, install, running
from support.stages.updater import MERGE

from rig import waiting
from rig.controlplane import ControlPlane
from trimtab.api.kinds.checkpoints import decode_checkpoint
from trimtab.core.model.estimation import ESTIMATOR_ANNOTATION
from trimtab.core.model.resources import Resource
from trimtab.core.usage.saved_targets import SavedTargets

pytestmark = pytest.mark.e2e

GIB = 1024 * MIB
recommender = partial(running, "recommender")


class HeldWorld(World):
    """A workload whose pods request far more than they use."""

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def choose(self, estimator: str | None) -> None:
        """Set the estimator of the autoscaler, or remove the annotation."""
        self.patch(
            self.autoscaler, {"metadata": {"annotations": {ESTIMATOR_ANNOTATION: estimator}}}
        )

    def kill_container(self) -> None:
        """Report what a kubelet does of a pod whose container was OOM-killed."""
        _, body = self.plane.request("GET", self.pods)
        (pod,) = json.loads(body)["items"]
        (status,) = pod["status"]["containerStatuses"]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ended: Json = {"exitCode": 137, "reason": "OOMKilled", "startedAt": now, "finishedAt": now}
        killed = {**status, "restartCount": 1, "lastState": {"terminated": ended}}
        path = f"{self.pods}/{pod['metadata']['name']}/status"
        self.patch(path, {"status": {"containerStatuses": [killed]}})

    def wait_for_memory(self, amount: int) -> None:
        self.wait_for_target(lambda told: told.get(Resource.MEMORY) == amount)

    def watch_memory(self, least: int, seconds: float) -> None:
        """Assert that the memory target never falls below an amount for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.target()[Resource.MEMORY] >= least
            time.sleep(0.2)

    def saved(self) -> SavedTargets | None:
        """The held targets in the checkpoint."""
        status, body = self.plane.request("GET", f"{self.checkpoints}/web-app")
        supplement = decode_checkpoint(body).supplement if status == 200 else None
        return None if supplement is None else supplement.targets

    def patch(self, path: str, patch: Json) -> None:
        status, body = self.plane.request("PATCH", path, json.dumps(patch).encode(), MERGE)
        assert status == 200, body


def explain(world: World, asked: Run, *arguments: str) -> str:
    """Return what the command prints of the autoscaler, in a process of its own."""
    command = [str(TRIMTAB), "explain", "web", "-n", world.namespace, *arguments]
    address = f"http://127.0.0.1:{asked.port}"
    given = ["--kubeconfig", str(world.plane.kubeconfig), "--from", address]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def world(cluster: ControlPlane, namespace: str) -> HeldWorld:
    install(cluster)
    made = HeldWorld(cluster, namespace)
    template = a_template()
    requests = {"cpu": "500m", "memory": "1Gi"}
    template["spec"]["containers"][0]["resources"] = {"requests": requests}
    made.deploy(template)
    made.autoscale()
    return made


def test_a_held_target_survives_a_crash_and_a_change_of_the_estimator(
    world: HeldWorld, tmp_path: Path
) -> None:
    world.choose("cost")
    world.wait_until_measured()
    with recommender(world.plane.kubeconfig, tmp_path, *world.flags(), name="first") as first:
        # It starts at what the pods request, which the other estimator never would.
        world.wait_for_memory(GIB)
        world.kill_container()
        world.wait_for_memory(2 * GIB)
        first.kill()
    with recommender(world.plane.kubeconfig, tmp_path, *world.flags(), name="second") as second:
        second.wait_until("/readyz", lambda answer: answer[0] == 200)
        world.watch_memory(2 * GIB, 10)
        world.choose(None)
        world.wait_for_target(lambda told: told.get(Resource.CPU, 500) < 250)
        world.choose("cost")
        world.wait_for_memory(2 * GIB)
        told = explain(world, second)
        found = json.loads(explain(world, second, "-o", "json"))
        code = second.end()
    saved = world.saved()
    (container,) = found["numbers"]["containers"]
    cpu, memory = container["resources"]

    assert "raised on trial after an OOM kill" in told
    assert "GiB-h, can fall to" in " ".join(told.split())
    assert "the estimator `percentile` would say" in told
    assert memory["held"]["priceGibHours"] == pytest.approx(40 * 2**0.8, abs=0.001)
    # CPU of the first two minutes of a pod does not count.
    assert cpu["held"].get("levels") is not None
    assert code == 0
    assert world.target()[Resource.CPU] == 500
    assert saved is not None
    assert saved.memory is not None
    assert saved.memory.held == 2 * GIB


def test_the_flag_holds_targets_of_all_but_those_that_say_otherwise(
    world: HeldWorld, tmp_path: Path
) -> None:
    world.wait_until_measured()
    flags = world.flags("--estimator=cost")
    with recommender(world.plane.kubeconfig, tmp_path, *flags) as run:
        world.wait_for_memory(GIB)
        world.choose("percentile")
        world.wait_for_target(lambda told: told.get(Resource.CPU, 500) < 250)
        run.end()
    world.choose(None)
    with recommender(world.plane.kubeconfig, tmp_path, *flags, name="again"):
        world.wait_for_memory(GIB)


def test_broken_state_of_one_autoscaler_is_replaced_and_stops_nothing(
    world: HeldWorld, tmp_path: Path
) -> None:
    world.choose("cost")
    world.wait_until_measured()
    with recommender(world.plane.kubeconfig, tmp_path, *world.flags(), name="first") as first:
        world.wait_for_memory(GIB)
        first.end()
    _, body = world.plane.request("GET", f"{world.checkpoints}/web-app")
    annotations = json.loads(body)["metadata"]["annotations"]
    (name,) = [each for each in annotations if "supplement" in each]
    supplement = json.loads(annotations[name])
    supplement["targets"]["memory"] = [-1]
    patch = {"metadata": {"annotations": {name: json.dumps(supplement)}}}
    world.patch(f"{world.checkpoints}/web-app", patch)
    with recommender(world.plane.kubeconfig, tmp_path, *world.flags(), name="second") as second:
        second.wait_until("/readyz", lambda answer: answer[0] == 200)
        world.watch_memory(GIB, 5)
        saved = waiting.wait_for(
            world.saved,
            lambda found: found is not None and found.memory is not None,
            patience_seconds=SLOW_SECONDS,
        )

    assert saved is not None
    assert saved.memory is not None
    assert saved.memory.held == GIB
