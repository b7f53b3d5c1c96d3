import pytest
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
)

from trimtab.core.model.autoscalers import (
    Autoscaler,
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    UpdateMode,
)
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Pod, ResizeState, TargetResources
from trimtab.core.sizing.container_resources import is_within, only_growing, wanted_by_autoscaler
from trimtab.core.sizing.startup_boost import annotation_name, format_original

ORIGINAL = Allocation(amounts(100, MIB), amounts(200, MIB))
BOOSTED = {**BOOST_TOLD, annotation_name("app"): format_original(ORIGINAL)}
RECOMMENDED = Allocation(amounts(150, 2 * MIB), amounts(300, 2 * MIB))


def boosted_pod(**annotations: str) -> Pod:
    return a_pod(
        a_container("app", requests=amounts(400)), a_container("side"), annotations=annotations
    )


def test_the_targets_and_their_limits_are_wanted() -> None:
    pod = a_pod(a_container(requests=amounts(100, MIB), limits=amounts(200)))
    autoscaler = an_autoscaler(a_recommendation(target=amounts(150, 2 * MIB)))

    assert wanted_by_autoscaler(pod, autoscaler, ()) == {
        "app": Allocation(amounts(150, 2 * MIB), amounts(300))
    }


def test_the_limits_of_requests_only_are_left_alone() -> None:
    pod = a_pod(a_container(requests=amounts(100), limits=amounts(200)))
    policy = ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY)
    autoscaler = an_autoscaler(a_recommendation(target=amounts(150)), policies=(policy,))

    assert wanted_by_autoscaler(pod, autoscaler, ()) == {"app": Allocation(amounts(150), {})}


def test_what_is_wanted_fits_the_limit_range() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(120))
    pod = a_pod(a_container(requests=amounts(100), limits=amounts(100)))
    autoscaler = an_autoscaler(a_recommendation(target=amounts(150)))

    assert wanted_by_autoscaler(pod, autoscaler, [item]) == {
        "app": Allocation(amounts(120), amounts(120))
    }


@pytest.mark.parametrize(
    "autoscaler",
    [
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(150)), mode=UpdateMode.OFF), id="mode off"
        ),
        pytest.param(
            an_autoscaler(
                a_recommendation(target=amounts(150)),
                policies=(ContainerPolicy("*", mode=ContainerMode.OFF),),
            ),
            id="container off",
        ),
        pytest.param(an_autoscaler(), id="no recommendation"),
        pytest.param(an_autoscaler(a_recommendation("x", target=amounts(1))), id="another's"),
    ],
)
def test_nothing_is_wanted_for_what_is_not_scaled(autoscaler: Autoscaler) -> None:
    assert wanted_by_autoscaler(a_pod(), autoscaler, ()) == {}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(
            Allocation(amounts(200, MIB), amounts(400, MIB)),
            {"app": Allocation(amounts(200), amounts(400))},
            id="only cpu grows",
        ),
        pytest.param(
            Allocation(amounts(50, 4 * MIB)),
            {"app": Allocation(amounts(memory=4 * MIB), {})},
            id="only memory grows, without limits",
        ),
        pytest.param(
            Allocation(amounts(101), amounts(150)),
            {"app": Allocation(amounts(101), amounts(200))},
            id="a limit never shrinks",
        ),
        pytest.param(Allocation(amounts(100, 2 * MIB), {}), {}, id="the same is no growth"),
        pytest.param(Allocation(amounts(50, MIB)), {}, id="everything shrinks"),
        pytest.param(Allocation(), {}, id="nothing is wanted"),
    ],
)
def test_only_what_grows_is_kept(wanted: Allocation, expected: TargetResources) -> None:
    pod = a_pod(a_container(requests=amounts(100, 2 * MIB), limits=amounts(200, 4 * MIB)))

    assert only_growing(pod, {"app": wanted, "gone": wanted}) == expected


def test_what_only_grows_gets_no_limit_where_there_was_none() -> None:
    pod = a_pod(a_container(requests=amounts(100, MIB), limits=amounts(200)))
    wanted = {"app": Allocation(amounts(200, 2 * MIB), amounts(400, 4 * MIB))}

    assert only_growing(pod, wanted) == {"app": Allocation(amounts(200, 2 * MIB), amounts(400))}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(None, {}, id="the kubelet may have done it by now"),
        pytest.param(ResizeState.IN_PROGRESS, {}, id="the kubelet does it now"),
        pytest.param(
            ResizeState.INFEASIBLE, {"app": Allocation(amounts(300), {})}, id="it never will"
        ),
        pytest.param(
            ResizeState.DEFERRED, {"app": Allocation(amounts(300), {})}, id="it has put it off"
        ),
    ],
)
def test_what_the_spec_asks_for_counts_as_given_unless_the_kubelet_puts_it_off(
    state: ResizeState | None, expected: TargetResources
) -> None:
    container = a_container(requests=amounts(500), status=Allocation(amounts(100)))

    assert only_growing(a_pod(container, resize=state), {"app": Allocation(amounts(300))}) == (
        expected
    )


def pod_item(cpu: int, kind: LimitRangeType = LimitRangeType.POD) -> LimitRangeItem:
    return LimitRangeItem(kind, max=amounts(cpu))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param((), True, id="no bounds"),
        pytest.param((pod_item(700),), True, id="the sum of limits is the maximum"),
        pytest.param((pod_item(699),), False, id="limits above the maximum"),
        pytest.param((pod_item(900), pod_item(500)), False, id="the tightest counts"),
        pytest.param((pod_item(0),), True, id="a bound of zero is none"),
        pytest.param((pod_item(300, LimitRangeType.NODE),), True, id="a node bounds requests"),
        pytest.param((pod_item(299, LimitRangeType.NODE),), False, id="too large for the node"),
        pytest.param(
            (pod_item(299, LimitRangeType.NODE), pod_item(300, LimitRangeType.NODE)),
            True,
            id="one of the nodes is enough",
        ),
        pytest.param((pod_item(1, LimitRangeType.CONTAINER),), True, id="bounds of containers"),
    ],
)
def test_the_pod_as_a_whole_stays_within_its_bounds(
    items: tuple[LimitRangeItem, ...], *, expected: bool
) -> None:
    pod = a_pod(
        a_container("a", requests=amounts(100), limits=amounts(200)),
        a_container("b", requests=amounts(100), limits=amounts(300)),
    )

    assert is_within(pod, {"a": Allocation(amounts(200), amounts(400))}, items) is expected


def test_a_missing_request_grows_whatever_it_becomes() -> None:
    pod = a_pod(a_container(requests=amounts(100)))

    assert only_growing(pod, {"app": Allocation(amounts(50, 1))}) == {
        "app": Allocation(amounts(memory=1), {})
    }
