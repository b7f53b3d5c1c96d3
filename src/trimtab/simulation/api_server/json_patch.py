"""JSON Patches applied to the part of a pod that components know."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import structs

from trimtab.core.model import quantities
from trimtab.core.model.json_patch import Operation, Patch, Remove
from trimtab.core.model.pods import Allocation, Container, ContainerKind, Pod
from trimtab.core.model.resources import BOTH, Resources

_Document: TypeAlias = "dict[str, _Document] | str"


_SHORTEST_IN_SPEC: Final = 4
"""Shortest path in the spec: `/spec/containers/0/…` may change only fields of a container."""


class PatchError(ValueError):
    """A patch that does not apply: part of its path does not exist."""


def apply_patch(pod: Pod, patch: Patch) -> Pod:
    """Return the patched pod; raise PatchError if an operation does not apply."""
    document = _open(pod)
    for operation in patch:
        _apply(document, operation)
    return _close(pod, document)


def _apply(document: _Document, operation: Operation) -> None:
    keys = [_unescape(key) for key in operation.path.split("/")[1:]]
    if len(keys) < (_SHORTEST_IN_SPEC if keys[:1] == ["spec"] else 1):
        raise PatchError(operation.path)
    *path, last = keys
    parent = document
    for key in path:
        if isinstance(parent, str) or key not in parent:
            raise PatchError(operation.path)
        parent = parent[key]
    if isinstance(parent, str):
        raise PatchError(operation.path)
    match operation:
        case Remove():
            if last not in parent:
                raise PatchError(operation.path)
            del parent[last]
        case _:
            value = operation.value
            parent[last] = value if isinstance(value, str) else dict(value)


def _unescape(key: str) -> str:
    return key.replace("~1", "/").replace("~0", "~")


def _open(pod: Pod) -> _Document:
    """Return the pod as a document; lists become maps by position, as no patch changes them."""
    metadata: dict[str, _Document] = {}
    if pod.labels:
        metadata["labels"] = dict(pod.labels)
    if pod.annotations or pod.has_empty_annotations:
        metadata["annotations"] = dict(pod.annotations)
    spec: dict[str, _Document] = {
        kind: {
            str(container.index): _open_container(container)
            for container in pod.containers
            if container.kind is kind
        }
        for kind in ContainerKind
    }
    return {"metadata": metadata, "spec": spec}


def _open_container(container: Container) -> _Document:
    maps = {"requests": container.spec.requests, "limits": container.spec.limits}
    present: dict[str, _Document] = {
        name: _open_amounts(amounts) for name, amounts in maps.items() if amounts is not None
    }
    return {"resources": present}


def _open_amounts(amounts: Resources) -> _Document:
    return {
        resource: quantities.format_amount(resource, amount) for resource, amount in amounts.items()
    }


def _close(pod: Pod, document: _Document) -> Pod:
    metadata = _map(_map(document)["metadata"])
    # The server leaves out maps that are empty.
    annotations = _texts(metadata.get("annotations"))
    spec = _map(_map(document)["spec"])
    return structs.replace(
        pod,
        labels=_texts(metadata.get("labels")) or {},
        annotations=annotations or {},
        has_empty_annotations=False,
        containers=tuple(_close_container(container, spec) for container in pod.containers),
    )


def _close_container(container: Container, spec: Mapping[str, _Document]) -> Container:
    own = _map(_map(spec[container.kind])[str(container.index)])
    resources = _map(own.get("resources") or {})
    allocation = Allocation(
        _amounts(resources.get("requests"), container.spec.requests),
        _amounts(resources.get("limits"), container.spec.limits),
    )
    return (
        container if allocation == container.spec else structs.replace(container, spec=allocation)
    )


def _amounts(document: "_Document | None", before: Resources | None) -> Resources | None:
    texts = _texts(document)
    if texts is None or (not texts and before != {}):
        return None
    return {kind: quantities.parse_amount(kind, texts[kind]) for kind in BOTH if kind in texts}


def _texts(document: "_Document | None") -> dict[str, str] | None:
    if document is None:
        return None
    return {key: value for key, value in _map(document).items() if isinstance(value, str)}


def _map(document: _Document) -> dict[str, _Document]:
    if isinstance(document, str):
        raise PatchError(document)
    return document
