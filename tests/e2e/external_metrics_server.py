"""A small server of external metrics behind a real API server, as an adapter would be."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from e2e import json_server
from support.stages.components import Json

from rig import metrics_server
from rig.controlplane import ControlPlane

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

    def answer(path: str, _: bytes) -> Json | None:
        asked = urlsplit(path)
        return adapter.answer(asked.path, parse_qs(asked.query).get("labelSelector", [""])[0])

    with json_server.serving(plane, answer) as port:
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
