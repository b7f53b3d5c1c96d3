"""Manifests: a pod as `kubectl get -o yaml` would print it, as far as admission reads it."""

from typing import TypeAlias

import msgspec

from trimtab.core.model import quantities
from trimtab.core.model.pods import Allocation, Container, ContainerKind, Pod
from trimtab.core.model.resources import Resources

_Document: TypeAlias = "dict[str, _Document] | list[_Document] | str | bool | int"


def encode_manifest(pod: Pod) -> bytes:
    """Return the JSON of a pod, with its status."""
    metadata: dict[str, _Document] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "labels": dict(pod.labels),
    }
    if pod.annotations:
        metadata["annotations"] = dict(pod.annotations)
    if pod.owner is not None:
        owner: _Document = {
            "apiVersion": pod.owner.api_version,
            "kind": pod.owner.kind,
            "name": pod.owner.name,
            "uid": pod.owner.uid,
            "controller": True,
        }
        metadata["ownerReferences"] = [owner]
    regular = [each for each in pod.containers if each.kind is ContainerKind.REGULAR]
    sidecars = [each for each in pod.containers if each.kind is ContainerKind.SIDECAR]
    document: _Document = {
        "metadata": metadata,
        "spec": {
            "containers": [_container(each) for each in regular],
            "initContainers": [
                {**_container(each), "restartPolicy": "Always"} for each in sidecars
            ],
        },
        "status": {
            "phase": str(pod.phase),
            "containerStatuses": [_status(each) for each in regular if each.status],
            "initContainerStatuses": [_status(each) for each in sidecars if each.status],
        },
    }
    return msgspec.json.encode(document)


def _container(container: Container) -> "dict[str, _Document]":
    return {"name": container.name, "resources": _resources(container.spec)}


def _status(container: Container) -> "dict[str, _Document]":
    return {
        "name": container.name,
        "restartCount": container.restart_count,
        "resources": _resources(container.current),
    }


def _resources(allocation: Allocation) -> "dict[str, _Document]":
    maps = {"requests": allocation.requests, "limits": allocation.limits}
    return {name: _amounts(amounts) for name, amounts in maps.items() if amounts is not None}


def _amounts(amounts: Resources) -> "dict[str, _Document]":
    return {str(kind): quantities.format_amount(kind, amount) for kind, amount in amounts.items()}
