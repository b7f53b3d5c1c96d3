"""What tests of running pods have in common: workloads of workers on the real node."""

import http.client
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from support.stages.components import SLOW_SECONDS, Json, Run
from support.stages.updater import Stage

from rig import node, waiting, workers
from rig.node import Node

LEASE = "--admission-controller-status-lease-namespace=kube-system"
EAGER = "--cool-down=0s"
SETTLED = ("InsideBounds", "ChangeTooSmall", "TooYoung", "CoolDown")
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_OK = 200
TICKS = 'vpa_updater_execution_latency_seconds_count{step="total"}'

Limits = tuple[int, int, int]
"""CPU shares, CPU quota in microseconds of 100 000, and the memory limit in bytes."""

worker = partial(workers.container, name="c0")
# Containers of one pod share its ports.
second_worker = partial(workers.container, "-listen=:8081", name="c1")


class NodeStage(Stage):
    """A namespace of the real node, and what the kernel says about its pods."""

    def __init__(self, on: Node, namespace: str) -> None:
        super().__init__(on.plane, namespace)
        self.on = on

    def run(
        self, *containers: Json, name: str = "web", kind: str = "Deployment", replicas: int = 2
    ) -> list[Json]:
        """The pods of a new workload of those containers, as soon as all of them run."""
        template = workers.template(containers)
        return self.start(template, name=name, kind=kind, replicas=replicas)

    def fill(self, millicores: int) -> None:
        """Take so much of the node away, with a pod that is named `neighbour`."""
        container = workers.container(requests={"cpu": f"{millicores}m"})
        self.plane.create(self._pods, workers.pod("neighbour", container))
        self.plane.wait_for(
            f"{self._pods}/neighbour", lambda pod: pod["status"]["phase"] == "Running"
        )

    def make_room(self) -> None:
        """Give back what was taken away."""
        self.plane.request("DELETE", f"{self._pods}/neighbour")

    def capacity(self) -> int:
        """The millicores of the node."""
        _, body = self.plane.request("GET", f"/api/v1/nodes/{self.on.name}")
        return int(json.loads(body)["status"]["allocatable"]["cpu"]) * 1000

    def minor_version(self) -> int:
        """Which 1.x the API server is."""
        _, body = self.plane.request("GET", "/version")
        return int(json.loads(body)["minor"])

    def limits(self, pod: Json, container: str = "c0") -> Limits:
        """What the kernel lets a container have."""
        files = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")
        shares, quota, memory = (int(self.on.read_cgroup(pod, each, container)) for each in files)
        return shares, quota, memory

    def shares(self, pod: Json, container: str = "c0") -> int:
        """The weight that the kernel gives a container: 1024 for a core."""
        return int(self.on.read_cgroup(pod, "cpu.shares", container))

    def wait_for_limits(
        self, pods: Iterable[Json], expected: Limits, container: str = "c0"
    ) -> None:
        """Return as soon as the kernel lets the container of each pod have that."""
        for pod in pods:
            waiting.wait_for(
                partial(self.limits, pod, container),
                expected.__eq__,
                patience_seconds=SLOW_SECONDS,
            )

    def wait_for_shares(self, pods: Iterable[Json], expected: int, container: str = "c0") -> None:
        """Return as soon as the container of each pod has that weight."""
        for pod in pods:
            waiting.wait_for(
                partial(self.shares, pod, container),
                expected.__eq__,
                patience_seconds=SLOW_SECONDS,
            )

    def abandon(self, name: str = "web") -> None:
        """Delete the autoscaler of a workload."""
        self.plane.request("DELETE", f"{self._autoscalers}/{name}")

    def kill_all(self, name: str = "web") -> None:
        """Delete all pods of a workload at once; return when they are gone."""
        killed = self.uids(name)
        self.plane.request("DELETE", f"{self._pods}?labelSelector=app%3D{name}")
        self.wait_for_pods(lambda pods: killed.isdisjoint(uids_of(pods)), name)

    @contextmanager
    def refusing_resizes(self, pod: Json) -> Iterator[Callable[[], None]]:
        """Let the API server refuse all resizes in the namespace, until what is given is called."""
        policies = f"{_ADMISSION}/validatingadmissionpolicies/{self.namespace}"
        bindings = f"{_ADMISSION}/validatingadmissionpolicybindings/{self.namespace}"
        for path, manifest in _refusal(self.namespace).items():
            self.plane.create(f"{_ADMISSION}/{path}", manifest)
        try:
            waiting.wait_for(lambda: self._try_resize(pod), lambda status: status != _OK)
            yield lambda: self._delete(bindings)
        finally:
            self._delete(bindings)
            self._delete(policies)

    def _try_resize(self, pod: Json) -> int:
        """How the API server would answer to a resize."""
        path = f"{self._pods}/{pod['metadata']['name']}/resize?dryRun=All"
        sizes = {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "55m"}}}]}
        body = json.dumps({"spec": sizes}).encode()
        kind = "application/strategic-merge-patch+json"
        return self.plane.request("PATCH", path, body, kind)[0]

    def _delete(self, path: str) -> None:
        self.plane.request("DELETE", path)

    def tell(self, pod: Json, appetite: str) -> None:
        """Give the worker of a pod another appetite."""
        connection = http.client.HTTPConnection(pod["status"]["podIP"], workers.PORT, timeout=10)
        try:
            connection.request("POST", f"/appetite?{appetite}")
            assert connection.getresponse().status == http.HTTPStatus.OK
        finally:
            connection.close()


