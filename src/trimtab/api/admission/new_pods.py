"""New pods in admission reviews: the head is decoded at once, the rest only if needed.

Most new pods have no autoscaler. Most of the others come from the same template as the last one. So
there are three depths: the head, a key that distinguishes templates, and the whole pod. Every field
that affects a pod's size must be part of the key.

A new pod has no status. A status in the request belongs to the pod that it was copied from, and no
depth includes it.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from trimtab.api.kinds import pod_placement, pods
from trimtab.api.kinds.pod_parts.wire import NewPodSpec
from trimtab.api.wire import codec
from trimtab.api.wire.codec import DecodeError, Wire
from trimtab.api.wire.metadata import Owner, find_controller
from trimtab.core.model import size_bounds
from trimtab.core.model.pods import BOOST_PREFIX, Pod, PodHead

_MARK: Final = BOOST_PREFIX.removesuffix("/").encode()
_NULL: Final = msgspec.Raw(b"null")
_USUAL_BYTES: Final = 32 * 1024
"""Maximum size of a pod that is cached: anyone who may create pods could fill the memory."""


class _Metadata(Wire, frozen=True, kw_only=True):
    labels: dict[str, str | None] | None = None
    annotations: msgspec.Raw = _NULL
    owner_references: tuple[Owner, ...] | None = None


class _Head(Wire, frozen=True, kw_only=True):
    metadata: _Metadata | None = None
    spec: msgspec.Raw = _NULL


_NO_METADATA: Final = _Metadata()
_NO_SPEC: Final = NewPodSpec()
_NO_LABELS: Final[Mapping[str, str]] = {}

_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)
_SPEC_DECODER: Final = msgspec.json.Decoder(NewPodSpec | None)
_ANNOTATIONS_DECODER: Final = msgspec.json.Decoder(dict[str, str | None] | None)


class NewPod:
    """A pod that is being created, decoded only as far as needed."""

    def __init__(self, data: bytes, namespace: str) -> None:
        """Decode the head; the namespace is that of the request, whatever the object contains."""
        source = codec.decode(_HEAD_DECODER, data)
        metadata = source.metadata or _NO_METADATA
        self.is_usual = len(data) <= _USUAL_BYTES
        """True if the pod is small enough for its size to be cached."""
        self.labels = _texts(metadata.labels)
        self.head = PodHead(namespace, find_controller(metadata.owner_references))
        self._annotations = metadata.annotations
        self._written_spec = source.spec
        self._known_spec: NewPodSpec | None = None

    @property
    def may_be_marked(self) -> bool:
        """False if the pod certainly has no mark of a boost."""
        return _MARK in bytes(self._annotations)

    def excess(self) -> str:
        """Return the first excess over the bounds of admission; empty if there is none.

        Checked before the size is computed, which takes longest.
        """
        spec = self._spec
        containers = len(spec.containers or ()) + len(spec.init_containers or ())
        if containers > size_bounds.MAX_CONTAINERS:
            return f"{containers} containers; at most {size_bounds.MAX_CONTAINERS} are sized"
        demands = _count_demands(spec)
        if demands > size_bounds.MAX_NODE_DEMANDS:
            return (
                f"{demands} demands on nodes; at most {size_bounds.MAX_NODE_DEMANDS} are looked at"
            )
        # Their JSON is never shorter than the size that the API server counts.
        size = len(self._annotations)
        most = (
            size_bounds.MAX_ANNOTATION_BYTES
            - size_bounds.ANNOTATION_BYTES_PER_CONTAINER * containers
        )
        if size > most:
            return f"{size} bytes of annotations; more than {most} leave no room for ours"
        return ""

    def likeness(self) -> bytes:
        """Return a key; pods with equal keys get the same size from the same autoscaler."""
        # A hash is short, so that tens of thousands can be cached.
        return hashlib.sha256(codec.encode((self._annotations, self._spec))).digest()

    @property
    def _spec(self) -> NewPodSpec:
        # Until Python 3.12 a cached property takes a lock.
        if self._known_spec is None:
            self._known_spec = self._decode_spec()
        return self._known_spec

    def read(self) -> Pod:
        """Return all of the pod that affects its size."""
        annotations = codec.decode(_ANNOTATIONS_DECODER, self._annotations)
        return pods.convert_new_pod(self.head, self.labels, annotations, self._spec)

    def _decode_spec(self) -> NewPodSpec:
        try:
            return codec.decode(_SPEC_DECODER, self._written_spec) or _NO_SPEC
        except DecodeError as error:
            raise DecodeError(f"spec.{error.path}".strip("."), error.problem) from error


def _count_demands(spec: NewPodSpec) -> int:
    """Count the labels, expressions and tolerations with which a pod chooses nodes."""
    expressions = 0 if spec.affinity is None else pod_placement.count_expressions(spec.affinity)
    return len(spec.node_selector or ()) + len(spec.tolerations or ()) + expressions


def _texts(labels: dict[str, str | None] | None) -> Mapping[str, str]:
    return {key: value or "" for key, value in labels.items()} if labels else _NO_LABELS
