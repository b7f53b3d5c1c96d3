"""metrics-server behind the API server: what has to be told so that requests are passed on to it.

How it is started stands with the other parts of a control plane (`controlplane.py`).
"""

import base64
from pathlib import Path
from typing import Final

from rig.fake_node import Json

PODS_PATH: Final = "/apis/metrics.k8s.io/v1beta1/pods"
REGISTRATION_PATH: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
REGISTRATION_NAME: Final = "v1beta1.metrics.k8s.io"
SERVICES_PATH: Final = "/api/v1/namespaces/kube-system/services"
_NAME: Final = "metrics-server"


def service() -> Json:
    """A name for loopback: it lets the API server pass requests on to a process beside it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME, "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }


def registration(authority: Path, port: int) -> Json:
    """That the metrics API is answered by the service at a port, whom the authority vouches for."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": REGISTRATION_NAME},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"name": _NAME, "namespace": "kube-system", "port": port},
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }


def is_available(registered: Json) -> bool:
    """Whether the API server has reached it."""
    conditions = registered.get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
