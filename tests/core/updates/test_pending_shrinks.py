"""Shrinks that the kubelet has put off: taken back where they are not allowed, or not wanted."""

import pytest
from support.makers.plans import planned, snapshot_of, told
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.changes.outcomes import Resize
from trimtab.core.model.autoscalers import (
    ChangeDirection,
    Condition,
    ContainerMode,
    ContainerPolicy,
    EvictionRequirement,
    UpdateMode,
)
from trimtab.core.model.pods import IN_PLACE_UPDATED, Allocation, Pod, ResizeState, TargetResources
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.sizing.startup_boost import annotation_name, format_original
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import InfeasibleAttempt, ResizeMemory
from trimtab.core.updates.snapshot import PodMemory

HAS = amounts(1000, 400 * MIB)
ASKED = amounts(100, 200 * MIB)
SHRINK = a_recommendation(target=ASKED, upper=amounts(200, 300 * MIB))
RESIZED = {IN_PLACE_UPDATED: "true"}
UPSCALE_ONLY, EITHER = UpdateMode.UPSCALE_ONLY, UpdateMode.IN_PLACE_OR_RECREATE


def a_deferred_pod(
    asked: Resources = ASKED,
    has: Resources = HAS,
    *,
    limits: tuple[Resources | None, Resources | None] = (None, None),
    **fields: object,
) -> Pod:
    """A pod whose spec asks for other amounts than the kubelet gives it."""
    container = a_container(
        requests=asked, limits=limits[0], status=Allocation(has, limits[1] or {})
    )
    usual: dict[str, object] = {"resize": ResizeState.DEFERRED, "annotations": RESIZED}
    return a_pod(container, **(usual | fields))  # type: ignore[arg-type]


def asked_of(
    pod: Pod, target: Resources, mode: UpdateMode, **fields: object
) -> TargetResources | str:
    """Return the resize that is planned for a pod with that target, or why there is none."""
    recommendation = a_recommendation(target=target, lower=target, upper=target)
    usual: dict[str, object] = {"mode": mode, "min_replicas": 1}
    autoscaler = an_autoscaler(recommendation, **(usual | fields))  # type: ignore[arg-type]
    (outcome,) = planned(snapshot_of([pod], autoscaler))
    return outcome.wanted if isinstance(outcome, Resize) else told([outcome])[0]


@pytest.mark.parametrize(
    "state", [ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.ERROR, None]
)
def test_upscale_only_takes_back_a_shrink_that_an_earlier_mode_asked_for(
    state: ResizeState | None,
) -> None:
    pod = a_deferred_pod(resize=state)

    assert asked_of(pod, ASKED, UPSCALE_ONLY) == {"app": Allocation(HAS, {})}


def test_limits_are_taken_back_as_well() -> None:
    pod = a_deferred_pod(limits=(amounts(200), amounts(2000)))

    assert asked_of(pod, ASKED, UPSCALE_ONLY) == {"app": Allocation(HAS, amounts(2000))}


def test_growth_beside_a_shrink_still_waits_for_the_kubelet() -> None:
    pod = a_deferred_pod(asked=amounts(100, 800 * MIB))

    assert asked_of(pod, amounts(100, 800 * MIB), UPSCALE_ONLY) == {
        "app": Allocation(amounts(1000), {})
    }


def test_a_recommendation_that_is_distrusted_keeps_no_pod_from_its_size() -> None:
    doubts = (Condition("UsageStale", "True"),)

    assert asked_of(a_deferred_pod(), ASKED, UPSCALE_ONLY, conditions=doubts) == {
        "app": Allocation(HAS, {})
    }


def test_requirements_that_only_allow_growth_take_a_shrink_back() -> None:
    growing = EvictionRequirement(BOTH, ChangeDirection.TARGET_HIGHER)
    autoscaler = an_autoscaler(SHRINK, mode=EITHER, requirements=(growing,))
    settings = PlanSettings(grow_only_under_requirements=True)
    (outcome,) = planned(snapshot_of([a_deferred_pod()], autoscaler), settings)

    assert outcome.wanted == {"app": Allocation(HAS, {})}


