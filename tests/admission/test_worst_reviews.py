"""The work for one review is bounded, whatever a tenant sends."""

from collections.abc import Callable

import pytest
from admission.review_makers import Json, an_autoscaler_object
from admission.worst_reviews import (
    NAMESPACE,
    POD_RESOURCES,
    a_large_autoscaler,
    a_large_pod,
    a_large_selector,
    cpu_seconds,
)

from trimtab.api.autoscaler_wire import decode_wire
from trimtab.api.autoscalers import decode_autoscaler
from trimtab.api.encoding import encode
from trimtab.api.pods import decode_new_pod
from trimtab.api.selector_validation import overlaps
from trimtab.core.boost_room import BoostRoom
from trimtab.core.gates import FeatureGates
from trimtab.core.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.patch import size_pod
from trimtab.core.resources import Resource

BOOST = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}
FEW, MANY = 250, 2000
VALUES = 3000
MOST_GROWTH = 2 * MANY / FEW
"""Twice what linear work takes; work that grows with the square takes eight times that."""


def sizing_work(
    containers: int,
    room: BoostRoom,
    autoscaler_spec: Json,
    pod_spec: Json,
) -> Callable[[], object]:
    """The work of sizing a pod with so many containers, each with a policy of its own."""
    pod = decode_new_pod(encode(a_large_pod(containers, **pod_spec)))
    autoscaler = decode_autoscaler(encode(a_large_autoscaler(containers, **autoscaler_spec)))
    return lambda: size_pod(pod, autoscaler, gates=FeatureGates(), room=room)


@pytest.mark.parametrize(
    ("room", "autoscaler_spec", "pod_spec"),
    [
        pytest.param(BoostRoom(), {}, {}, id="a policy for every container"),
        pytest.param(BoostRoom(), {}, {"resources": POD_RESOURCES}, id="resources of the pod"),
        pytest.param(BoostRoom(), BOOST, {}, id="a boost for every container"),
        pytest.param(
            BoostRoom([LimitRangeItem(LimitRangeType.POD, max={Resource.CPU: 300})]),
            BOOST,
            {},
            id="boosts that share little room",
        ),
    ],
)
def test_the_work_for_a_pod_grows_no_faster_than_its_containers(
    room: BoostRoom, autoscaler_spec: Json, pod_spec: Json
) -> None:
    few = cpu_seconds(sizing_work(FEW, room, autoscaler_spec, pod_spec))
    many = cpu_seconds(sizing_work(MANY, room, autoscaler_spec, pod_spec))

    assert many < few * MOST_GROWTH


def a_selecting(name: str, values: int) -> Json:
    found = an_autoscaler_object(name, "web", selector=a_large_selector(values, own=name))
    found["metadata"]["namespace"] = NAMESPACE
    return found


def test_selectors_of_stored_siblings_are_parsed_once() -> None:
    siblings = [
        decode_autoscaler(encode(a_selecting(f"sibling-{number}", VALUES))) for number in range(20)
    ]
    new = decode_wire(encode(a_selecting("new", VALUES)))
    alone = cpu_seconds(lambda: overlaps(new, None, siblings[:1]))

    assert overlaps(new, None, siblings) == []
    assert cpu_seconds(lambda: overlaps(new, None, siblings)) < 3 * alone


def test_a_stored_sibling_overlaps_as_the_same_sibling_on_the_wire_does() -> None:
    new, other = a_selecting("new", 1), a_selecting("other", 1)
    other["spec"]["selector"]["matchExpressions"][1]["values"] = ["new", "other"]
    wire, stored = decode_wire(encode(other)), decode_autoscaler(encode(other))

    found = overlaps(decode_wire(encode(new)), None, [stored])

    assert found
    assert found == overlaps(decode_wire(encode(new)), None, [wire])
