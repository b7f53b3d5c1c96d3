"""Components as real processes that send their traces to a collector, as the environment says."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.stages.components import SLOW_SECONDS, install, running

from rig import waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

pytestmark = pytest.mark.e2e


class Collector(ThreadingHTTPServer):
    """Keeps the names of all spans, by the service that sent them."""

    def __init__(self) -> None:
        super().__init__((LOOPBACK, 0), _Receiver)
        self.spans: defaultdict[str, set[str]] = defaultdict(set)

    def take(self, body: bytes) -> None:
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {one.key: one.value.string_value for one in each.resource.attributes}
            names = {span.name for scope in each.scope_spans for span in scope.spans}
            self.spans[about["service.name"]] |= names


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.take(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{LOOPBACK}:{made.server_port}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        yield made


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("component", "flags", "spans"),
    [
        pytest.param(
            "recommender",
            ("--recommender-interval=1s",),
            {"tick", "LoadMetrics", "UpdateVPAs", "GET"},
            id="the recommender",
        ),
        pytest.param(
            "updater", ("--updater-interval=1s",), {"tick", "plan", "GET"}, id="the updater"
        ),
        pytest.param("roles", (), {"tick", "GET"}, id="the role keeper"),
    ],
)
def test_a_component_sends_its_spans_to_the_collector(
    component: str,
    flags: tuple[str, ...],
    spans: set[str],
    cluster: ControlPlane,
    namespace: str,
    collector: Collector,
    tmp_path: Path,
) -> None:
    install(cluster)
    given = (f"--vpa-object-namespace={namespace}", *flags)
    with running(component, cluster.kubeconfig, tmp_path, *given):
        sent = waiting.wait_for(
            lambda: set(collector.spans[f"trimtab-{component}"]),
            lambda found: spans <= found,
            patience_seconds=SLOW_SECONDS,
        )

    assert spans <= sent
    assert [*collector.spans] == [f"trimtab-{component}"]
