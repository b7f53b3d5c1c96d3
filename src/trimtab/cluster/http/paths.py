"""Paths of the REST API; every part is checked, since users choose names freely."""

from functools import lru_cache
from urllib.parse import quote

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import NotFoundError


@lru_cache(maxsize=4096)
def collection(api_version: str, resource: str, namespace: str = "") -> str:
    """Return the path of all objects of a resource, in one namespace or in all."""
    group, _, version = api_version.rpartition("/")
    root = ("apis", group) if group else ("api",)
    parts = (*root, version, *(("namespaces", namespace) if namespace else ()), resource)
    return "".join(f"/{_segment(part)}" for part in parts)


def item(collection_path: str, name: str, subresource: str = "") -> str:
    """Return the path of one object, or of a subresource of it."""
    end = f"/{_segment(subresource)}" if subresource else ""
    return f"{collection_path}/{_segment(name)}{end}"


def autoscalers(namespace: str = "") -> str:
    """Return the path of autoscalers."""
    return collection("autoscaling.k8s.io/v1", "verticalpodautoscalers", namespace)


def checkpoints(namespace: str = "") -> str:
    """Return the path of checkpoints."""
    return collection("autoscaling.k8s.io/v1", "verticalpodautoscalercheckpoints", namespace)


def pods(namespace: str = "") -> str:
    """Return the path of pods."""
    return collection("v1", "pods", namespace)


def _segment(text: str) -> str:
    # An empty part, a dot or a slash would lead to another object than the caller named.
    if text in {"", ".", ".."} or "/" in text or "%" in text:
        raise NotFoundError(
            text, Status(code=404, reason="NotFound", message=f"nothing can be named {text!r}")
        )
    return quote(text, safe="")
