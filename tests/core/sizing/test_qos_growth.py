"""Growth up to the limits: it stays in the QoS class, and asks for no eviction."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs
from support.makers.plans import planned, snapshot_of, told
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
)

from trimtab.core.changes.outcomes import Resize
from trimtab.core.explain.pod_checks import explain_pod, view_plan
from trimtab.core.model.autoscalers import Autoscaler, ContainerPolicy, ControlledValues, UpdateMode
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.resize_patch import ResizeEffect, resize_effect
from trimtab.core.updates.plan_settings import PlanSettings

BEYOND = a_recommendation(
    target=amounts(2000, 2000 * MIB),
    lower=amounts(1500, 1500 * MIB),
    upper=amounts(4000, 4000 * MIB),
)
LIMITS = amounts(1000, 1000 * MIB)
ONLY_REQUESTS = ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY)
IN_PLACE, EITHER, UPSCALE_ONLY = (
    UpdateMode.IN_PLACE,
    UpdateMode.IN_PLACE_OR_RECREATE,
    UpdateMode.UPSCALE_ONLY,
)
RESIZING = (IN_PLACE, EITHER, UPSCALE_ONLY)


def scaling(mode: UpdateMode, policy: ContainerPolicy = ONLY_REQUESTS) -> Autoscaler:
    """Return an autoscaler that recommends more than the limits."""
    return an_autoscaler(BEYOND, mode=mode, policies=(policy,))


def sized(*requests: Resources) -> Pod:
    """Return a pod with a container for each of the requests, all below their limits."""
    names = ("app", "log")
    return a_pod(
        *(
            a_container(name, requests=each, limits=LIMITS)
            for name, each in zip(names, requests, strict=False)
        )
    )


def outcomes_of(pods: Sequence[Pod], autoscaler: Autoscaler) -> list[str]:
    return told(planned(snapshot_of(pods, autoscaler)))


@pytest.mark.parametrize("mode", RESIZING)
@pytest.mark.parametrize("count", [1, 2])
def test_a_pod_grows_to_a_millicore_below_its_limits(mode: UpdateMode, count: int) -> None:
    pods = [
        structs.replace(sized(amounts(500, 500 * MIB)), uid=str(index)) for index in range(count)
    ]
    outcomes = planned(snapshot_of(pods, scaling(mode)))

    for each in outcomes:
        assert isinstance(each, Resize)
        assert each.wanted == {"app": Allocation(amounts(999, 1000 * MIB), {})}
        assert resize_effect(each.pod, each.wanted) is ResizeEffect.SAME_QOS


@pytest.mark.parametrize("mode", RESIZING)
@pytest.mark.parametrize(
    "has",
    [
        pytest.param(amounts(999, 1000 * MIB), id="a millicore"),
        pytest.param(amounts(1000, 1000 * MIB - 1), id="a byte"),
    ],
)
def test_what_is_left_to_the_limits_is_no_reason_for_anything(
    mode: UpdateMode, has: Resources
) -> None:
    assert outcomes_of([sized(has)], scaling(mode)) == ["InsideBounds"]


@pytest.mark.parametrize("mode", RESIZING)
def test_where_only_memory_grows_it_stays_a_byte_below(mode: UpdateMode) -> None:
    (outcome,) = planned(snapshot_of([sized(amounts(1000, 500 * MIB))], scaling(mode)))

    assert isinstance(outcome, Resize)
    assert resize_effect(outcome.pod, outcome.wanted) is ResizeEffect.SAME_QOS
    assert (outcome.wanted["app"].requests or {}).get(Resource.MEMORY) == 1000 * MIB - 1


def test_one_container_below_its_limits_is_enough() -> None:
    recommended = [BEYOND, replace(BEYOND, container_name="log")]
    autoscaler = an_autoscaler(*recommended, mode=EITHER, policies=(ONLY_REQUESTS,))
    pod = sized(amounts(500, 500 * MIB), amounts(500, 500 * MIB))
    (outcome,) = planned(snapshot_of([pod], autoscaler))

    assert isinstance(outcome, Resize)
    assert {name: each.requests for name, each in outcome.wanted.items()} == {
        "app": amounts(999, 1000 * MIB),
        "log": amounts(1000, 1000 * MIB),
    }


def test_no_target_becomes_less_than_a_policy_demands() -> None:
    policy = replace(ONLY_REQUESTS, min_allowed=amounts(1000))
    (outcome,) = planned(snapshot_of([sized(amounts(500, 500 * MIB))], scaling(EITHER, policy)))

    assert isinstance(outcome, Resize)
    assert outcome.wanted == {"app": Allocation(amounts(1000, 1000 * MIB - 1), {})}


def test_a_mode_that_evicts_gives_all_that_the_limits_allow() -> None:
    pods = [structs.replace(sized(amounts(900, 1000 * MIB)), uid=str(index)) for index in range(2)]

    assert "Evict" in outcomes_of(pods, scaling(UpdateMode.RECREATE))


def test_the_explanation_says_why_a_millicore_is_left() -> None:
    snapshot = snapshot_of([sized(amounts(500, 500 * MIB))], scaling(IN_PLACE))
    explanation = explain_pod(snapshot.pods[0], view_plan(snapshot, PlanSettings(), NOW))

    assert explanation is not None
    assert "QosClass" in {note.kind for note in explanation.notes["app"]}


def test_a_second_entry_for_a_container_breaks_no_plan() -> None:
    again = a_recommendation(target=amounts(memory=2000 * MIB))
    autoscaler = an_autoscaler(BEYOND, again, mode=EITHER, policies=(ONLY_REQUESTS,))

    assert outcomes_of([sized(amounts(500, 500 * MIB))], autoscaler) == ["Resize"]
