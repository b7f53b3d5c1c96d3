"""New pods as a webhook is shown them: whose they are is read at once, the rest only if needed.

Most new pods have no autoscaler, and most of those that have one were made from the same template
as the last one. So there are three depths: the head, what tells one template from another, and the
whole pod. Whatever decides about a pod's size must be part of the second, too.

A new pod has no status: one that it brings along belongs to the pod that it was copied from, and no
depth shows it.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from trimtab.api.decoding import Wire, decode
from trimtab.api.encoding import encode
from trimtab.api.metadata import Owner, find_controller
from trimtab.api.placement import WireAffinity, count_expressions
from trimtab.api.pods import decode_new_pod
from trimtab.core import bounds
from trimtab.core.annotations import BOOST_PREFIX
from trimtab.core.pods import Pod

_MARK: Final = BOOST_PREFIX.removesuffix("/").encode()
_NULL: Final = msgspec.Raw(b"null")
_KEPT_HEADS: Final = 256
_USUAL_BYTES: Final = 32 * 1024
"""Of what is larger nothing is kept: anybody who may create pods could fill our memory."""
_FEW_DEMANDS_BYTES: Final = bounds.MAX_NODE_DEMANDS * len("{},")
"""So much JSON holds no more demands on nodes than admission looks at."""


class _Metadata(Wire, frozen=True, kw_only=True):
    labels: dict[str, str | None] | None = None
    annotations: msgspec.Raw = _NULL
    owner_references: tuple[Owner, ...] | None = None


class _Head(Wire, frozen=True, kw_only=True):
    metadata: _Metadata | None = None
    spec: msgspec.Raw = _NULL


class _Container(Wire, frozen=True, kw_only=True):
    name: msgspec.Raw = _NULL
    resources: msgspec.Raw = _NULL
    resize_policy: msgspec.Raw = _NULL
    restart_policy: msgspec.Raw = _NULL


class _Spec(Wire, frozen=True, kw_only=True):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    resources: msgspec.Raw = _NULL
    os: msgspec.Raw = _NULL
    overhead: msgspec.Raw = _NULL
    priority_class_name: msgspec.Raw = _NULL
    priority: msgspec.Raw = _NULL
    preemption_policy: msgspec.Raw = _NULL
    active_deadline_seconds: msgspec.Raw = _NULL
    node_selector: msgspec.Raw = _NULL
    affinity: msgspec.Raw = _NULL
    tolerations: msgspec.Raw = _NULL


_NO_METADATA: Final = _Metadata()
_NO_SPEC: Final = _Spec()
_NO_LABELS: Final[Mapping[str, str]] = {}

_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)
_SPEC_DECODER: Final = msgspec.json.Decoder(_Spec | None)
_MAP_DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_LIST_DECODER: Final = msgspec.json.Decoder(tuple[msgspec.Raw, ...] | None)
_AFFINITY_DECODER: Final = msgspec.json.Decoder(WireAffinity | None)


class NewPod:
    """A pod that is being created, read no further than anybody asks."""

    def __init__(self, data: bytes, namespace: str) -> None:
        """Read the head; the namespace is that of the request, whatever the pod's author wrote."""
        self._data = data
        self._source = decode(_HEAD_DECODER, data)
        self._metadata = self._source.metadata or _NO_METADATA
        self.labels = _texts(self._metadata.labels)
        make_head = _head if self.is_usual else _make_head
        self.head = make_head(namespace, self._metadata.owner_references)
        self._known_spec: _Spec | None = None

    @property
    def is_usual(self) -> bool:
        """True if the pod is small enough for what is worked out of it to be kept."""
        return len(self._data) <= _USUAL_BYTES

    @property
    def may_be_marked(self) -> bool:
        """False if the pod has no mark of a boost for certain."""
        return _MARK in bytes(self._metadata.annotations)

    def excess(self) -> str:
        """Return what the pod has more of than admission looks at; empty if it has not.

        Looked at before the pod is read whole, which takes longest.
        """
        spec = self._spec
        containers = len(spec.containers or ()) + len(spec.init_containers or ())
        if containers > bounds.MAX_CONTAINERS:
            return f"{containers} containers; at most {bounds.MAX_CONTAINERS} are sized"
        demands = _count_demands(spec)
        if demands > bounds.MAX_NODE_DEMANDS:
            return f"{demands} demands on nodes; at most {bounds.MAX_NODE_DEMANDS} are looked at"
        # Written as JSON they are no shorter than the API server counts them.
        size = len(self._metadata.annotations)
        most = bounds.MAX_ANNOTATION_BYTES - bounds.ANNOTATION_BYTES_PER_CONTAINER * containers
        if size > most:
            return f"{size} bytes of annotations; more than {most} leave no room for ours"
        return ""

    def likeness(self) -> bytes:
        """What is the same for two pods only if the same is decided about their sizes."""
        # Short, so that ten thousands of them can be kept.
        return hashlib.sha256(encode((self._metadata.annotations, self._spec))).digest()

    @property
    def _spec(self) -> _Spec:
        # Until Python 3.12 a cached property takes a lock.
        if self._known_spec is None:
            self._known_spec = decode(_SPEC_DECODER, self._source.spec) or _NO_SPEC
        return self._known_spec

    def read(self) -> Pod:
        """The whole pod."""
        return decode_new_pod(self._data, self.head)


def _make_head(namespace: str, references: tuple[Owner, ...] | None) -> Pod:
    return Pod(namespace, name="", owner=find_controller(references))


# Pods of one owner come in bursts.
_head: Final = lru_cache(maxsize=_KEPT_HEADS)(_make_head)


def _count_demands(spec: _Spec) -> int:
    """Count the labels, expressions and tolerations with which a pod chooses nodes.

    Few bytes hold few of them, and are not read: 0 stands for any number that is allowed.
    """
    parts = spec.node_selector, spec.tolerations, spec.affinity
    if sum(map(len, parts)) <= _FEW_DEMANDS_BYTES:
        return 0
    selector = decode(_MAP_DECODER, spec.node_selector) or {}
    tolerations = decode(_LIST_DECODER, spec.tolerations) or ()
    affinity = decode(_AFFINITY_DECODER, spec.affinity) or WireAffinity()
    return len(selector) + len(tolerations) + count_expressions(affinity)


def _texts(labels: dict[str, str | None] | None) -> Mapping[str, str]:
    return {key: value or "" for key, value in labels.items()} if labels else _NO_LABELS