def _refusal(namespace: str) -> dict[str, Json]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["pods/resize"],
    }
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "no resizes here"}],
    }
    place = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {
        "policyName": namespace,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": place},
    }
    version = "admissionregistration.k8s.io/v1"
    common: Json = {"apiVersion": version, "metadata": {"name": namespace}}
    return {
        "validatingadmissionpolicies": {
            **common,
            "kind": "ValidatingAdmissionPolicy",
            "spec": policy,
        },
        "validatingadmissionpolicybindings": {
            **common,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": binding,
        },
    }


def is_boosted(pod: Json) -> bool:
    marks = pod["metadata"].get("annotations", {})
    return any(mark.startswith("vpaCpuStartupBoost/") for mark in marks)


def is_ready(pod: Json) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return bool(statuses) and all(each["ready"] for each in statuses)


def started_at(pod: Json) -> datetime:
    """When the first container that runs now was started."""
    running = pod["status"]["containerStatuses"][0]["state"]["running"]
    return datetime.fromisoformat(running["startedAt"])


def ready_at(pod: Json) -> datetime:
    """Since when the pod is ready, or is not."""
    (ready,) = (each for each in pod["status"]["conditions"] if each["type"] == "Ready")
    return datetime.fromisoformat(ready["lastTransitionTime"])


def restarts(pods: Iterable[Json]) -> int:
    """How often containers of the pods were restarted."""
    return sum(
        status["restartCount"] for pod in pods for status in pod["status"]["containerStatuses"]
    )


def containers(pods: Iterable[Json]) -> set[str]:
    """The ids of all containers of the pods."""
    return {
        node.container_id(pod, status["name"])
        for pod in pods
        for status in pod["status"]["containerStatuses"]
    }


def uids_of(pods: Iterable[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def resize_reason(pod: Json) -> str:
    """What the node says of a resize that has not succeeded yet."""
    kinds = ("PodResizePending", "PodResizeInProgress")
    found = [each for each in pod["status"].get("conditions", []) if each["type"] in kinds]
    return str(found[0].get("reason", "")) if found else ""


def wait_for_ticks(run: Run, count: int = 3) -> None:
    """Return once so many more ticks are over."""
    begun = run.metric(TICKS)
    waiting.wait_for(
        lambda: run.metric(TICKS),
        lambda found: found >= begun + count,
        patience_seconds=SLOW_SECONDS,
    )
