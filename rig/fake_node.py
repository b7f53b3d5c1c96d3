"""The node that kwok plays: large, so that no test has to think about room."""

from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

NAME: Final = "kwok-0"
USAGE_PATH: Final = f"/metrics/nodes/{NAME}/metrics/resource"
_SIZE: Final = {"cpu": "10k", "memory": "100Ti", "pods": "100k"}


def manifest() -> Json:
    """The node as it is created; kwok makes it ready."""
    annotations = {
        "kwok.x-k8s.io/node": "fake",
        # Where metrics-server would look.
        "metrics.k8s.io/resource-metrics-path": USAGE_PATH,
    }
    labels = {"kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux", "type": "kwok"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME, "annotations": annotations, "labels": labels},
        "status": {"allocatable": _SIZE, "capacity": _SIZE},
    }


def is_schedulable(node: Json, *, is_freed: bool) -> bool:
    """Whether it is ready and, where controllers free it, without the taint of a new node."""
    conditions = node["status"].get("conditions", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not (is_freed and "taints" in node["spec"])
