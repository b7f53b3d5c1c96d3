"""Pods of Jobs on a real node: a fake one ends them before a component could disturb them.

Rows C10, C11, C16, C17, C22 and C23 of the original's suite, which has them evicted. Ours are not
(docs/decisions/0050-pods-of-jobs-are-not-evicted.md).
"""

import json
from pathlib import Path

import pytest
from e2e.node_stage import LEASE, NodeStage, restarts, uids_of, wait_for_ticks, worker
from support.stages.updater import BATCH, requests, updater, wait_for_holds

from rig import workers

pytestmark = pytest.mark.e2e

SMALL = {"cpu": "50m", "memory": "32Mi"}
TARGET = {"cpu": "100m", "memory": "64Mi"}
TARGET_SHARES = 102
EVICTED = 'vpa_updater_acts_total{act="Evict",result="Done"}'


def create_job(stage: NodeStage, kind: str, name: str, count: int) -> None:
    """Create a Job of that many workers at a time, which a CronJob owns if that is asked for."""
    template = workers.template([worker(requests=SMALL)], {"app": name})
    template["spec"]["restartPolicy"] = "Never"
    # One eviction would be the end of a Job without retries.
    retries = 1 if name == "bold" else 0
    job = {"parallelism": count, "completions": 100, "backoffLimit": retries, "template": template}
    owners = []
    if kind == "CronJob":
        # It never makes one of its own, since the moment at which it would is not ours to choose.
        rule = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job}}
        made = stage.plane.create(
            f"{path_of(stage)}/cronjobs",
            {"apiVersion": BATCH, "kind": kind, "metadata": {"name": name}, "spec": rule},
        )
        uid = made["metadata"]["uid"]
        owner = {"apiVersion": BATCH, "kind": kind, "name": name, "uid": uid, "controller": True}
        owners = [owner]
    metadata = {"name": job_of(kind, name), "ownerReferences": owners}
    stage.plane.create(
        f"{path_of(stage)}/jobs",
        {"apiVersion": BATCH, "kind": "Job", "metadata": metadata, "spec": job},
    )


def job_of(kind: str, name: str) -> str:
    """The name of the Job of a workload."""
    return f"{name}-1" if kind == "CronJob" else name


def path_of(stage: NodeStage) -> str:
    return f"/apis/{BATCH}/namespaces/{stage.namespace}"


def failures(stage: NodeStage, kind: str, name: str) -> int:
    """The number of pods that the Job of a workload counts as failed."""
    _, body = stage.plane.request("GET", f"{path_of(stage)}/jobs/{job_of(kind, name)}")
    return int(json.loads(body)["status"].get("failed", 0))


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_c10_to_c23_pods_of_jobs_are_resized_or_left_alone_and_never_evicted(
    node_stage: NodeStage, tmp_path: Path, kind: str
) -> None:
    counts = {"many": 3, "shy": 1, "bold": 1, "placed": 3}
    for name, count in counts.items():
        create_job(node_stage, kind, name, count)
    before = {name: node_stage.wait_until_running(count, name) for name, count in counts.items()}
    for name in counts:
        mode = "InPlaceOrRecreate" if name == "placed" else "Recreate"
        node_stage.autoscale(TARGET, name=name, kind=kind, mode=mode)
    node_stage.edit({"minReplicas": 1}, "bold")
    flags = node_stage.flags(LEASE)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        wait_for_holds(run, "BelowMinReplicas", name="shy")
        wait_for_holds(run, "RunsToCompletion", name="many")
        wait_for_holds(run, "RunsToCompletion", name="bold")
        node_stage.wait_for_shares(before["placed"], TARGET_SHARES)
        placed = node_stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET]] * 3, "placed")
        wait_for_ticks(run)
        kept = {name: node_stage.uids(name) for name in counts}
        small = {name: requests(node_stage.pods(name)) for name in ("many", "shy", "bold")}
        failed = [failures(node_stage, kind, name) for name in counts]
        node_stage.kill(before["bold"][0])
        successors = node_stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET]], "bold")
        evicted = run.metric(EVICTED)

    assert kept == {name: uids_of(pods) for name, pods in before.items()}
    assert small == {name: [[SMALL]] * counts[name] for name in small}
    assert restarts(placed) == 0
    assert (evicted, failed) == (0, [0] * len(counts))
    assert uids_of(successors).isdisjoint(uids_of(before["bold"]))
