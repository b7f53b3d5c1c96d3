"""Requests: what a component asks of the simulated API server, and the right that it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.cluster.errors import Right


class Act(StrEnum):
    """A kind of request; the value is what it is called in reports."""

    WATCH_PODS = "watch pods"
    WATCH_AUTOSCALERS = "watch autoscalers"
    WATCH_CHECKPOINTS = "watch checkpoints"
    WATCH_LIMIT_RANGES = "watch limit ranges"
    WATCH_WORKLOADS = "watch workloads"
    FETCH_USAGE = "fetch usage"
    FETCH_SCALE = "fetch scale"
    FETCH_LEASE = "fetch lease"
    WRITE_LEASE = "write lease"
    PUBLISH_STATUS = "publish status"
    SAVE_CHECKPOINT = "save checkpoint"
    DELETE_CHECKPOINT = "delete checkpoint"
    EVICT = "evict"
    RESIZE = "resize"
    PATCH_POD = "patch pod"
    EMIT = "emit event"

    @property
    def right(self) -> Right:
        """What a role has to allow for it."""
        return _RIGHTS[self]


WATCHES: Final = frozenset(
    {
        Act.WATCH_PODS,
        Act.WATCH_AUTOSCALERS,
        Act.WATCH_CHECKPOINTS,
        Act.WATCH_LIMIT_RANGES,
        Act.WATCH_WORKLOADS,
    }
)
"""The acts that open a watch."""

WRITES: Final = frozenset(
    {
        Act.WRITE_LEASE,
        Act.PUBLISH_STATUS,
        Act.SAVE_CHECKPOINT,
        Act.DELETE_CHECKPOINT,
        Act.EVICT,
        Act.RESIZE,
        Act.PATCH_POD,
        Act.EMIT,
    }
)
"""The acts that change something."""

_AUTOSCALING: Final = "autoscaling.k8s.io"
_RIGHTS: Final[Mapping[Act, Right]] = {
    Act.WATCH_PODS: Right("list", "pods"),
    Act.WATCH_AUTOSCALERS: Right("list", "verticalpodautoscalers", _AUTOSCALING),
    Act.WATCH_CHECKPOINTS: Right("list", "verticalpodautoscalercheckpoints", _AUTOSCALING),
    Act.WATCH_LIMIT_RANGES: Right("list", "limitranges"),
    Act.WATCH_WORKLOADS: Right("list", "deployments", "apps"),
    Act.FETCH_USAGE: Right("list", "pods", "metrics.k8s.io"),
    Act.FETCH_SCALE: Right("get", "rollouts/scale", "example.com"),
    Act.FETCH_LEASE: Right("get", "leases", "coordination.k8s.io"),
    Act.WRITE_LEASE: Right("update", "leases", "coordination.k8s.io"),
    Act.PUBLISH_STATUS: Right("patch", "verticalpodautoscalers/status", _AUTOSCALING),
    Act.SAVE_CHECKPOINT: Right("patch", "verticalpodautoscalercheckpoints", _AUTOSCALING),
    Act.DELETE_CHECKPOINT: Right("delete", "verticalpodautoscalercheckpoints", _AUTOSCALING),
    Act.EVICT: Right("create", "pods/eviction"),
    Act.RESIZE: Right("patch", "pods/resize"),
    Act.PATCH_POD: Right("patch", "pods"),
    Act.EMIT: Right("create", "events"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    act: Act
    about: str = ""
    """The object, as namespace/name."""

    def __str__(self) -> str:
        return f"{self.act} {self.about}".rstrip()
