"""The metrics API of workloads: a server behind the API server that costs next to nothing.

A real metrics-server would read thousands of fake containers every few seconds, on the cores that
are being measured. This one has a few answers ready, with usage that differs from one to the next,
and only puts the time into them.
"""

import json
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from random import Random
from typing import Final

from bench.workloads import Appetite, Swing, Workload
from rig import metrics_server
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

ANSWERS: Final = 40
"""So many answers are given in turn: more than ticks are measured in a row."""
_GROUP: Final = "/apis/metrics.k8s.io/v1beta1"
_TIME: Final = b"@now"
_RESOURCES: Final = json.dumps(
    {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "metrics.k8s.io/v1beta1",
        "resources": [
            {
                "name": "pods",
                "singularName": "",
                "namespaced": True,
                "kind": "PodMetrics",
                "verbs": ["get", "list"],
            }
        ],
    }
).encode()


class Answers:
    """The usage of workloads, ready to be told."""

    def __init__(
        self,
        workloads: Iterable[Workload],
        count: int = ANSWERS,
        swing: Swing = Swing.NARROW,
    ) -> None:
        given = list(workloads)
        self._waiting = cycle(
            [_list(_measure(given, swing, Random(number))) for number in range(count)]
        )

    def tell(self, now: datetime) -> bytes:
        """The usage of all pods at a moment, as the metrics API tells it."""
        return next(self._waiting).replace(_TIME, now.strftime("%Y-%m-%dT%H:%M:%SZ").encode())


class UsageServer(ThreadingHTTPServer):
    """Tells the usage of the workloads that it was shown last."""

    daemon_threads = True

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.socket = trust.wrap_socket(self.socket, server_side=True)
        self._answers = Answers([])
        self._lock = threading.Lock()
        self.answered = 0
        """How often usage was asked for; the API server does not count what it passes on."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of those who went away before they had their answer."""

    def show(self, workloads: Iterable[Workload], swing: Swing = Swing.NARROW) -> None:
        """From now on the usage of these is told."""
        answers = Answers(workloads, swing=swing)
        with self._lock:
            self._answers = answers

    def answer(self) -> bytes:
        """The usage of all pods as it is now."""
        with self._lock:
            self.answered += 1
            return self._answers.tell(datetime.now(UTC))


@contextmanager
def serving(plane: ControlPlane) -> Iterator[UsageServer]:
    """The metrics API of a control plane for as long as the block lasts."""
    issued = plane.certificates.server
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(issued.certificate, issued.key)
    with UsageServer(plane.ports.metrics, trust) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            _register(plane)
            yield server
        finally:
            server.shutdown()


def _register(plane: ControlPlane) -> None:
    plane.create(metrics_server.SERVICES_PATH, metrics_server.service())
    registration = metrics_server.registration(plane.certificates.authority, plane.ports.metrics)
    plane.create(metrics_server.REGISTRATION_PATH, registration)
    path = f"{metrics_server.REGISTRATION_PATH}/{metrics_server.REGISTRATION_NAME}"
    plane.wait_for(path, metrics_server.is_available)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: UsageServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == f"{_GROUP}/pods":
            self._send(200, self.server.answer())
        elif path == _GROUP:
            self._send(200, _RESOURCES)
        else:
            self._send(404, b"{}")

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _list(items: Iterable[object]) -> bytes:
    told = {
        "kind": "PodMetricsList",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": list(items),
    }
    return json.dumps(told, separators=(",", ":")).encode()


def _measure(workloads: Iterable[Workload], swing: Swing, chance: Random) -> Iterator[object]:
    for workload in workloads:
        appetites = workload.appetites()
        for name in workload.pods:
            yield {
                "metadata": {
                    "name": name,
                    "namespace": workload.namespace,
                    "creationTimestamp": _TIME.decode(),
                },
                "timestamp": _TIME.decode(),
                "window": "15.1s",
                "containers": [
                    {"name": container, "usage": _usage(swing.draw(appetite, chance))}
                    for container, appetite in appetites.items()
                ],
            }


def _usage(used: Appetite) -> dict[str, str]:
    return {"cpu": f"{used.cpu_cores * 1e9:.0f}n", "memory": f"{used.memory_bytes / 1024:.0f}Ki"}
