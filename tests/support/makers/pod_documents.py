"""Pods as the documents that patches apply to."""

import json
from typing import Any

import jsonpatch
import msgspec

from trimtab.api.kinds.pods import decode_pod
from trimtab.core.model.json_patch import Operation
from trimtab.core.model.pods import Allocation, Container, ContainerKind, Pod
from trimtab.core.model.quantities import format_amount

Document = dict[str, Any]

ORDINARY: Document = {"name": "ordinary"}
"""An init container that ends before the pod starts."""


def write_pod(pod: Pod) -> Document:
    """The pod on the wire: its annotations and the resources of its containers."""
    metadata: Document = {"namespace": pod.namespace, "name": pod.name}
    if pod.annotations or pod.has_empty_annotations:
        metadata["annotations"] = dict(pod.annotations)
    lists: dict[str, list[Document]] = {kind.value: [] for kind in ContainerKind}
    for container in pod.containers:
        place = lists[container.kind.value]
        place.extend([ORDINARY] * (container.index - len(place)))
        place.append(_write_container(container))
    return {"metadata": metadata, "spec": lists}


def read_pod(document: Document) -> Pod:
    return decode_pod(json.dumps(document).encode())


def apply(patch: tuple[Operation, ...], document: Document) -> Document:
    """The document after the patch, by a library that accepts only valid patches."""
    text = msgspec.json.encode(patch).decode()
    patched: Any = jsonpatch.JsonPatch.from_string(text).apply(document)
    return dict(patched)


def _write_container(container: Container) -> Document:
    written: Document = {"name": container.name}
    if container.kind is ContainerKind.SIDECAR:
        written["restartPolicy"] = "Always"
    if container.spec != Allocation():
        written["resources"] = _write_allocation(container.spec)
    return written


def _write_allocation(allocation: Allocation) -> Document:
    maps = {"requests": allocation.requests, "limits": allocation.limits}
    return {
        name: {kind.value: format_amount(kind, amount) for kind, amount in amounts.items()}
        for name, amounts in maps.items()
        if amounts is not None
    }
