"""Reviews are what an API server would ask."""

import json

from bench import workloads
from bench.reviews import review
from bench.workloads import Workload
from trimtab.api.admission import decode_review
from trimtab.api.pods import decode_pod


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
