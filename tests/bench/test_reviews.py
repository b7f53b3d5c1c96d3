"""Reviews are what an API server would ask."""

import json

from bench import workloads
from bench.reviews import review
from bench.workloads import Workload
from trimtab.api.admission.reviews import decode_review
from trimtab.api.kinds.pods import decode_pod


def test_a_review_asks_about_a_new_pod_of_its_owner() -> None:
    made = workloads.new_pod(Workload(7), "web-1", "uid-of-owner")
    metadata = made["metadata"]
    assert isinstance(metadata, dict)
    stored = {**made, "metadata": {**metadata, "uid": "uid-of-pod"}}

    asked = decode_review(json.dumps(review(stored)).encode())

    assert (asked.group, asked.version, asked.resource) == ("", "v1", "pods")
    assert (asked.operation, asked.namespace, asked.name) == ("CREATE", "bench-000", "web-1")
    assert asked.object is not None
    pod = decode_pod(asked.object)
    assert pod.owner is not None
    assert pod.owner.uid == "uid-of-owner"
    assert not pod.node_name


def test_a_pod_is_recast_as_one_of_another_workload_and_size() -> None:
    model = workloads.new_pod(Workload(7), "web-1", "uid-of-owner")
    spec = model["spec"]
    assert isinstance(spec, dict)
    model["spec"] = {**spec, "schedulerName": "default-scheduler"}

    made = [workloads.recast_pod(model, Workload(250), "uid-of-other", each) for each in range(2)]

    pods = [decode_pod(json.dumps(each).encode()) for each in made]
    assert {pod.namespace for pod in pods} == {"bench-002"}
    assert {pod.labels["app"] for pod in pods} == {"web-00250"}
    assert all(pod.owner is not None and pod.owner.uid == "uid-of-other" for pod in pods)
    assert pods[0].containers != pods[1].containers
    assert pods[0].uid != pods[1].uid
    assert all(b"default-scheduler" in json.dumps(each).encode() for each in made)
