"""A real API server with its own etcd, on free ports of loopback, for as long as a block lasts.

Controllers, a scheduler and a large fake node join where they are asked for. Everything is written
into one temporary folder that goes with it; of processes it ends exactly those that it started.
"""

import http.client
import json
import secrets
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeAlias

from rig import certificates, flags, locks, processes, programs, stages, waiting
from rig.certificates import Certificates
from rig.flags import LOOPBACK

NODE: Final = "kwok-0"
_USAGE_PATH: Final = f"/metrics/nodes/{NODE}/metrics/resource"
_NODE_SIZE: Final = {"cpu": "10k", "memory": "100Ti", "pods": "100k"}
_PREFIX: Final = "trimtab-rig-"
_TIMEOUT_SECONDS: Final = 10

Json: TypeAlias = dict[str, Any]


class Part(StrEnum):
    """What may join the API server; the value is the name of the program."""

    CONTROLLERS = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    NODE = "kwok"


@dataclass(frozen=True, slots=True)
class Ports:
    """One free port for each that listens."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controllers: int
    scheduler: int
    kwok: int


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane, and the means to talk to it as its administrator."""

    directory: Path
    logs: Path
    ports: Ports
    token: str
    certificates: Certificates
    parts: frozenset[Part] = frozenset()

    @property
    def kubeconfig(self) -> Path:
        """The file for kubectl."""
        return self.directory / "kubeconfig"

    @property
    def port(self) -> int:
        """Where the API server listens."""
        return self.ports.apiserver

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, bytes]:
        """The status and the body of the API server's answer, whatever the status."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        connection = self._connect(self.port)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def wait_for(self, path: str, holds: Callable[[Json], object]) -> Json:
        """What is at a path as soon as it is as wanted; else a WaitError that shows it."""
        _, found = waiting.wait_for(
            lambda: self._read(path), lambda read: read[0] == HTTPStatus.OK and holds(read[1])
        )
        return found

    def read_usage(self) -> str:
        """What the fake node tells of its containers, in the text that a kubelet writes."""
        connection = http.client.HTTPConnection(LOOPBACK, self.ports.kwok, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", _USAGE_PATH)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def can_read(self, path: str) -> bool:
        """Whether a path is answered well by now."""
        try:
            status, _ = self.request("GET", path)
        except OSError:
            return False
        return status == HTTPStatus.OK

    def is_healthy(self, port: int) -> bool:
        """Whether a component that has our certificate says so of itself."""
        connection = self._connect(port)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def last_words(self, count: int = 5) -> str:
        """The ends of all logs, and where they are."""
        ends = [
            "\n".join(
                [f"{log.name}:", *log.read_text("utf-8", errors="replace").splitlines()[-count:]]
            )
            for log in sorted(self.logs.glob("*.log"))
        ]
        return "\n".join([*ends, f"(all logs: {self.logs})"])

    def _read(self, path: str) -> tuple[int, Json]:
        status, body = self.request("GET", path)
        return status, json.loads(body)

    def _connect(self, port: int) -> http.client.HTTPSConnection:
        trust = ssl.create_default_context(cafile=self.certificates.authority)
        return http.client.HTTPSConnection(LOOPBACK, port, context=trust, timeout=_TIMEOUT_SECONDS)


@contextmanager
def running(*parts: Part, logs: Path | None = None) -> Iterator[ControlPlane]:
    """A control plane that is ready for use; programs that are missing are built first.

    Logs are in its folder, and go with it, unless another folder is given for them.
    """
    found = {name: programs.find(name) for name in ("etcd", "kube-apiserver", *parts)}
    with ExitStack() as stack:
        directory = stack.enter_context(_own_directory())
        plane = _prepare(directory, logs or directory, frozenset(parts))

        def start(
            name: str, arguments: Sequence[str], is_ready: Callable[[], bool]
        ) -> processes.Process:
            process = stack.enter_context(
                processes.running(found[name], arguments, directory, logs=plane.logs)
            )
            process.wait_until(is_ready)
            return process

        _start_apiserver(plane, start)
        for part in Part:
            if part in plane.parts:
                _START[part](plane, start)
        yield plane


@contextmanager
def _own_directory() -> Iterator[Path]:
    """A folder for as long as the block lasts; those of runs that were killed go now."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/lock"):
        if locks.was_abandoned(lock):
            shutil.rmtree(lock.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, locks.held(Path(name) / "lock"):
        yield Path(name)


_Start = Callable[[str, Sequence[str], Callable[[], bool]], processes.Process]


def _prepare(directory: Path, logs: Path, parts: frozenset[Part]) -> ControlPlane:
    logs.mkdir(parents=True, exist_ok=True)
    ports = Ports(*_free_ports(6))
    made = certificates.make(directory)
    plane = ControlPlane(directory, logs, ports, secrets.token_urlsafe(), made, parts)
    _write_credentials(plane)
    return plane


def _start_apiserver(plane: ControlPlane, start: _Start) -> None:
    ports = plane.ports
    etcd_flags = flags.for_etcd(ports.etcd, ports.etcd_peer)
    start("etcd", etcd_flags, lambda: _is_listening(ports.etcd))
    tokens = plane.directory / "tokens.csv"
    arguments = flags.for_apiserver(
        plane.certificates, tokens, port=plane.port, etcd_port=ports.etcd
    )
    server = start("kube-apiserver", arguments, lambda: plane.can_read("/readyz"))
    # The server makes the system namespaces by itself, a moment after it is ready.
    server.wait_until(lambda: plane.can_read("/api/v1/namespaces/default"))


def _start_controllers(plane: ControlPlane, start: _Start) -> None:
    port = plane.ports.controllers
    arguments = flags.for_controllers(plane.certificates, plane.kubeconfig, port)
    controllers = start(Part.CONTROLLERS, arguments, lambda: plane.is_healthy(port))
    # Without its account no pod is let in.
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    controllers.wait_until(lambda: plane.can_read(account))


def _start_scheduler(plane: ControlPlane, start: _Start) -> None:
    port = plane.ports.scheduler
    arguments = flags.for_scheduler(plane.certificates, plane.kubeconfig, port)
    start(Part.SCHEDULER, arguments, lambda: plane.is_healthy(port))


def _start_node(plane: ControlPlane, start: _Start) -> None:
    configuration = plane.directory / "kwok.yaml"
    stages.write(configuration)
    arguments = flags.for_kwok(plane.kubeconfig, configuration, plane.ports.kwok)
    start(Part.NODE, arguments, lambda: _is_listening(plane.ports.kwok))
    plane.request("POST", "/api/v1/nodes", json.dumps(_node()).encode())
    plane.wait_for(f"/api/v1/nodes/{NODE}", lambda node: _is_schedulable(node, plane.parts))


_START: Final[dict[Part, Callable[[ControlPlane, _Start], None]]] = {
    Part.CONTROLLERS: _start_controllers,
    Part.SCHEDULER: _start_scheduler,
    Part.NODE: _start_node,
}


def _node() -> Json:
    annotations = {
        "kwok.x-k8s.io/node": "fake",
        "metrics.k8s.io/resource-metrics-path": _USAGE_PATH,
    }
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "type": "kwok"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "annotations": annotations, "labels": labels},
        "status": {"allocatable": _NODE_SIZE, "capacity": _NODE_SIZE},
    }


def _is_schedulable(node: Json, parts: frozenset[Part]) -> bool:
    """Whether the node is ready, and free of the taint that the controllers take away."""
    conditions = node["status"].get("conditions", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    is_tainted = Part.CONTROLLERS in parts and "taints" in node["spec"]
    return is_ready and not is_tainted


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _write_credentials(plane: ControlPlane) -> None:
    token_line = f"{plane.token},admin,admin,system:masters\n"
    (plane.directory / "tokens.csv").write_text(token_line, encoding="utf-8")
    cluster = {
        "server": f"https://{LOOPBACK}:{plane.port}",
        "certificate-authority": str(plane.certificates.authority),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": plane.token}}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "admin"}}],
        "current-context": "rig",
    }
    plane.kubeconfig.write_text(json.dumps(config, indent=2), encoding="utf-8")
