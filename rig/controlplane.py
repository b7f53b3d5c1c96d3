"""A real API server with its own etcd, on free ports of loopback, for as long as a block lasts.

Controllers, a scheduler, a large fake node and metrics-server join where they are asked for.
Everything is written into one temporary folder that goes with it; of processes it ends exactly
those that it started.
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
from dataclasses import dataclass, field, fields
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Final

from rig import (
    audit,
    certificates,
    fake_node,
    flags,
    locks,
    metrics_server,
    processes,
    programs,
    stages,
    waiting,
)
from rig.certificates import Certificates
from rig.fake_node import Json
from rig.flags import LOOPBACK
from rig.processes import Process

_PREFIX: Final = "trimtab-rig-"
_TIMEOUT_SECONDS: Final = 10


class RequestError(RuntimeError):
    """A request that the API server should not have refused."""


class Part(StrEnum):
    """What may join the API server; the value is the name of the program."""

    CONTROLLERS = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    NODE = "kwok"
    METRICS = "metrics-server"


@dataclass(frozen=True, slots=True)
class Ports:
    """One free port for each that listens."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controllers: int
    scheduler: int
    kwok: int
    metrics: int


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane, and the means to talk to it as its administrator."""

    directory: Path
    logs: Path
    ports: Ports
    token: str
    certificates: Certificates
    parts: frozenset[Part] = frozenset()
    processes: dict[str, Process] = field(default_factory=dict)
    """What runs, by the name of the program."""

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
        *,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> tuple[int, bytes]:
        """The status and the body of the API server's answer, whatever the status."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        connection = self._connect(self.port, timeout_seconds)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def create(self, path: str, manifest: Json) -> Json:
        """The object as the API server keeps it; a RequestError if it refuses."""
        status, body = self.request("POST", path, json.dumps(manifest).encode())
        if status != HTTPStatus.CREATED:
            raise RequestError(f"POST {path}: {body.decode(errors='replace')}")
        created: Json = json.loads(body)
        return created

    def wait_for(
        self,
        path: str,
        holds: Callable[[Json], object],
        *,
        patience_seconds: float = waiting.PATIENCE_SECONDS,
    ) -> Json:
        """What is at a path as soon as it is as wanted; else a WaitError that shows it."""
        _, found = waiting.wait_for(
            lambda: self._read(path),
            lambda read: read[0] == HTTPStatus.OK and holds(read[1]),
            patience_seconds=patience_seconds,
        )
        return found

    def create_namespace(self, name: str) -> None:
        """Create a namespace, and return when it can hold pods."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.create("/api/v1/namespaces", manifest)
        # Without its account no pod is let in.
        self.wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)

    @contextmanager
    def own_namespace(self) -> Iterator[str]:
        """The name of a fresh namespace that can hold pods, and that is deleted in the end."""
        name = f"test-{secrets.token_hex(4)}"
        self.create_namespace(name)
        yield name
        self.request("DELETE", f"/api/v1/namespaces/{name}")

    def read_usage(self) -> str:
        """What the fake node tells of its containers, in the text that a kubelet writes."""
        connection = http.client.HTTPConnection(LOOPBACK, self.ports.kwok, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", fake_node.USAGE_PATH)
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

    def is_ready(self) -> bool:
        """Whether the API server is; it makes the system namespaces a moment after it says so."""
        return self.can_read("/readyz") and self.can_read("/api/v1/namespaces/default")

    def restart_apiserver(self) -> None:
        """End the API server, and return when a new one is ready at the same address."""
        server = self.processes["kube-apiserver"]
        server.restart()
        server.wait_until(self.is_ready)

    def is_healthy(self, port: int, path: str = "/healthz") -> bool:
        """Whether a component that has our certificate says so of itself."""
        connection = self._connect(port)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def audited(self, user: str) -> list[audit.Request]:
        """All that an account has asked for so far."""
        return list(audit.read(self.directory, user))

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
        # What stands between us and a server behind the API server speaks plain text.
        return status, json.loads(body) if status == HTTPStatus.OK else {"body": body.decode()}

    def _connect(
        self, port: int, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> http.client.HTTPSConnection:
        trust = ssl.create_default_context(cafile=self.certificates.authority)
        return http.client.HTTPSConnection(LOOPBACK, port, context=trust, timeout=timeout_seconds)


def needed(*parts: Part) -> tuple[str, ...]:
    """The names of the programs that a control plane with those parts consists of."""
    return ("etcd", "kube-apiserver", *parts)


@contextmanager
def running(*parts: Part, logs: Path | None = None) -> Iterator[ControlPlane]:
    """A control plane that is ready for use; programs that are missing are built first.

    Logs are in its folder, and go with it, unless another folder is given for them.
    """
    found = programs.find_all(needed(*parts))
    with ExitStack() as stack:
        directory = stack.enter_context(_own_directory())
        plane = _prepare(directory, logs or directory, frozenset(parts))

        def start(name: str, arguments: Sequence[str], is_ready: Callable[[], bool]) -> None:
            process = stack.enter_context(
                processes.running(found[name], arguments, directory, logs=plane.logs)
            )
            plane.processes[name] = process
            process.wait_until(is_ready)

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


_Start = Callable[[str, Sequence[str], Callable[[], bool]], None]


def _prepare(directory: Path, logs: Path, parts: frozenset[Part]) -> ControlPlane:
    logs.mkdir(parents=True, exist_ok=True)
    ports = Ports(*free_ports(len(fields(Ports))))
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
    arguments += audit.prepare(plane.directory)
    start("kube-apiserver", arguments, plane.is_ready)


def _start_controllers(plane: ControlPlane, start: _Start) -> None:
    port = plane.ports.controllers
    arguments = flags.for_controllers(plane.certificates, plane.kubeconfig, port)
    start(Part.CONTROLLERS, arguments, lambda: plane.is_healthy(port))
    # Without its account no pod is let in.
    plane.wait_for("/api/v1/namespaces/default/serviceaccounts/default", bool)


def _start_scheduler(plane: ControlPlane, start: _Start) -> None:
    port = plane.ports.scheduler
    arguments = flags.for_scheduler(plane.certificates, plane.kubeconfig, port)
    start(Part.SCHEDULER, arguments, lambda: plane.is_healthy(port))


def _start_node(plane: ControlPlane, start: _Start) -> None:
    configuration = plane.directory / "kwok.yaml"
    stages.write(configuration)
    port = plane.ports.kwok
    arguments = flags.for_kwok(plane.certificates, plane.kubeconfig, configuration, port)
    start(Part.NODE, arguments, lambda: _is_listening(port))
    plane.create("/api/v1/nodes", fake_node.manifest())
    is_freed = Part.CONTROLLERS in plane.parts
    plane.wait_for(
        f"/api/v1/nodes/{fake_node.NAME}",
        lambda node: fake_node.is_schedulable(node, is_freed=is_freed),
    )


def _start_metrics(plane: ControlPlane, start: _Start) -> None:
    port, authority = plane.ports.metrics, plane.certificates.authority
    arguments = flags.for_metrics_server(plane.certificates, plane.kubeconfig, port)
    # Not `/readyz`: it waits for two readings of all nodes, and most tests do not.
    start(Part.METRICS, arguments, lambda: plane.is_healthy(port, "/livez"))
    plane.create(metrics_server.SERVICES_PATH, metrics_server.service())
    registration = metrics_server.registration(authority, port)
    plane.create(metrics_server.REGISTRATION_PATH, registration)
    path = f"{metrics_server.REGISTRATION_PATH}/{metrics_server.REGISTRATION_NAME}"
    plane.wait_for(path, metrics_server.is_available)


_START: Final[dict[Part, Callable[[ControlPlane, _Start], None]]] = {
    Part.CONTROLLERS: _start_controllers,
    Part.SCHEDULER: _start_scheduler,
    Part.NODE: _start_node,
    Part.METRICS: _start_metrics,
}


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
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
