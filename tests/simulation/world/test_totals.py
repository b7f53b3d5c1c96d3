import pytest
from support.makers.records import a_container, a_pod, amounts

from trimtab.core.model.pods import Allocation, Container, ContainerKind, ResizeState
from trimtab.core.model.resources import Resource
from trimtab.simulation.world.objects import reserved_total, resource_total


def having(wanted: int, there: int | None = None) -> Container:
    status = None if there is None else Allocation(amounts(cpu=there))
    return a_container(requests=amounts(cpu=wanted), status=status)


def test_a_pod_requests_what_all_its_containers_do() -> None:
    sidecar = a_container("proxy", requests=amounts(10, 20), kind=ContainerKind.SIDECAR)
    pod = a_pod(having(100), a_container("bare"), sidecar)

    assert resource_total(pod, Resource.CPU) == 110
    assert resource_total(pod, Resource.MEMORY) == 20


@pytest.mark.parametrize(
    ("container", "resize", "reserved"),
    [
        pytest.param(having(100), None, 100, id="before it runs, what it wants"),
        pytest.param(having(200, there=100), None, 200, id="while it grows, what it will have"),
        pytest.param(having(100, there=200), None, 200, id="while it shrinks, what it still has"),
        pytest.param(
            having(200, there=100), ResizeState.DEFERRED, 200, id="what waits is set aside"
        ),
        pytest.param(
            having(200, there=100), ResizeState.INFEASIBLE, 100, id="what can never be is not"
        ),
    ],
)
def test_what_is_set_aside_for_a_pod_covers_its_resize(
    container: Container, resize: ResizeState | None, reserved: int
) -> None:
    assert reserved_total(a_pod(container, resize=resize), Resource.CPU) == reserved
