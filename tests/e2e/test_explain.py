"""`trimtab explain` on a real API server: of what is stored, and of components that run."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e.worlds import World, a_template
from support.stages.components import (
    READING,
    SLOW_SECONDS,
    TRIMTAB,
    Run,
    an_account,
    install,
    running,
)

from rig import waiting
from rig.controlplane import ControlPlane
from trimtab.core.model.quantities import format_amount

pytestmark = pytest.mark.e2e

EXPLAINING = [
    *READING,
    {
        "apiGroups": ["", "autoscaling.k8s.io"],
        "resources": ["resourcequotas", "verticalpodautoscalercheckpoints"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
]
"""What else it takes to know all that can be known without asking components."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A workload whose usage was learned, with components that run."""

    world: World
    recommender: Run
    updater: Run

    @property
    def addresses(self) -> list[str]:
        return [
            argument
            for each in (self.recommender, self.updater)
            for argument in ("--from", f"http://127.0.0.1:{each.port}")
        ]


@pytest.fixture(scope="module")
def scene(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A pod without requests, alone in its workload, which an updater would not evict."""
    install(cluster)
    folder = tmp_path_factory.mktemp("explain")
    with cluster.own_namespace() as namespace:
        world = World(cluster, namespace)
        world.deploy(a_template())
        world.autoscale()
        world.wait_until_measured()
        only_here = f"--vpa-object-namespace={namespace}"
        with (
            running("recommender", cluster.kubeconfig, folder, *world.flags()) as recommender,
            running(
                "updater",
                cluster.kubeconfig,
                folder,
                only_here,
                "--updater-interval=1s",
                "--use-admission-controller-status=false",
            ) as updater,
        ):
            world.wait_for_target()
            yield Scene(world, recommender, updater)


def run(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(TRIMTAB), "explain", "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={"COLUMNS": "80"}
    )


def explain(kubeconfig: Path, world: World, *arguments: str) -> Any:
    done = run(kubeconfig, "web", "-n", world.namespace, "-o", "json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def targets(explanation: Any) -> dict[str, str]:
    (container,) = explanation["numbers"]["containers"]
    return {each["resource"]: each["target"]["value"] for each in container["resources"]}


def published(world: World) -> dict[str, str]:
    return {kind.value: format_amount(kind, amount) for kind, amount in world.target().items()}


def decisive(pod: Any) -> list[str]:
    return [each["check"] for each in pod["checks"] if each.get("decisive")]


def test_components_that_run_explain_what_they_publish_and_plan(scene: Scene) -> None:
    world, plane = scene.world, scene.world.plane
    found = waiting.wait_for(
        lambda: explain(plane.kubeconfig, world, *scene.addresses),
        lambda told: (
            told["plan"]["source"] == "updater"
            and told["plan"]["pods"][0]["reason"] == "BelowMinReplicas"
            and targets(told) == published(world)
        ),
        patience_seconds=SLOW_SECONDS,
    )
    _, body = scene.updater.ask(f"/plan?namespace={world.namespace}")
    (planned,) = json.loads(body)["pods"]
    (pod,) = found["plan"]["pods"]

    assert found["numbers"]["source"] == "recommender"
    assert targets(found).keys() == {"cpu", "memory"}
    assert (pod["pod"], pod["action"], pod["reason"]) == (
        planned["pod"],
        planned["action"],
        planned["reason"],
    )
    assert decisive(pod) == ["replicas"]
    assert not [each for each in pod["checks"] if each["verdict"] == "unknown"]


def test_a_reader_gets_the_same_numbers_from_checkpoints_alone(
    scene: Scene, tmp_path: Path
) -> None:
    world = scene.world
    reader = an_account(world.plane, world.namespace, EXPLAINING, tmp_path)
    waiting.wait_for(
        lambda: world.stored().total_samples_count, bool, patience_seconds=SLOW_SECONDS
    )
    found = waiting.wait_for(
        lambda: explain(reader, world, "--offline"),
        lambda told: targets(told) == published(world),
        patience_seconds=SLOW_SECONDS,
    )
    (pod,) = found["plan"]["pods"]
    verdicts = {each["check"]: each["verdict"] for each in pod["checks"]}

    assert (found["numbers"]["source"], found["plan"]["source"]) == ("checkpoints", "cluster")
    assert found["numbers"]["savedAt"]
    assert (pod["action"], pod["reason"]) == ("Hold", "BelowMinReplicas")
    assert (verdicts["replicas"], verdicts["coolDown"]) == ("fail", "unknown")
    assert pod["containers"][0]["next"]["requests"].keys() == {"cpu", "memory"}


def test_people_are_told_in_plain_words_what_they_can_act_on(scene: Scene) -> None:
    world = scene.world
    (pod,) = explain(world.plane.kubeconfig, world, "--offline")["plan"]["pods"]
    of_all = run(world.plane.kubeconfig, "web", "-n", world.namespace, *scene.addresses)
    of_pod = run(world.plane.kubeconfig, f"pod/{pod['pod']}", "-n", world.namespace)
    nobody = run(world.plane.kubeconfig, "nobody", "-n", world.namespace)

    for done in (of_all, of_pod):
        assert (done.returncode, done.stderr) == (0, "")
        assert max(map(len, done.stdout.splitlines())) <= 80
        assert "NO! replicas" in done.stdout
    assert "Numbers by the recommender that runs" in of_all.stdout
    assert "comes to" in of_all.stdout
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert nobody.stderr == f"trimtab: there is no autoscaler nobody in {world.namespace}\n"
