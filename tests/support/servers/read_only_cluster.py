"""A small cluster on loopback that only shows: workloads with pods, a node, and their usage."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from support.servers.api_server import Asked, Response, Unfinished, ok, refused, serving

Json = dict[str, Any]
_AUTOSCALING = "verticalpodautoscalers", "verticalpodautoscalercheckpoints"
_HORIZONTAL = "horizontalpodautoscalers"
_OF_NAMESPACE = 4
"""Slashes in the path of a namespace."""
_WORKLOADS = (
    *("deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs"),
    "replicationcontrollers",
)


def _metadata(
    name: str, namespace: str, owner: tuple[str, str] | None = None, app: str = ""
) -> Json:
    labels = {"app": app or name}
    made: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels}
    if owner is not None:
        kind, owner_name = owner
        made["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": kind,
                "name": owner_name,
                "uid": f"uid-{owner_name}",
                "controller": True,
            }
        ]
    return made


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str


Beside = Callable[..., Awaitable[Done]]
"""Runs a command beside a cluster."""


@dataclass(slots=True)
class ReadOnlyCluster:
    """What is in it, by resource; what is not there is not served."""

    objects: dict[str, list[Json]] = field(
        default_factory=lambda: {
            name: []
            for name in (*_WORKLOADS, *_AUTOSCALING, *("pods", "limitranges", "nodes", _HORIZONTAL))
        }
    )
    usage: list[Json] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=lambda: {"default", "shop"})
    """Namespaces that exist, beside those of objects."""
    was_measured: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once somebody has asked for usage."""

    def add_node(self, name: str = "one", cpu: str = "4", memory: str = "16Gi") -> None:
        allocatable = {"cpu": cpu, "memory": memory}
        self.objects["nodes"].append(
            {"metadata": {"name": name}, "status": {"allocatable": allocatable}}
        )

    def deploy(
        self,
        name: str = "web",
        *,
        namespace: str = "shop",
        replicas: int = 2,
        resources: Json | None = None,
    ) -> None:
        """A Deployment with its ReplicaSet and its pods, of one container `app`."""
        spec = {"selector": {"matchLabels": {"app": name}}, "replicas": replicas}
        inner = f"{name}-1"
        self.objects["deployments"].append({"metadata": _metadata(name, namespace), "spec": spec})
        self.objects["replicasets"].append(
            {"metadata": _metadata(inner, namespace, ("Deployment", name)), "spec": spec}
        )
        for place in range(replicas):
            owner = ("ReplicaSet", inner)
            pod = f"{inner}-{place}"
            self.add_pod(pod, namespace, resources=resources, owner=owner, app=name)

    def add_pod(
        self,
        name: str,
        namespace: str = "shop",
        *,
        resources: Json | None = None,
        owner: tuple[str, str] | None = None,
        app: str = "",
    ) -> None:
        container = {"name": "app", "image": "any", "resources": resources or {}}
        self.objects["pods"].append(
            {
                "metadata": _metadata(name, namespace, owner, app),
                "spec": {"containers": [container], "nodeName": "one"},
                "status": {"phase": "Running", "startTime": "2026-08-22T11:00:00Z"},
            }
        )

    def add_object(self, resource: str, body: Mapping[str, object]) -> None:
        self.objects[resource].append(dict(body))

    def use(self, cpu: str, memory: str, pods: Iterable[str] | None = None) -> None:
        """Let pods use so much at every reading, all of them if none is named."""
        for pod in self.objects["pods"]:
            if pods is None or pod["metadata"]["name"] in pods:
                usage = {"cpu": cpu, "memory": memory}
                self.usage.append(
                    {
                        "metadata": pod["metadata"],
                        "window": "15s",
                        "containers": [{"name": "app", "usage": usage}],
                    }
                )

    def answer(self, asked: Asked) -> Response:
        assert asked.method == "GET", "nothing may be written"
        if "watch" in asked.query:
            return Unfinished(is_silent=True)
        if asked.path.startswith("/apis/metrics.k8s.io/"):
            return self._show_usage(asked)
        resource = asked.path.rpartition("/")[2]
        if asked.path.startswith("/api/v1/namespaces/") and asked.path.count("/") == _OF_NAMESPACE:
            return self._show_namespace(resource)
        if resource in self.forbidden:
            return refused(403, reason="Forbidden", message=f"{resource} is forbidden")
        if resource in self.missing or resource not in self.objects:
            return refused(404, reason="NotFound")
        return in_namespace(asked, self.objects[resource])

    def _show_namespace(self, name: str) -> Response:
        if "namespaces" in self.forbidden:
            return refused(403, reason="Forbidden", message="namespaces is forbidden")
        used = {
            each["metadata"].get("namespace") for kind in self.objects.values() for each in kind
        }
        if name not in used | self.namespaces:
            return refused(404, reason="NotFound")
        return ok({"metadata": {"name": name}})

    def _show_usage(self, asked: Asked) -> Response:
        self.was_measured.set()
        if "metrics" in self.missing:
            return refused(404, reason="NotFound")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return in_namespace(asked, [{**each, "timestamp": now} for each in self.usage])


def in_namespace(asked: Asked, items: Iterable[Json]) -> Response:
    """The items of the namespace that is asked for, or of all."""
    parts = asked.path.split("/")
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else ""
    shown = [each for each in items if namespace in ("", each["metadata"].get("namespace", ""))]
    return ok({"metadata": {"resourceVersion": "7"}, "items": shown})


@asynccontextmanager
async def served(cluster: ReadOnlyCluster, folder: Path) -> AsyncIterator[Path]:
    """The kubeconfig by which the cluster is found while it is served."""
    # Whoever has seen enough leaves in the middle of a watch, and nobody has to know.
    logger = logging.getLogger("aiohttp.server")
    logger.disabled = True
    async with serving(cluster.answer) as server:
        yield write_kubeconfig(folder, server.url)


def write_kubeconfig(folder: Path, address: str, namespace: str = "shop") -> Path:
    config = {
        "clusters": [{"name": "small", "cluster": {"server": address}}],
        "users": [{"name": "reader", "user": {}}],
        "contexts": [
            {
                "name": "small",
                "context": {"cluster": "small", "user": "reader", "namespace": namespace},
            }
        ],
        "current-context": "small",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(config))), encoding="utf-8")
    return path
