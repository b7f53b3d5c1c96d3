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
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Final

from rig import certificates, fake_node, flags, locks, processes, programs, stages, waiting
from rig.certificates import Certificates
from rig.fake_node import Json
from rig.flags import LOOPBACK
from rig.processes import Process

_PREFIX: Final = "trimtab-rig-"
_TIMEOUT_SECONDS: Final = 10


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

    def _connect(
        self, port: int, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> http.client.HTTPSConnection:
        trust = ssl.create_default_context(cafile=self.certificates.authority)
        return http.client.HTTPSConnection(LOOPBACK, port, context=trust, timeout=timeout_seconds)


@contextmanager
def running(*parts: Part, logs: Path | None = None) -> Iterator[ControlPlane]:
    """A control plane that is ready for use; programs that are missing are built first.

    Logs are in its folder, and go with it, unless another folder is given for them.
    """
    found = {name: programs.find(name) for name in ("etcd", "kube-apiserver", *parts)}
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
    arguments = flags.for_kwok(plane.kubeconfig, configuration, plane.ports.kwok)
    start(Part.NODE, arguments, lambda: _is_listening(plane.ports.kwok))
    plane.request("POST", "/api/v1/nodes", json.dumps(fake_node.manifest()).encode())
    is_freed = Part.CONTROLLERS in plane.parts
    plane.wait_for(
        f"/api/v1/nodes/{fake_node.NAME}",
        lambda node: fake_node.is_schedulable(node, is_freed=is_freed),
    )


_START: Final[dict[Part, Callable[[ControlPlane, _Start], None]]] = {
    Part.CONTROLLERS: _start_controllers,
    Part.SCHEDULER: _start_scheduler,
    Part.NODE: _start_node,
}


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
