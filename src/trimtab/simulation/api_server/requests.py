"""Requests of components to the simulated API server, and the right that each needs."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from trimtab.api.wire.status_errors import Cause, Status
from trimtab.cluster import errors
from trimtab.cluster.errors import ApiError, Right


class Act(StrEnum):
    """A kind of request; the value names it in reports."""

    LIST = "list"
    WATCH = "watch"
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


VIEWS: Final = frozenset({Act.LIST, Act.WATCH})
"""The acts that fill a store."""

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


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of objects, as roles name it."""

    resource: str
    group: str = ""

    def right(self, verb: str, namespace: str = "") -> Right:
        """Return the right that a role must grant, in one namespace or in all."""
        return _right(verb, self.resource, self.group, namespace)


# Cached: every request needs a right, and there are few different ones.
_right: Final = lru_cache(maxsize=4096)(Right)


PODS: Final = ObjectKind("pods")
EVICTIONS: Final = ObjectKind("pods/eviction")
RESIZES: Final = ObjectKind("pods/resize")
EVENTS: Final = ObjectKind("events")
LIMIT_RANGES: Final = ObjectKind("limitranges")
NODES: Final = ObjectKind("nodes")
NAMESPACES: Final = ObjectKind("namespaces")
HORIZONTALS: Final = ObjectKind("horizontalpodautoscalers", "autoscaling")
QUOTAS: Final = ObjectKind("resourcequotas")
AUTOSCALERS: Final = ObjectKind("verticalpodautoscalers", "autoscaling.k8s.io")
STATUSES: Final = ObjectKind("verticalpodautoscalers/status", "autoscaling.k8s.io")
CHECKPOINTS: Final = ObjectKind("verticalpodautoscalercheckpoints", "autoscaling.k8s.io")
LEASES: Final = ObjectKind("leases", "coordination.k8s.io")
USAGE: Final = ObjectKind("pods", "metrics.k8s.io")

_GROUPS: Final = {"CronJob": "batch", "Job": "batch", "ReplicationController": ""}


def workloads(kind: str) -> ObjectKind:
    """Return the object kind of a well-known kind of workloads."""
    return ObjectKind(f"{kind.lower()}s", _GROUPS.get(kind, "apps"))


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    act: Act
    right: Right
    """The right that the request needs."""
    name: str = ""
    """Name of the object; empty for a request about many."""

    def __str__(self) -> str:
        return f"{self.act} {self.right.namespace}/{self.name}" if self.name else f"{self.right}"


def refuse(request: str, code: HTTPStatus, message: str = "", *causes: Cause) -> ApiError:
    """Return the error for a status code of the server."""
    return errors.refusal(request, Status(code, code.phrase, message or code.phrase, causes))


def not_found(request: str) -> ApiError:
    """Return the error for an object that does not exist."""
    return refuse(request, HTTPStatus.NOT_FOUND)


def conflict(request: str, message: str = "the object has been modified") -> ApiError:
    """Return the error for an object that has changed."""
    return refuse(request, HTTPStatus.CONFLICT, message)


def invalid(request: str, field: str, message: str) -> ApiError:
    """Return the error for an object with an invalid field."""
    cause = Cause("FieldValueInvalid", message, field)
    return refuse(request, HTTPStatus.UNPROCESSABLE_ENTITY, f"{field}: {message}", cause)


def forbidden(request: str, message: str) -> ApiError:
    """Return the error for a request that a role, quota or limit range forbids."""
    return refuse(request, HTTPStatus.FORBIDDEN, message)


def lacks_right(request: str, right: Right) -> ApiError:
    """Return the error for a right that no role grants to the component."""
    return forbidden(
        request,
        f'cannot {right.verb} resource "{right.resource}" in API group "{right.group}"'
        + (f' in the namespace "{right.namespace}"' if right.namespace else ""),
    )


def over_budget(request: str, budget: str) -> ApiError:
    """Return the error for an eviction that a PodDisruptionBudget does not allow now."""
    cause = Cause("DisruptionBudget", f"The disruption budget {budget} does not allow it.")
    return refuse(request, HTTPStatus.TOO_MANY_REQUESTS, "", cause)


def too_many_requests(request: str, retry_after: timedelta | None = None) -> ApiError:
    """Return the error of a busy server that asks the caller to retry later."""
    code = HTTPStatus.TOO_MANY_REQUESTS
    status = Status(code, code.phrase, "the server is busy", retry_after=retry_after)
    return errors.refusal(request, status)
