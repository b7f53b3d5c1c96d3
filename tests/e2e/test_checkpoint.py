"""`trimtab checkpoint` on a real API server: out of one namespace, into another, and used there."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.worlds import World, a_template
from support.stages import components
from support.stages.components import TRIMTAB, an_account, install

from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

_OWN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


def run(kubeconfig: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TRIMTAB, "checkpoint", *arguments, "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        check=False,
        input=given,
        env={"COLUMNS": "80"},
    )


def stored(world: World) -> Json:
    """The checkpoint as the API server keeps it, but for what it writes on each object."""
    status, body = world.plane.request("GET", f"{world.checkpoints}/web-app")
    assert status == 200, body
    document: Json = json.loads(body)
    for field in _OWN:
        document["metadata"].pop(field, None)
    return document


def forget(world: World) -> None:
    world.plane.request("DELETE", f"{world.checkpoints}/web-app")


@pytest.fixture
def world(cluster: ControlPlane, namespace: str) -> World:
    install(cluster)
    made = World(cluster, namespace)
    made.deploy(a_template())
    made.autoscale()
    return made


def test_checkpoints_move_to_the_bit_and_recommenders_start_from_them(
    cluster: ControlPlane, world: World, tmp_path: Path
) -> None:
    world.wait_until_measured()
    kubeconfig, namespace = cluster.kubeconfig, world.namespace
    with components.running("recommender", kubeconfig, tmp_path, *world.flags()) as first:
        target = world.wait_for_target()
        first.end()
    before = stored(world)
    shown = json.loads(run(kubeconfig, "inspect", "-n", namespace, "-o", "json").stdout)
    saved = run(kubeconfig, "export", "-n", namespace)
    as_json = run(kubeconfig, "export", "-n", namespace, "-o", "json")
    there = run(kubeconfig, "import", "-", given=saved.stdout)
    forget(world)
    tried = run(kubeconfig, "import", "-", "--dry-run", given=saved.stdout)
    missing, _ = cluster.request("GET", f"{world.checkpoints}/web-app")
    back = run(kubeconfig, "import", "-", given=saved.stdout)
    after = stored(world)

    with cluster.own_namespace() as elsewhere:
        other = World(cluster, elsewhere)
        other.deploy(a_template())
        other.scale(0)
        other.autoscale()
        moved = run(
            kubeconfig,
            "import",
            "-",
            "--namespace-map",
            f"{namespace}={elsewhere}",
            given=as_json.stdout,
        )
        with components.running("recommender", kubeconfig, tmp_path, *other.flags()):
            learned = other.wait_for_target()
        assert moved.returncode == 0, moved.stderr

    assert [one["state"] for one in shown] == ["ok"]
    assert shown[0]["samples"] > 0
    assert yaml.safe_load(saved.stdout) | {"metadata": None} == json.loads(as_json.stdout) | {
        "metadata": None
    }
    assert there.returncode == 1
    assert f"{namespace}/web-app: it exists already; --overwrite replaces it" in there.stderr
    assert (tried.returncode, missing) == (0, 404)
    assert back.stdout == "1 checkpoint imported\n"
    assert after == before
    assert learned == target


def test_what_the_api_server_refuses_leaves_nothing_behind(
    cluster: ControlPlane, world: World, tmp_path: Path
) -> None:
    sound = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": "web-app", "namespace": world.namespace},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {"version": "v3", "totalSamplesCount": 1},
    }
    nameless = json.loads(json.dumps(sound).replace("web", "No_Name"))
    both = yaml.safe_dump_all([sound, nameless])
    refused = run(cluster.kubeconfig, "import", "-", given=both)
    reader = an_account(cluster, world.namespace, [], tmp_path)
    forbidden = run(reader, "import", "-", given=yaml.safe_dump(sound))
    status, _ = cluster.request("GET", f"{world.checkpoints}/web-app")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "No_Name-app" in refused.stderr
    assert (forbidden.returncode, status) == (1, 404)
    assert "missing right: get verticalpodautoscalercheckpoints" in forbidden.stderr
