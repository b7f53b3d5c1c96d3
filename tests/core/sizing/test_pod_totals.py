"""Amounts that a whole pod takes of its node, as the scheduler counts them."""

import pytest
from support.makers.records import MIB, a_container, a_pod, amounts

from trimtab.core.model.pods import Allocation, ContainerKind, Envelope, Pod, ResizeState
from trimtab.core.model.resources import Resources
from trimtab.core.sizing.pod_totals import requested_after, reserved_for

SMALL, LARGE = amounts(100, 100 * MIB), amounts(500, 50 * MIB)
SIDECAR = a_container(name="proxy", requests=amounts(20, 10 * MIB), kind=ContainerKind.SIDECAR)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            a_pod(a_container(requests=SMALL), SIDECAR),
            amounts(120, 110 * MIB),
            id="containers and sidecars together",
        ),
        pytest.param(a_pod(a_container()), amounts(0, 0), id="a pod that requests nothing"),
        pytest.param(
            a_pod(a_container(requests=LARGE, status=Allocation(SMALL))),
            amounts(500, 100 * MIB),
            id="the larger of what is asked for and what is there",
        ),
        pytest.param(
            a_pod(
                a_container(requests=LARGE, status=Allocation(SMALL)),
                resize=ResizeState.INFEASIBLE,
            ),
            SMALL,
            id="what is there, of a resize that the node refused",
        ),
        pytest.param(
            a_pod(a_container(requests=SMALL), init_requests=amounts(2000, 0)),
            amounts(2000, 100 * MIB),
            id="an init container that asks for more",
        ),
        pytest.param(
            a_pod(a_container(requests=SMALL), overhead=amounts(250, 120 * MIB)),
            amounts(350, 220 * MIB),
            id="the overhead of a runtime class",
        ),
        pytest.param(
            a_pod(a_container(requests=SMALL), envelope=Envelope(amounts(1000), {})),
            amounts(1000, 100 * MIB),
            id="requests of the pod itself",
        ),
    ],
)
def test_a_pod_takes_of_its_node(pod: Pod, expected: Resources) -> None:
    assert reserved_for(pod) == expected


def test_after_a_resize_containers_have_what_is_wanted_and_keep_the_rest() -> None:
    pod = a_pod(a_container(requests=SMALL, status=Allocation(SMALL)), SIDECAR)

    assert requested_after(pod, {"app": Allocation(amounts(700))}) == amounts(720, 110 * MIB)
    assert requested_after(pod, {}) == reserved_for(pod)
