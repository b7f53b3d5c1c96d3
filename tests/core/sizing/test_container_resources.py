import pytest
from hypothesis import given
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler
from support.strategies.records import autoscaler, limit_ranges, pod

from trimtab.core.model.autoscalers import (
    Autoscaler,
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    UpdateMode,
)
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Pod
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.container_resources import (
    Allotment,
    controls_limits,
    is_off,
    recommended_for_pod,
)

CPU, MEMORY = Resource.CPU, Resource.MEMORY
ADVICE = a_recommendation(target=amounts(500, 512 * MIB))
POD = a_pod(a_container(requests=amounts(100, 128 * MIB), limits=amounts(200, 256 * MIB)))


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        pytest.param(
            (), Allotment(amounts(500, 512 * MIB), amounts(1000, 1024 * MIB)), id="limits follow"
        ),
        pytest.param(
            (
                ContainerPolicy(
                    "*",
                    max_allowed=amounts(150, 64 * MIB),
                    controlled_values=ControlledValues.REQUESTS_ONLY,
                ),
            ),
            Allotment(
                amounts(150, 64 * MIB),
                notes=(Note(CPU, NoteKind.MAX_ALLOWED), Note(MEMORY, NoteKind.MAX_ALLOWED)),
            ),
            id="limits stay where only requests are controlled",
        ),
    ],
)
def test_what_a_container_should_get(
    policies: tuple[ContainerPolicy, ...], expected: Allotment
) -> None:
    assert recommended_for_pod(POD, an_autoscaler(ADVICE, policies=policies)) == {"app": expected}


def test_notes_on_capping_come_before_notes_on_limits() -> None:
    pod = a_pod(a_container(requests=amounts(100, MIB), limits=amounts(200)))
    policies = (ContainerPolicy("app", max_allowed=amounts(300)),)

    allotment = recommended_for_pod(pod, an_autoscaler(ADVICE, policies=policies))["app"]

    assert allotment.notes == (
        Note(CPU, NoteKind.MAX_ALLOWED),
        Note(MEMORY, NoteKind.NO_LIMIT_TO_SCALE),
    )


def test_the_default_limit_of_the_namespace_is_scaled_too() -> None:
    pod = a_pod(a_container(requests=amounts(100)))
    item = LimitRangeItem(LimitRangeType.CONTAINER, default=amounts(300))

    assert recommended_for_pod(pod, an_autoscaler(ADVICE), [item])["app"].limits == amounts(1500)


@pytest.mark.parametrize(
    "silent",
    [
        pytest.param(an_autoscaler(ADVICE, mode=UpdateMode.OFF), id="mode off"),
        pytest.param(an_autoscaler(), id="no recommendation"),
        pytest.param(
            an_autoscaler(ADVICE, policies=(ContainerPolicy("app", mode=ContainerMode.OFF),)),
            id="the container's mode off",
        ),
        pytest.param(an_autoscaler(a_recommendation("ghost", target=amounts(1))), id="another's"),
    ],
)
def test_nothing_follows_from_an_autoscaler_that_says_nothing(silent: Autoscaler) -> None:
    assert recommended_for_pod(POD, silent) == {}


@pytest.mark.parametrize(
    ("policies", "off", "limits"),
    [
        pytest.param((), False, True, id="by default all is controlled"),
        pytest.param((ContainerPolicy("app", mode=ContainerMode.OFF),), True, True, id="off"),
        pytest.param(
            (ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY),),
            False,
            False,
            id="requests only",
        ),
    ],
)
def test_the_policy_says_what_is_controlled(
    *, policies: tuple[ContainerPolicy, ...], off: bool, limits: bool
) -> None:
    autoscaler = an_autoscaler(policies=policies)

    assert is_off(autoscaler, a_container()) is off
    assert controls_limits(autoscaler, a_container()) is limits


@given(pod=pod(), autoscaler=autoscaler, items=limit_ranges)
def test_f28_any_pod_gets_an_answer_for_its_own_containers_only(
    pod: Pod, autoscaler: Autoscaler, items: list[LimitRangeItem]
) -> None:
    found = recommended_for_pod(pod, autoscaler, items)

    assert found.keys() <= {container.name for container in pod.containers}
    assert all(0 not in one.limits.values() for one in found.values())
