"""New pods, read as far as somebody asks: what is not read decides nothing."""

import json
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from support.makers.damage import VALUES, places, replaced
from support.makers.wire_examples import POD, Json, encoded

from trimtab.api.admission.new_pods import NewPod
from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.codec import DecodeError
from trimtab.core.model.pods import without_status
from trimtab.core.sizing.admission_patch import likeness


def new_pod(given_object: Json) -> NewPod:
    return NewPod(encoded(given_object), "default")


def template(containers: Json) -> Json:
    return {"metadata": {"name": "web-1"}, "spec": {"containers": containers}}


@given(VALUES)
def test_pods_that_look_alike_are_sized_alike(value: Json) -> None:
    before = new_pod(POD)
    for place in places(POD):
        with suppress(DecodeError):
            changed = new_pod(replaced(POD, place, value))
            if changed.likeness() == before.likeness():
                assert likeness(changed.read()) == likeness(before.read())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"name": "web-2", "uid": "u-2"}}, id="another name"),
        pytest.param(
            {"metadata": {"name": "web-2", "labels": {"pod-index": "2"}}}, id="another label"
        ),
        pytest.param({"status": {"phase": "Pending"}}, id="a phase"),
        pytest.param(
            template(
                [
                    {
                        "name": "app",
                        "volumeMounts": [{"name": "kube-api-access-x7k2p", "mountPath": "/a"}],
                        "resources": {"requests": {"cpu": "1"}},
                    }
                ]
            ),
            id="the volume that the API server names for each pod",
        ),
    ],
)
def test_pods_of_one_template_look_alike(change: Json) -> None:
    first = template([{"name": "app", "resources": {"requests": {"cpu": "1"}}}])

    assert new_pod({**first, **change}).likeness() == new_pod(first).likeness()


def test_a_pod_of_windows_looks_like_no_other() -> None:
    first = template([{"name": "app", "resources": {"requests": {"cpu": "1"}}}])
    windows = {**first, "spec": {**first["spec"], "os": {"name": "windows"}}}

    assert new_pod(windows).likeness() != new_pod(first).likeness()
    assert likeness(new_pod(windows).read()) != likeness(new_pod(first).read())


@given(VALUES)
def test_no_status_is_read_whatever_it_is(value: Json) -> None:
    # What JSON cannot hold, such as an infinite number, no API server sends.
    value = json.loads(json.dumps(value), parse_constant=lambda _: None)
    bare = {key: found for key, found in POD.items() if key != "status"}
    alone = new_pod(bare)
    copies = [new_pod({**bare, "status": value})]
    copies += [new_pod(replaced(POD, place, value)) for place in places(POD) if in_status(place)]

    assert all(each.likeness() == alone.likeness() for each in copies)
    assert all(each.read() == alone.read() for each in copies)
    assert likeness(alone.read()) == likeness(without_status(decode_pod(encoded(POD))))


def in_status(place: Sequence[object]) -> bool:
    return bool(place) and place[0] == "status"


def test_quantities_that_only_a_float_cannot_tell_apart_do_not_look_alike() -> None:
    less, more = (
        b'{"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": %b}}}]}}' % cpu
        for cpu in (b"0.1", b"0.1000000000000000001")
    )

    assert NewPod(less, "default").likeness() != NewPod(more, "default").likeness()


def test_the_head_says_whose_the_pod_is_where_the_request_says_it_is() -> None:
    whole = decode_pod(encoded(POD))
    found = NewPod(encoded(POD), "elsewhere")

    assert (found.head.namespace, found.head.owner) == ("elsewhere", whole.owner)
    assert found.labels == whole.labels
    assert found.read().namespace == "elsewhere"


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"command": ["x" * 100_000]}, id="what does not tell templates apart"),
        pytest.param({"resources": {"requests": {"x": "1" * 100_000}}}, id="what does"),
    ],
)
def test_who_remembers_a_large_pod_holds_on_to_little_of_it(container: Json) -> None:
    assert len(new_pod(template([{"name": "app", **container}])).likeness()) < 1000


def test_large_templates_are_told_apart_too() -> None:
    one, other = (
        template([{"name": "app", "resources": {"requests": {"x": "1" * 100_000 + last}}}])
        for last in "12"
    )

    assert new_pod(one).likeness() == new_pod(one).likeness()
    assert new_pod(one).likeness() != new_pod(other).likeness()


def test_owners_of_endless_names_are_not_kept() -> None:
    def send(number: int) -> None:
        owner = {"name": f"{number}" + "x" * 100_000, "controller": True}
        NewPod(encoded({"metadata": {"ownerReferences": [owner]}}), "default")

    send(0)
    tracemalloc.start()
    try:
        for number in range(50):
            send(number)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert kept < 1_000_000
