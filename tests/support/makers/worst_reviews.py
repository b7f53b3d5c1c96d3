"""The largest pods, policies and selectors that a tenant can send, and what they cost."""

import json
from collections.abc import Callable
from time import process_time

from support.fakes.updater_cluster import UpdaterCluster
from support.makers.reviews import Json, a_pod_object, an_autoscaler_object

from trimtab.api.kinds.autoscalers import decode_autoscaler

NAMESPACE = "default"
POD_RESOURCES = {
    "requests": {"cpu": "90", "memory": "1Ti"},
    "limits": {"cpu": "900", "memory": "9Ti"},
}


def container_name(number: int) -> str:
    return f"container-{number:05}"


def a_large_pod(containers: int, **spec: object) -> Json:
    """A pod of the Deployment `web` with so many containers."""
    named = [{"name": container_name(number)} for number in range(containers)]
    return a_pod_object(containers=named, **spec)


def a_large_autoscaler(policies: int, name: str = "web", **spec: object) -> Json:
    """An autoscaler of the Deployment `web` with so many policies and recommendations."""
    names = [container_name(number) for number in range(policies)]
    found = an_autoscaler_object(
        name,
        target="web",
        updatePolicy={"updateMode": "Recreate"},
        resourcePolicy={
            "containerPolicies": [
                {"containerName": each, "minAllowed": {"cpu": "1m"}} for each in names
            ]
        },
        **spec,
    )
    found["metadata"]["namespace"] = NAMESPACE
    recommended = [
        {"containerName": each, "target": {"cpu": "100m", "memory": "100Mi"}} for each in names
    ]
    found["status"] = {"recommendation": {"containerRecommendations": recommended}}
    return found


def a_large_selector(values: int, own: str) -> Json:
    """A selector with so many values, which excludes those with another label `own`."""
    kept_out = [f"value-{number:05}" for number in range(values)]
    return {
        "matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": kept_out},
            {"key": "own", "operator": "In", "values": [own]},
        ]
    }


def store(cluster: UpdaterCluster, *objects: Json) -> None:
    """Let the watch show these autoscalers."""
    for each in objects:
        cluster.show_autoscaler(decode_autoscaler(json.dumps(each).encode()))


def cpu_seconds(work: Callable[[], object]) -> float:
    """The least CPU time of three runs: other processes must not count."""

    def once() -> float:
        began = process_time()
        work()
        return process_time() - began

    return min(once() for _ in range(3))
