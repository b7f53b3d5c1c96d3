"""The node that kwok plays: large, so that no test has to think about room."""

from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

NAME: Final = "kwok-0"
USAGE_PATH: Final = f"/metrics/nodes/{NAME}/metrics/resource"
ONLY_FOR: Final = "trimtab.dev/only-for"
"""The label and the taint of a node that is kept for some pods."""
SIZE: Final[Json] = {"cpu": "10k", "memory": "100Ti", "pods": "100k"}


def manifest(name: str = NAME, size: Json = SIZE, *, only_for: str = "") -> Json:
    """The node as it is created; kwok makes it ready.

    With `only_for` its taint and its label of that value keep it for pods that ask for it.
    """
    annotations = {
        "kwok.x-k8s.io/node": "fake",
        # Where metrics-server would look.
        "metrics.k8s.io/resource-metrics-path": f"/metrics/nodes/{name}/metrics/resource",
    }
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"}
    taints = [{"key": ONLY_FOR, "value": only_for, "effect": "NoSchedule"}] if only_for else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": annotations,
            "labels": {**labels, ONLY_FOR: only_for} if only_for else labels,
        },
        "spec": {"taints": taints} if taints else {},
        "status": {"allocatable": size, "capacity": size},
    }


def demands(only_for: str) -> Json:
    """The part of a pod's spec that brings it to the nodes of that value, and nowhere else."""
    return {
        "nodeSelector": {ONLY_FOR: only_for},
        "tolerations": [{"key": ONLY_FOR, "operator": "Equal", "value": only_for}],
    }


def is_schedulable(node: Json, *, is_freed: bool) -> bool:
    """Whether it is ready and, where controllers free it, without the taint of a new node."""
    conditions = node["status"].get("conditions", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    taints = [each["key"] for each in node["spec"].get("taints", [])]
    return is_ready and not (is_freed and any(key != ONLY_FOR for key in taints))
