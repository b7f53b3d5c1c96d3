import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, NOW, a_container, a_pod, amounts, an_autoscaler

from trimtab.api.kinds import events
from trimtab.api.kinds.events import Event, EventReason, EventType, ObjectReference
from trimtab.core.model.pods import Allocation, TargetResources

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


SMALL = a_pod(a_container(requests=amounts(500, 1024 * MIB), limits=amounts(1000)), name="web-0")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        pytest.param({"app": Allocation(amounts(800))}, ": app: cpu 500m→800m.", id="one resource"),
        pytest.param(
            {"app": Allocation(amounts(800, 1536 * MIB + 1), amounts(2000))},
            ": app: cpu 500m→800m, cpu limit 1→2, memory 1Gi→1536Mi.",
            id="both, and a limit",
        ),
        pytest.param(
            {"app": Allocation(None, amounts(memory=2048 * MIB))},
            ": app: memory limit none→2Gi.",
            id="a limit that was not there",
        ),
        pytest.param({"app": Allocation(amounts(500))}, "resources.", id="nothing"),
        pytest.param({"other": Allocation(amounts(800))}, "resources.", id="another container"),
    ],
)
def test_events_carry_what_changes(wanted: TargetResources, words: str) -> None:
    told = [events.resized(SMALL, NOW, wanted), *events.evicted(SMALL, AUTOSCALER, NOW, wanted)]

    assert all(event.message.endswith(words) for event in told)


def test_the_event_of_a_pod_with_many_containers_stays_short() -> None:
    names = [f"container-{number}-{'x' * 50}" for number in range(40)]
    pod = a_pod(*(a_container(name, requests=amounts(100)) for name in names))
    event = events.resized(pod, NOW, {name: Allocation(amounts(200)) for name in names})

    assert event.message.endswith("; 35 more containers.")
    assert len(event.message) < 1024


def test_the_end_of_a_boost_says_what_is_left() -> None:
    assert events.unboosted(SMALL, ("app", "gone"), NOW).message == (
        "Resized in place: the startup boost has ended for app (cpu 500m), gone."
    )


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
