"""New pods as a webhook is shown them: whose they are is read at once, the rest only if needed.

Most new pods have no autoscaler, and most of those that have one were made from the same template
as the last one. So there are three depths: the head, what tells one template from another, and the
whole pod. Whatever decides about a pod's size must be part of the second, too.

A new pod has no status: one that it brings along belongs to the pod that it was copied from, and no
depth shows it.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from trimtab.api.kinds import pod_placement, pods
from trimtab.api.kinds.pods import NewPodSpec
from trimtab.api.wire import codec
from trimtab.api.wire.codec import DecodeError, Wire
from trimtab.api.wire.metadata import Owner, find_controller
from trimtab.core.model import size_bounds
from trimtab.core.model.pods import BOOST_PREFIX, Pod, PodHead

_MARK: Final = BOOST_PREFIX.removesuffix("/").encode()
_NULL: Final = msgspec.Raw(b"null")
_USUAL_BYTES: Final = 32 * 1024
"""Of what is larger nothing is kept: anybody who may create pods could fill our memory."""


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
    """A pod that is being created, read no further than anybody asks."""

    def __init__(self, data: bytes, namespace: str) -> None:
        """Read the head; the namespace is that of the request, whatever the pod's author wrote."""
        source = codec.decode(_HEAD_DECODER, data)
        metadata = source.metadata or _NO_METADATA
        self.is_usual = len(data) <= _USUAL_BYTES
        """True if the pod is small enough for what is worked out of it to be kept."""
        self.labels = _texts(metadata.labels)
        self.head = PodHead(namespace, find_controller(metadata.owner_references))
        self._annotations = metadata.annotations
        self._written_spec = source.spec
        self._known_spec: NewPodSpec | None = None

    @property
    def may_be_marked(self) -> bool:
        """False if the pod has no mark of a boost for certain."""
        return _MARK in bytes(self._annotations)

    def excess(self) -> str:
        """Return what the pod has more of than admission looks at; empty if it has not.

        Looked at before anything is worked out of it, which takes longest.
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
        # Written as JSON they are no shorter than the API server counts them.
        size = len(self._annotations)
        most = (
            size_bounds.MAX_ANNOTATION_BYTES
            - size_bounds.ANNOTATION_BYTES_PER_CONTAINER * containers
        )
        if size > most:
            return f"{size} bytes of annotations; more than {most} leave no room for ours"
        return ""

    def likeness(self) -> bytes:
        """What is the same for two pods only if the same is decided about their sizes."""
        # Short, so that ten thousands of them can be kept.
        return hashlib.sha256(codec.encode((self._annotations, self._spec))).digest()

    @property
    def _spec(self) -> NewPodSpec:
        # Until Python 3.12 a cached property takes a lock.
        if self._known_spec is None:
            self._known_spec = self._decode_spec()
        return self._known_spec

    def read(self) -> Pod:
        """All of the pod that decides about its size."""
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
