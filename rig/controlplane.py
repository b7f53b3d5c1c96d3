"""A real API server with its own etcd, on free ports of loopback, for as long as a block lasts.

Everything it writes is in one temporary folder that goes with it; of processes it ends exactly
those that it started.
"""

import http.client
import json
import secrets
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from rig import certificates, processes, programs
from rig.certificates import Certificates

_LOOPBACK: Final = "127.0.0.1"
_TIMEOUT_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane, and the means to talk to it as its administrator."""

    directory: Path
    port: int
    token: str
    certificates: Certificates

    @property
    def kubeconfig(self) -> Path:
        """The file for kubectl."""
        return self.directory / "kubeconfig"

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """The status and the body of the API server's answer, whatever the status."""
        trust = ssl.create_default_context(cafile=self.certificates.authority)
        connection = http.client.HTTPSConnection(
            _LOOPBACK, self.port, context=trust, timeout=_TIMEOUT_SECONDS
        )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def can_read(self, path: str) -> bool:
        """Whether a path is answered well by now."""
        try:
            status, _ = self.request("GET", path)
        except OSError:
            return False
        return status == HTTPStatus.OK


@contextmanager
def running() -> Iterator[ControlPlane]:
    """A control plane that is ready for use; programs that are missing are built first."""
    etcd, apiserver = programs.find("etcd"), programs.find("kube-apiserver")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-rig-")))
        etcd_port, peer_port, port = _free_ports(3)
        plane = ControlPlane(directory, port, secrets.token_urlsafe(), certificates.make(directory))
        _write_credentials(plane)
        store = stack.enter_context(
            processes.running(etcd, _etcd_flags(etcd_port, peer_port), directory)
        )
        store.wait_until(lambda: _is_listening(etcd_port))
        server = stack.enter_context(
            processes.running(apiserver, _apiserver_flags(plane, etcd_port), directory)
        )
        server.wait_until(lambda: plane.can_read("/readyz"))
        # The server makes the system namespaces by itself, a moment after it is ready.
        server.wait_until(lambda: plane.can_read("/api/v1/namespaces/default"))
        yield plane


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((_LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_LOOPBACK, port)) == 0


def _write_credentials(plane: ControlPlane) -> None:
    token_line = f"{plane.token},admin,admin,system:masters\n"
    (plane.directory / "tokens.csv").write_text(token_line, encoding="utf-8")
    cluster = {
        "server": f"https://{_LOOPBACK}:{plane.port}",
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


def _etcd_flags(port: int, peer_port: int) -> list[str]:
    clients, peers = f"http://{_LOOPBACK}:{port}", f"http://{_LOOPBACK}:{peer_port}"
    return [
        "--data-dir=etcd",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def _apiserver_flags(plane: ControlPlane, etcd_port: int) -> list[str]:
    made = plane.certificates
    return [
        f"--etcd-servers=http://{_LOOPBACK}:{etcd_port}",
        f"--bind-address={_LOOPBACK}",
        f"--secure-port={plane.port}",
        f"--tls-cert-file={made.server}",
        f"--tls-private-key-file={made.server_key}",
        "--token-auth-file=tokens.csv",
        f"--service-account-key-file={made.account_public_key}",
        f"--service-account-signing-key-file={made.account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        # Nobody dials in from elsewhere, and loopback may not stand in an endpoint.
        "--endpoint-reconciler-type=none",
    ]
