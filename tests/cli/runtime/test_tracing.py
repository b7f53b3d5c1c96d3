"""Traces: spans of what components do, sent where the environment says, else free of cost."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.fakes.clocks import run_virtually
from support.fakes.recommender_cluster import RecommenderCluster
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, UP, let_run
from support.makers.records import minutes
from support.makers.reviews import Webhook, a_pod_object, a_review
from support.servers.api_server import a_client, ok, refused, serving

from trimtab.admission.server.handler import Answering
from trimtab.cli.runtime.tracing import OtelTracer, traced
from trimtab.cluster.errors import ApiError
from trimtab.cluster.ports import NO_TRACES
from trimtab.recommender.controller import Recommender
from trimtab.recommender.settings import RecommenderSettings
from trimtab.updater.controller import Updater

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Watched:
    """A tracer that keeps what it sees."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OtelTracer(provider)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def parent(self, span: ReadableSpan) -> str | None:
        """The name of the span that it is a part of."""
        if span.parent is None:
            return None
        return next(each.name for each in self.spans if span.parent.span_id == id_of(each))


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_updater_shows_its_ticks_its_plans_and_its_acts(watched: Watched) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        updater = Updater(cluster, settings=UNPACED, clock=cluster.clock, tracer=watched.tracer)
        await let_run(updater, minutes(0.5))

    run_virtually(scene())

    (act, *_), (plan, *_) = watched.named("act"), watched.named("plan")
    assert dict(act.attributes or {}) == {
        "trimtab.act": "Evict",
        "k8s.namespace.name": "default",
        "k8s.pod.name": "web-0",
        "trimtab.result": "Done",
    }
    assert (plan.attributes or {})["trimtab.pods"] == 2
    assert watched.parent(plan) == "tick"
    assert {"tick", "turn", "tell"} >= {span.name for span in watched.spans} - {"act", "plan"}


async def test_a_recommender_shows_the_steps_of_its_ticks(watched: Watched) -> None:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale()
    recommender = Recommender(
        world, world, settings=RecommenderSettings(), clock=world.clock, tracer=watched.tracer
    )
    await recommender._try_tick(world.clock.now())

    steps = [span.name for span in watched.spans if watched.parent(span) == "tick"]
    assert steps == [
        *("LoadVPAs", "LoadPods", "LoadMetrics", "DeleteRemovedPods"),
        *("UpdateVPAs", "MaintainCheckpoints", "GarbageCollect"),
    ]


def test_a_review_shows_what_it_was_about_and_what_came_of_it(watched: Watched) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        webhook = Webhook(cluster)
        made = webhook.answering
        webhook.answering = Answering(
            made._reviewer, made.tally, made._timer, made._teller, watched.tracer
        )
        webhook.ask(a_review(a_pod_object()))

    run_virtually(scene())

    (review,) = watched.named("review")
    assert review.attributes == {"trimtab.resource": "Pod", "trimtab.status": "applied"}


async def test_a_request_is_part_of_what_it_is_made_for(watched: Watched) -> None:
    async with serving(lambda _: ok()) as server, a_client(server.url) as client:
        client.tracer = watched.tracer
        with watched.tracer.span("act"):
            await client.fetch("/api/v1/pods")

    (request,) = watched.named("GET")
    assert watched.parent(request) == "act"
    assert request.attributes == {
        "http.request.method": "GET",
        "url.path": "/api/v1/pods",
        "http.response.status_code": 200,
    }


async def test_a_request_that_is_refused_shows_its_status_and_is_marked(watched: Watched) -> None:
    async with serving(lambda _: refused(404)) as server, a_client(server.url) as client:
        client.tracer = watched.tracer
        with pytest.raises(ApiError):
            await client.fetch("/api/v1/pods")

    (request,) = watched.named("GET")
    assert (request.attributes or {})["http.response.status_code"] == 404
    assert not request.status.is_ok


async def test_spans_are_sent_to_the_endpoint_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(lambda _: ok()) as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        async with traced("updater", os.environ) as tracer:
            with tracer.span("tick"):
                pass
        (asked,) = server.asked

    sent = ExportTraceServiceRequest.FromString(asked.body)
    (resource,) = sent.resource_spans
    about = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert asked.path == "/v1/traces"
    assert about["service.name"] == "trimtab-updater"
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["tick"]


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="nobody says where to"),
        pytest.param({ENDPOINT: ""}, id="an empty address"),
        pytest.param(
            {ENDPOINT: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, id="it is switched off"
        ),
    ],
)
async def test_nobody_watches_unless_that_is_asked_for(environment: dict[str, str]) -> None:
    async with traced("updater", environment) as tracer:
        assert tracer is NO_TRACES


async def test_without_the_extra_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with structlog.testing.capture_logs() as told:
        async with traced("updater", {ENDPOINT: "http://127.0.0.1:1"}) as tracer:
            is_idle = tracer is NO_TRACES

    assert is_idle
    assert [one["event"] for one in told] == ["traces cannot be sent"]
    assert "trimtab[otel]" in told[0]["problem"]


@pytest.mark.parametrize("component", ["recommender", "updater", "admission", "roles", "run"])
def test_a_component_that_nobody_watches_imports_nothing_for_it(component: str) -> None:
    look = f"import sys, trimtab.cli.components.{component}; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True
    ).stdout.split()

    assert "trimtab.cli.runtime.tracing" in found
    assert [name for name in found if name.startswith("opentelemetry")] == []
