import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import NOW, a_pod, an_autoscaler

from trimtab.api import events
from trimtab.api.events import Event, EventReason, EventType, ObjectReference

POD = a_pod(name="web-0")
AUTOSCALER = an_autoscaler(name="web")


def written(event: Event) -> Any:
    return json.loads(events.encode_event(event))


def test_an_eviction_is_told_on_the_pod_and_on_its_autoscaler() -> None:
    on_pod, on_autoscaler = events.evicted(POD, AUTOSCALER, NOW)

    assert on_pod.reason == EventReason.EVICTED_BY_VPA
    assert on_pod.about == events.about_pod(POD)
    assert on_autoscaler.reason == EventReason.EVICTED_POD
    assert on_autoscaler.about == events.about_autoscaler(AUTOSCALER)
    assert "web-0" in on_autoscaler.message


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        pytest.param(events.resized(POD, NOW), "InPlaceResizedByVPA", id="a resize"),
        pytest.param(
            events.unboosted(POD, ("app",), NOW), "InPlaceResizedByVPA", id="the end of a boost"
        ),
        pytest.param(events.resize_skipped(POD, NOW), "InPlaceResizeSkipped", id="no resize"),
    ],
)
def test_resizes_are_told_on_the_pod(event: Event, reason: str) -> None:
    assert event.reason == reason
    assert event.about.kind == "Pod"
    assert event.message.endswith(".")


def test_an_event_is_written_into_the_namespace_of_its_object() -> None:
    event = written(events.resized(POD, NOW))
    name = event["metadata"].pop("name")

    assert name.startswith("web-0.")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "web-0",
            "uid": "uid-web-0",
        },
        "reason": "InPlaceResizedByVPA",
        "message": "Resized in place to the recommended resources.",
        "source": {"component": "vpa-updater"},
        "firstTimestamp": "2026-08-22T12:00:00Z",
        "lastTimestamp": "2026-08-22T12:00:00Z",
        "count": 1,
        "type": "Normal",
        "reportingComponent": "vpa-updater",
    }


def test_an_event_about_an_autoscaler_names_its_kind_and_version() -> None:
    about = written(events.evicted(POD, AUTOSCALER, NOW)[1])["involvedObject"]

    assert (about["apiVersion"], about["kind"]) == (
        "autoscaling.k8s.io/v1",
        "VerticalPodAutoscaler",
    )


def test_a_warning_may_come_from_another_component() -> None:
    about = ObjectReference("v1", "Node", "", "node-1")
    event = written(Event(about, "Odd", "It is.", NOW, component="x", type=EventType.WARNING))

    assert event["metadata"]["namespace"] == "default"
    assert (event["type"], event["source"]) == ("Warning", {"component": "x"})


def test_events_of_one_moment_have_different_names() -> None:
    told = [events.evicted(a_pod(name=f"web-{i}"), AUTOSCALER, NOW)[1] for i in range(20)]
    later = events.evicted(a_pod(name="web-0"), AUTOSCALER, NOW + timedelta(microseconds=1))[1]

    assert len({written(event)["metadata"]["name"] for event in [*told, later]}) == 21


@given(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", fullmatch=True))
def test_an_event_of_any_pod_has_a_name_that_kubernetes_takes(pod_name: str) -> None:
    name = written(events.resized(a_pod(name=pod_name), NOW))["metadata"]["name"]

    assert len(name) <= 253
    assert pod_name.startswith(name[:-17])
    assert name[-18] not in ".-"
