"""Pods of jobs on a real node: a fake one ends them before anybody could disturb them.

Rows C10, C11, C16, C17, C22 and C23 of the original's suite.
"""

from pathlib import Path

import pytest
from e2e.components import Json
from e2e.node_stage import LEASE, NodeStage, uids_of, worker
from e2e.updater_stage import BATCH, requests, updater, wait_for_holds

from rig import workers

pytestmark = pytest.mark.e2e

SMALL = {"cpu": "50m", "memory": "32Mi"}
TARGET = {"cpu": "100m", "memory": "64Mi"}


def run_job(stage: NodeStage, kind: str, name: str, count: int) -> list[Json]:
    """The pods of a Job, which a CronJob has made if that is asked for."""
    path = f"/apis/{BATCH}/namespaces/{stage.namespace}"
    template = workers.template([worker(requests=SMALL)], {"app": name})
    template["spec"]["restartPolicy"] = "Never"
    # A worker that is told to end has done its part, and there is enough for others to do.
    job = {"parallelism": count, "completions": 100, "template": template}
    owners = []
    if kind == "CronJob":
        # It never makes one of its own, since the moment at which it would is not ours to choose.
        rule = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job}}
        made = stage.plane.create(
            f"{path}/cronjobs",
            {"apiVersion": BATCH, "kind": kind, "metadata": {"name": name}, "spec": rule},
        )
        uid = made["metadata"]["uid"]
        owner = {"apiVersion": BATCH, "kind": kind, "name": name, "uid": uid, "controller": True}
        owners = [owner]
    metadata = {"name": f"{name}-1" if owners else name, "ownerReferences": owners}
    stage.plane.create(
        f"{path}/jobs", {"apiVersion": BATCH, "kind": "Job", "metadata": metadata, "spec": job}
    )
    return stage.wait_until_running(count, name)


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_c10_to_c23_pods_of_jobs_are_replaced_but_for_one_alone_that_nobody_gave_up(
    node_stage: NodeStage, tmp_path: Path, kind: str
) -> None:
    counts = {"many": 3, "shy": 1, "bold": 1}
    before = {name: run_job(node_stage, kind, name, count) for name, count in counts.items()}
    for name in counts:
        node_stage.autoscale(TARGET, name=name, kind=kind)
    node_stage.edit({"minReplicas": 1}, "bold")
    flags = node_stage.flags(LEASE)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        wait_for_holds(run, "BelowMinReplicas", name="shy")
        many = node_stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET]] * 3, "many")
        bold = node_stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET]], "bold")

    assert uids_of(many).isdisjoint(uids_of(before["many"]))
    assert uids_of(bold).isdisjoint(uids_of(before["bold"]))
    assert node_stage.uids("shy") == uids_of(before["shy"])
