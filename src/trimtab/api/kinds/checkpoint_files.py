"""Checkpoints in files: the content of an export, and the flaws of an import.

Objects keep all their fields, including unknown ones. Only the metadata that a cluster assigns to
each object is left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from trimtab.api.crds import definitions, schema_check
from trimtab.api.kinds.checkpoints import Checkpoint, decode_checkpoint
from trimtab.api.wire import times
from trimtab.api.wire.codec import JSON, DecodeError
from trimtab.core.histogram import checkpoint as checkpoint_codec
from trimtab.core.histogram.checkpoint import CheckpointError

KIND: Final = "VerticalPodAutoscalerCheckpoint"
_API_VERSION: Final = f"{definitions.GROUP}/v1"
_READABLE: Final = (_API_VERSION, f"{definitions.GROUP}/v1beta2")
"""Both have the same fields."""
_OF_ONE_CLUSTER: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""Metadata that a cluster assigns to an object, and that is meaningless in another cluster."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint that can be stored and loaded."""

    checkpoint: Checkpoint
    document: dict[str, JSON]
    """The whole object as it is written."""

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name of the checkpoint."""
        return self.checkpoint.namespace, self.checkpoint.name


@dataclass(frozen=True, slots=True)
class CheckpointFlaw:
    """A checkpoint that cannot be imported, and the reason."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


def strip_checkpoint(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the object without the metadata that its cluster assigned."""
    metadata = document.get("metadata")
    kept = {
        key: value
        for key, value in (metadata if isinstance(metadata, dict) else {}).items()
        if key not in _OF_ONE_CLUSTER
    }
    return {**document, "apiVersion": _API_VERSION, "kind": KIND, "metadata": kept}


def make_file(
    documents: Iterable[Mapping[str, JSON]], *, server: str, at: datetime, version: str
) -> dict[str, JSON]:
    """Return all objects in one list that kubectl can read, annotated with their origin."""
    origin: dict[str, JSON] = {
        "trimtab.dev/exported-from": server,
        "trimtab.dev/exported-at": times.format_time(at),
        "trimtab.dev/exported-by": f"trimtab {version}",
    }
    items: list[JSON] = [strip_checkpoint(document) for document in documents]
    return {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"annotations": origin},
        "items": items,
    }


def list_documents(document: JSON, where: str = "") -> Iterator[tuple[str, JSON]]:
    """Yield all objects in a document, which may be a list, each with its place in it."""
    kind = document.get("kind") if isinstance(document, dict) else None
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            yield from list_documents(item, f"{where}.items[{index}]".lstrip("."))
    else:
        yield where or "the document", document


def namespace_of(document: JSON) -> str:
    """Return the namespace in a document's metadata; empty if there is none."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return namespace if isinstance(namespace, str) else ""


def read_manifest(
    where: str, document: JSON, namespaces: Mapping[str, str] | None = None
) -> Manifest | CheckpointFlaw | None:
    """Return the checkpoint in a document, or its flaw; None for other kinds.

    `namespaces` maps old namespaces to new ones.
    """
    if not isinstance(document, dict) or document.get("kind") != KIND:
        return None
    where = _name(document) or where
    version = document.get("apiVersion")
    if version not in _READABLE:
        return CheckpointFlaw(
            where, f"apiVersion: {version!r} is not one of {', '.join(_READABLE)}"
        )
    moved = _move(strip_checkpoint(document), namespaces or {})
    schema = definitions.schema(definitions.CHECKPOINT)
    error = next(schema_check.violations(schema, moved), None)
    if error is not None:
        return CheckpointFlaw(where, str(error))
    try:
        checkpoint = decode_checkpoint(msgspec.json.encode(moved))
        checkpoint_codec.decode_aggregate(checkpoint.aggregate)
    except (DecodeError, CheckpointError) as flaw:
        return CheckpointFlaw(where, str(flaw))
    return _check(where, Manifest(checkpoint, moved))


def _check(where: str, manifest: Manifest) -> Manifest | CheckpointFlaw:
    """Return the manifest if its names are consistent, or else the flaw."""
    checkpoint = manifest.checkpoint
    for field, value in (
        ("metadata.namespace", checkpoint.namespace),
        ("spec.vpaObjectName", checkpoint.autoscaler_name),
        ("spec.containerName", checkpoint.container_name),
    ):
        if not value:
            return CheckpointFlaw(where, f"{field}: missing")
    if checkpoint.name not in (checkpoint.usual_name, checkpoint.spare_name):
        wanted = checkpoint.usual_name
        return CheckpointFlaw(where, f"metadata.name: {checkpoint.name!r} should be {wanted!r}")
    return manifest


def _move(document: dict[str, JSON], namespaces: Mapping[str, str]) -> dict[str, JSON]:
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    namespace = namespace_of(document)
    if namespace in namespaces:
        return {**document, "metadata": {**metadata, "namespace": namespaces[namespace]}}
    return document


def _name(document: Mapping[str, JSON]) -> str:
    metadata = document.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    return "/".join(str(named[key]) for key in ("namespace", "name") if named.get(key))