@pytest.mark.parametrize("mode", [EITHER, UpdateMode.IN_PLACE])
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(HAS, {"app": Allocation(HAS, {})}, id="what it has"),
        pytest.param(amounts(2000, 800 * MIB), {"app": Allocation(HAS, {})}, id="more than it has"),
        pytest.param(
            amounts(500, 200 * MIB), {"app": Allocation(amounts(500), {})}, id="a lesser shrink"
        ),
        pytest.param(amounts(105, 205 * MIB), "ResizeDeferred", id="about the same shrink"),
        pytest.param(amounts(50, 100 * MIB), "ResizeDeferred", id="a larger shrink"),
    ],
)
def test_a_shrink_is_taken_back_once_more_is_recommended(
    target: Resources, expected: TargetResources | str, mode: UpdateMode
) -> None:
    assert asked_of(a_deferred_pod(), target, mode) == expected


@pytest.mark.parametrize("mode", [UpdateMode.OFF, UpdateMode.INITIAL])
def test_a_mode_that_leaves_running_pods_alone_takes_nothing_back(mode: UpdateMode) -> None:
    assert asked_of(a_deferred_pod(), HAS, mode) in ("ModeOff", "ModeInitial")


def test_a_resize_by_hand_is_left_alone() -> None:
    assert asked_of(a_deferred_pod(annotations={}), ASKED, UPSCALE_ONLY) == "OnlyShrinks"


def remembering(pod: Pod, **left: Allocation) -> list[str]:
    """Return what is planned under UpscaleOnly by an updater that has left this in the spec."""
    autoscaler = an_autoscaler(SHRINK, mode=UPSCALE_ONLY)
    memory = {(pod.uid, autoscaler.identity): PodMemory(ResizeMemory(left=left))}
    return told(planned(snapshot_of([pod], autoscaler, pod_memory=memory)))


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        pytest.param(Allocation(ASKED), "Resize", id="the updater asked for just this"),
        pytest.param(Allocation(HAS), "OnlyShrinks", id="the updater asked for more"),
        pytest.param(
            Allocation(amounts(50, 100 * MIB)), "OnlyShrinks", id="the updater asked for less"
        ),
        pytest.param(
            Allocation(ASKED, amounts(500)), "Resize", id="a person set another limit of CPU alone"
        ),
    ],
)
def test_a_persons_resize_of_a_pod_that_was_resized_before_is_left_alone(
    left: Allocation, expected: str
) -> None:
    assert remembering(a_deferred_pod(), app=left) == [expected]


def test_a_persons_lower_limit_is_left_alone() -> None:
    pod = a_deferred_pod(asked=HAS, limits=(amounts(1500), amounts(2000)))

    assert remembering(pod, app=Allocation(HAS, amounts(1500))) == ["Resize"]
    assert remembering(pod, app=Allocation(HAS, amounts(2000))) == ["OnlyShrinks"]


def test_an_updater_that_has_just_started_takes_a_shrink_for_its_own() -> None:
    assert remembering(a_deferred_pod()) == ["Resize"]


def test_a_container_that_is_not_scaled_is_left_alone() -> None:
    policies = (ContainerPolicy("app", mode=ContainerMode.OFF),)

    assert asked_of(a_deferred_pod(), ASKED, UPSCALE_ONLY, policies=policies) == "NoRecommendation"


def test_the_end_of_a_boost_that_is_put_off_is_not_taken_back() -> None:
    mark = {**BOOST_TOLD, annotation_name("app"): format_original(Allocation(ASKED))}
    pod = a_deferred_pod(
        asked=amounts(100, 400 * MIB), annotations=RESIZED | mark, ready_since=NOW - minutes(30)
    )

    assert asked_of(pod, ASKED, UPSCALE_ONLY) == "UnboostDelayed"


def test_a_refused_request_is_repeated_only_after_a_while() -> None:
    autoscaler = an_autoscaler(SHRINK, mode=UPSCALE_ONLY)
    found = []
    for passed in (minutes(1), minutes(61)):
        attempt = InfeasibleAttempt({"app": HAS}, NOW - passed)
        memory = {("uid-web-0", autoscaler.identity): PodMemory(ResizeMemory(infeasible=attempt))}
        snapshot = snapshot_of([a_deferred_pod()], autoscaler, pod_memory=memory)
        found += told(planned(snapshot))

    assert found == ["ResizeInfeasible", "Resize"]
