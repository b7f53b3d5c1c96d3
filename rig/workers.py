"""Manifests of pods that run our worker, the workload with a known appetite (docs/rig.md)."""

from collections.abc import Mapping, Sequence
from typing import Final

from rig import node_images
from rig.fake_node import Json

PORT: Final = 8080
HTTP_READY: Final[Json] = {"httpGet": {"path": "/ready", "port": PORT}, "periodSeconds": 1}
"""A probe that finds the worker ready as soon as it says so."""
EXEC_READY: Final[Json] = {"exec": {"command": ["/worker", "ready"]}, "periodSeconds": 1}
"""The same, asked by a program in the container."""


def container(
    *flags: str,
    name: str = "app",
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    **fields: object,
) -> Json:
    """A container with a worker of those flags; further fields are those of the API."""
    return {
        "name": name,
        "image": node_images.WORKER,
        # There is no registry: the image is on the node.
        "imagePullPolicy": "Never",
        "args": [*flags],
        "resources": {"requests": dict(requests or {}), "limits": dict(limits or {})},
        **fields,
    }


def template(containers: Sequence[Json], labels: Mapping[str, str] | None = None) -> Json:
    """What a workload makes its pods from."""
    # A worker ends at once when told to, so nobody has to be patient with it.
    spec = {"containers": [*containers], "terminationGracePeriodSeconds": 5}
    return {"metadata": {"labels": dict(labels or {})}, "spec": spec}


def pod(name: str, *containers: Json, labels: Mapping[str, str] | None = None) -> Json:
    """A pod of those containers, or of one worker that wants nothing."""
    made = template(containers or (container(),), labels)
    made["metadata"]["name"] = name
    return {"apiVersion": "v1", "kind": "Pod", **made}
