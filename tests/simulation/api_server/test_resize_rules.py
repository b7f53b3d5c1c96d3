import pytest
from msgspec import structs
from simulation.bare_cluster import a_node, a_placed_pod
from support.makers.records import MIB, a_container, amounts

from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, Resources
from trimtab.simulation.api_server.writes import (
    ResizeRules,
    exceeds_node,
    find_resize_flaws,
    resized,
)

USUAL = ResizeRules()
STRICT = ResizeRules(memory_limits_may_shrink=False)
BURSTABLE = a_container(requests=amounts(100, 100 * MIB), limits=amounts(memory=200 * MIB))
GUARANTEED = a_container(requests=amounts(100, 100), limits=amounts(100, 100))
BEST_EFFORT = a_container()


def to(
    container: Container, requests: Resources | None = None, limits: Resources | None = None
) -> tuple[Pod, Pod]:
    """A pod before and after a resize of its container."""
    before = a_placed_pod(container)
    after = structs.replace(before.containers[0], spec=Allocation(requests, limits))
    return before, structs.replace(before, containers=(after,))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            to(BURSTABLE, amounts(200, 50 * MIB), amounts(memory=200 * MIB)),
            id="requests go up and down",
        ),
        pytest.param(
            to(BURSTABLE, amounts(100, 90 * MIB), amounts(memory=100 * MIB)),
            id="a memory limit may shrink",
        ),
        pytest.param(
            to(BURSTABLE, amounts(100, 100 * MIB), amounts(500, 200 * MIB)),
            id="a limit may come",
        ),
        pytest.param(to(GUARANTEED, amounts(70, 80), amounts(70, 80)), id="both together"),
    ],
)
def test_a_resize_that_the_server_accepts_has_no_flaw(change: tuple[Pod, Pod]) -> None:
    assert find_resize_flaws(*change, USUAL) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param(
            to(BURSTABLE, amounts(100), amounts(memory=200 * MIB)),
            "spec.containers[0].resources.requests",
            id="a request may not be taken away",
        ),
        pytest.param(
            to(BURSTABLE, amounts(100, 100 * MIB)),
            "spec.containers[0].resources.limits",
            id="a limit may not be taken away",
        ),
        pytest.param(
            to(BURSTABLE, amounts(100, 300 * MIB), amounts(memory=200 * MIB)),
            "spec.containers[0].resources.requests",
            id="a request may not exceed its limit",
        ),
        pytest.param(
            to(GUARANTEED, amounts(90, 100), amounts(100, 100)),
            "spec",
            id="what is guaranteed must stay so",
        ),
        pytest.param(
            to(BURSTABLE, amounts(100, 100 * MIB), amounts(100, 100 * MIB)),
            "spec",
            id="what is not guaranteed may not become so",
        ),
        pytest.param(
            to(BEST_EFFORT, amounts(100)), "spec", id="what asked for nothing may not begin to"
        ),
    ],
)
def test_a_resize_that_the_server_refuses_names_the_field(
    change: tuple[Pod, Pod], field: str
) -> None:
    assert [flaw.field for flaw in find_resize_flaws(*change, USUAL)] == [field]


@pytest.mark.parametrize(
    ("container", "is_refused"),
    [
        pytest.param(BURSTABLE, True, id="not while it runs"),
        pytest.param(
            structs.replace(BURSTABLE, restarts_on_resize=frozenset(BOTH)),
            False,
            id="but where it restarts",
        ),
    ],
)
def test_an_older_server_lets_memory_limits_only_grow(
    container: Container, *, is_refused: bool
) -> None:
    change = to(container, amounts(100, 100 * MIB), amounts(memory=150 * MIB))

    assert bool(find_resize_flaws(*change, STRICT)) is is_refused


def test_a_node_that_does_not_tell_what_containers_have_cannot_resize() -> None:
    before, after = to(BURSTABLE, amounts(200, 100 * MIB), amounts(memory=200 * MIB))
    silent = structs.replace(
        before, containers=(structs.replace(before.containers[0], status=None),)
    )

    assert [flaw.field for flaw in find_resize_flaws(silent, after, USUAL)] == ["spec"]


def test_a_pod_that_does_not_run_yet_may_be_resized() -> None:
    before, after = to(BURSTABLE, amounts(200, 100 * MIB), amounts(memory=200 * MIB))
    waiting = structs.replace(before.containers[0], status=None, is_running=False)

    assert find_resize_flaws(structs.replace(before, containers=(waiting,)), after, USUAL) == []


def test_a_resize_changes_nothing_but_resources() -> None:
    before, after = to(BURSTABLE, amounts(200, 100 * MIB), amounts(memory=200 * MIB))
    patched = structs.replace(after, labels={"app": "other"}, annotations={"note": "1"})

    assert resized(before, patched) == after


def test_a_node_is_too_small_for_what_exceeds_all_of_it() -> None:
    node = a_node(cpu=1000)

    assert not exceeds_node(a_placed_pod(a_container(requests=amounts(cpu=1000))), node)
    assert exceeds_node(a_placed_pod(a_container(requests=amounts(cpu=1001))), node)
