"""Signals of pressure as a process reads them from a real node, with the right to and without."""

from functools import partial
from pathlib import Path

import pytest
from e2e.node_stage import NodeStage, worker
from e2e.worlds import World
from support.stages.components import (
    SLOW_SECONDS,
    an_account,
    install,
    rights_of,
    rules_of,
    running,
)

from rig import waiting
from rig.node import Node

pytestmark = pytest.mark.e2e

READS = "vpa_recommender_pressure_reads_total"


@pytest.mark.parametrize(
    ("lists", "outcome", "other"),
    [
        pytest.param(("recommender-kubelet",), "answered", "failed", id="with the right"),
        pytest.param((), "failed", "answered", id="without it"),
    ],
)
def test_the_recommender_reads_kubelets_only_with_the_right_to(
    node_cluster: Node,
    node_namespace: str,
    tmp_path: Path,
    *,
    lists: tuple[str, ...],
    outcome: str,
    other: str,
) -> None:
    install(node_cluster.plane)
    limits = {"cpu": "50m", "memory": "128Mi"}
    stage = NodeStage(node_cluster, node_namespace)
    stage.run(worker("-cpu=500", requests=limits, limits=limits), replicas=1)
    world = World(node_cluster.plane, node_namespace)
    world.autoscale()
    rights = [*rights_of("recommender"), *rules_of(*lists)]
    kubeconfig = an_account(world.plane, node_namespace, rights, tmp_path, everywhere=True)
    flags = (
        f"--vpa-object-namespace={node_namespace}",
        f"--leader-elect-resource-namespace={node_namespace}",
        "--recommender-interval=4s",
        "--estimator=cost",
        "--pressure-source=kubelet",
    )
    with running("recommender", kubeconfig, tmp_path, *flags) as run:
        waiting.wait_for(
            partial(run.metric, f'{READS}{{outcome="{outcome}"}}'),
            lambda count: count >= 2,
            patience_seconds=SLOW_SECONDS,
        )
        others = run.metric(f'{READS}{{outcome="{other}"}}')
        ready = run.ask("/readyz")

    assert others == 0
    assert ready == (200, "OK")
