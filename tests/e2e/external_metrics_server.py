"""A small server of external metrics behind a real API server, as an adapter would be."""

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from e2e.components import Json

from rig import metrics_server
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

ROOT = "/apis/external.metrics.k8s.io/v1beta1"
REGISTRATION = "v1beta1.external.metrics.k8s.io"


class Adapter:
    """What it knows, and what it was asked."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        """The value of each metric, the same for all containers."""
        self.asked: list[tuple[str, str]] = []
        """Path and selector of each question."""

    def answer(self, path: str, selector: str) -> Json | None:
        """What is told at a path; None where nothing is."""
        if path == ROOT:
            return {"kind": "APIResourceList", "groupVersion": ROOT.partition("/apis/")[2]}
        metric = path.rpartition("/")[2]
        if metric not in self.values:
            return None
        self.asked.append((path, selector))
        found = re.search(r"pod(?:=([^,]+)| in \(([^)]*)\))", selector)
        pods = (found[1] or found[2]).split(",") if found else []
        items = [self._value(metric, pod) for pod in pods]
        return {"kind": "ExternalMetricValueList", "metadata": {}, "items": items}

    def _value(self, metric: str, pod: str) -> Json:
        return {
            "metricName": metric,
            "metricLabels": {"pod": pod, "name": "app"},
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": self.values[metric],
        }


@contextmanager
def registered(plane: ControlPlane, adapter: Adapter) -> Iterator[None]:
    """Let the API server pass questions for external metrics on to an adapter of loopback."""
    with _serving(plane, adapter) as port:
        # The service of metrics-server is a name for loopback, whatever the port.
        manifest = metrics_server.registration(plane.certificates.authority, port)
        manifest["metadata"]["name"] = REGISTRATION
        manifest["spec"]["group"] = "external.metrics.k8s.io"
        plane.create(metrics_server.REGISTRATION_PATH, manifest)
        path = f"{metrics_server.REGISTRATION_PATH}/{REGISTRATION}"
        try:
            plane.wait_for(path, metrics_server.is_available)
            yield
        finally:
            plane.request("DELETE", path)


@contextmanager
def _serving(plane: ControlPlane, adapter: Adapter) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            selector = parse_qs(asked.query).get("labelSelector", [""])[0]
            found = adapter.answer(asked.path, selector)
            body = json.dumps(found or {"kind": "Status", "code": 404}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    issued = plane.certificates.server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
