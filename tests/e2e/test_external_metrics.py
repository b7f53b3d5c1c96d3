"""Usage that somebody else measures: a real API server passes the questions on to an adapter."""

from functools import partial
from pathlib import Path

import pytest
from e2e.external_metrics_server import ROOT, Adapter, registered
from e2e.worlds import World, a_template
from support.makers.records import MIB
from support.stages.components import an_account, install, rights_of, rules_of, running

from rig.controlplane import ControlPlane
from trimtab.core.model.resources import Resource

pytestmark = pytest.mark.e2e

FLAGS = (
    "--use-external-metrics",
    "--external-metrics-cpu-metric=pod_cpu",
    "--external-metrics-memory-metric=pod_memory",
)

recommender = partial(running, "recommender")


@pytest.fixture
def world(cluster: ControlPlane, namespace: str) -> World:
    install(cluster)
    made = World(cluster, namespace)
    made.deploy(a_template(cpu="20m", memory="100Mi"))
    made.autoscale()
    made.scale(3)
    return made


def test_external_metrics_become_targets_with_the_right_to_list_them(
    world: World, tmp_path: Path
) -> None:
    rights = [*rights_of("recommender"), *rules_of("recommender-external-metrics")]
    kubeconfig = an_account(world.plane, world.namespace, rights, tmp_path)
    adapter = Adapter({"pod_cpu": "300m", "pod_memory": "500Mi"})
    with (
        registered(world.plane, adapter),
        recommender(kubeconfig, tmp_path, *world.flags(*FLAGS)) as run,
    ):
        target = world.wait_for_target(lambda told: len(told) == 2)
        ready = run.ask("/readyz")

    # In the bucket above what was told, with the margin; what the nodes tell is far below.
    assert 300 * 1.15 <= target[Resource.CPU] <= 300 * 1.15 * 1.06
    assert 500 * MIB * 1.15 <= target[Resource.MEMORY] <= 500 * MIB * 1.15 * 1.08
    assert ready == (200, "OK")
    path = f"{ROOT}/namespaces/{world.namespace}"
    assert {asked for asked, _ in adapter.asked} == {f"{path}/pod_cpu", f"{path}/pod_memory"}
    selectors = {selector for _, selector in adapter.asked}
    assert all(selector.startswith("app=web,pod") for selector in selectors)
    # All three at once, as soon as they run.
    assert any(selector.count("web-") == 3 for selector in selectors)


def test_f43_without_the_right_to_list_external_metrics_readiness_names_it(
    world: World, tmp_path: Path
) -> None:
    kubeconfig = an_account(world.plane, world.namespace, rights_of("recommender"), tmp_path)
    with (
        registered(world.plane, Adapter({"pod_cpu": "300m", "pod_memory": "500Mi"})),
        recommender(kubeconfig, tmp_path, *world.flags(*FLAGS)) as run,
    ):
        status, told = run.wait_until("/readyz", lambda answer: "missing right" in answer[1])

    assert status == 500
    assert "missing right: list pod_cpu.external.metrics.k8s.io" in told
