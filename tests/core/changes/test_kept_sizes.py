"""LimitRanges that come later than pods: no pod is disturbed, or shrunk, for their sake."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest
from support.makers.plans import WEB, planned, snapshot_of, told
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.changes.outcomes import Evict, Outcome, Resize
from trimtab.core.explain.pod_checks import explain_pod, view_plan
from trimtab.core.model.autoscalers import ContainerRecommendation, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Container, Pod, Termination
from trimtab.core.model.resources import Resource
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import ObservedPod, Snapshot

HAS = amounts(511, 500 * MIB)
AS_IT_IS = a_recommendation(
    target=HAS, lower=amounts(400, 400 * MIB), upper=amounts(700, 700 * MIB)
)
SMALLER = a_recommendation(
    target=amounts(400, 500 * MIB), lower=amounts(380, 400 * MIB), upper=amounts(450, 700 * MIB)
)
MORE_MEMORY = a_recommendation(
    target=amounts(511, 800 * MIB), lower=amounts(400, 700 * MIB), upper=amounts(700, 900 * MIB)
)
MOST = amounts(306)
RANGES = [
    pytest.param(LimitRangeItem(LimitRangeType.CONTAINER, max=MOST), id="of containers"),
    pytest.param(LimitRangeItem(LimitRangeType.POD, max=MOST), id="of pods"),
]
MODES = [
    UpdateMode.RECREATE,
    UpdateMode.AUTO,
    UpdateMode.IN_PLACE_OR_RECREATE,
    UpdateMode.IN_PLACE,
    UpdateMode.UPSCALE_ONLY,
]
IN_PLACE_MODES = [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE]
KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
DYING = a_container(requests=HAS, limits=HAS, last_termination=KILLED)
OF_CPU = LimitRangeItem(LimitRangeType.CONTAINER, max=MOST)


def limited(
    item: LimitRangeItem,
    recommendation: ContainerRecommendation,
    mode: UpdateMode,
    *,
    container: Container | None = None,
    node_name: str = "node-1",
    ready_since: datetime | None = NOW,
) -> Snapshot:
    """Return a snapshot of three pods that are older than a LimitRange."""
    own = container or a_container(requests=HAS, limits=HAS)
    pods: list[Pod] = [
        a_pod(own, name=f"web-{index}", node_name=node_name, ready_since=ready_since)
        for index in range(3)
    ]
    autoscaler = an_autoscaler(recommendation, mode=mode)
    return snapshot_of(pods, autoscaler, limit_ranges={"default": [item]})


@pytest.mark.parametrize("item", RANGES)
@pytest.mark.parametrize("mode", MODES)
def test_a_limit_range_is_no_reason_to_disturb_a_pod(
    mode: UpdateMode, item: LimitRangeItem
) -> None:
    assert told(planned(limited(item, AS_IT_IS, mode))) == ["InsideBounds"] * 3


@pytest.mark.parametrize("item", RANGES)
def test_a_pod_without_a_node_is_cut(item: LimitRangeItem) -> None:
    outcomes = told(planned(limited(item, AS_IT_IS, UpdateMode.RECREATE, node_name="")))

    assert "Evict" in outcomes


@pytest.mark.parametrize("item", RANGES)
def test_a_pod_shrinks_in_place_no_further_than_is_recommended(item: LimitRangeItem) -> None:
    outcomes = planned(limited(item, SMALLER, UpdateMode.IN_PLACE))

    assert [each.wanted["app"].requests for each in outcomes if isinstance(each, Resize)] == [
        SMALLER.target
    ] * 3


@pytest.mark.parametrize("item", RANGES)
@pytest.mark.parametrize("recommendation", [SMALLER, MORE_MEMORY])
def test_no_pod_is_evicted_for_a_successor_that_a_limit_range_cuts_too_far(
    item: LimitRangeItem, recommendation: ContainerRecommendation
) -> None:
    snapshot = limited(item, recommendation, UpdateMode.RECREATE)
    (first, *others) = planned(snapshot)
    explanation = explain_pod(
        next(each for each in snapshot.pods if each.pod is first.pod),
        view_plan(snapshot, PlanSettings(), NOW),
    )

    assert told([first, *others]) == ["LimitRangeRefuses"] * 3
    assert explanation is not None
    assert "LimitRangeRefuses" in {check.reason for check in explanation.checks}


def test_a_successor_that_gets_what_it_needs_is_worth_an_eviction() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(390))

    assert "Evict" in told(planned(limited(item, SMALLER, UpdateMode.RECREATE)))


@pytest.mark.parametrize("mode", IN_PLACE_MODES)
def test_what_ends_oom_kills_is_asked_for_as_the_limit_range_allows_it(mode: UpdateMode) -> None:
    outcomes = planned(limited(OF_CPU, MORE_MEMORY, mode, container=DYING, ready_since=None))

    size = amounts(306, 800 * MIB)
    assert [each.wanted for each in outcomes if isinstance(each, Resize)] == [
        {"app": Allocation(size, size)}
    ]
    assert sorted(told(outcomes)) == ["EffectAwaited", "EffectAwaited", "Resize"]


def test_once_a_pod_has_the_size_that_the_limit_range_allows_the_others_follow() -> None:
    snapshot = limited(OF_CPU, MORE_MEMORY, UpdateMode.IN_PLACE, container=DYING, ready_since=None)
    size = amounts(306, 800 * MIB)
    cured = a_pod(a_container(requests=size, limits=size), name="web-3", node_name="node-1")
    snapshot = replace(snapshot, pods=[*snapshot.pods, ObservedPod(cured, WEB)])

    assert told(planned(snapshot)).count("Resize") == 3


@pytest.mark.parametrize("mode", [*IN_PLACE_MODES, UpdateMode.RECREATE])
def test_a_ready_pod_is_not_cut_after_an_oom_kill(mode: UpdateMode) -> None:
    outcomes = planned(limited(OF_CPU, MORE_MEMORY, mode, container=DYING))

    assert least_given(outcomes, "app", Resource.CPU) == 511


@pytest.mark.parametrize("mode", [*IN_PLACE_MODES, UpdateMode.RECREATE])
def test_no_pod_is_cut_for_a_trifle_of_memory(mode: UpdateMode) -> None:
    trifle = replace(AS_IT_IS, target=amounts(511, 505 * MIB))
    outcomes = planned(limited(OF_CPU, trifle, mode, container=DYING, ready_since=None))

    assert least_given(outcomes, "app", Resource.CPU) == 511


@pytest.mark.parametrize("mode", [*IN_PLACE_MODES, UpdateMode.RECREATE])
def test_no_container_loses_memory_that_it_needs_to_the_cure_of_another(mode: UpdateMode) -> None:
    snapshot = with_a_cache(mode, LimitRangeType.CONTAINER, has=200, last_termination=KILLED)

    assert least_given(planned(snapshot), "cache", Resource.MEMORY) == 1000 * MIB


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.AUTO])
@pytest.mark.parametrize("has", [100, 400])
def test_what_one_container_gains_does_not_pay_for_what_another_loses(
    mode: UpdateMode, has: int
) -> None:
    snapshot = with_a_cache(mode, LimitRangeType.CONTAINER, has=has, ready_since=NOW)

    assert told(planned(snapshot)) == ["LimitRangeRefuses"] * 2


def test_containers_share_what_a_limit_range_gives_the_pod_as_a_whole() -> None:
    snapshot = with_a_cache(
        UpdateMode.RECREATE, LimitRangeType.POD, has=100, most=1450, ready_since=NOW
    )

    assert "Evict" in told(planned(snapshot))


def with_a_cache(
    mode: UpdateMode,
    kind: LimitRangeType,
    *,
    has: int,
    most: int = 600,
    ready_since: datetime | None = None,
    **fields: object,
) -> Snapshot:
    """Return two pods in which one container needs more and another is as large as it needs."""
    few, many = amounts(100, has * MIB), amounts(100, 1000 * MIB)
    pods = [
        a_pod(
            a_container("app", requests=few, limits=few, **fields),
            a_container("cache", requests=many, limits=many),
            name=f"web-{index}",
            node_name="node-1",
            ready_since=ready_since,
        )
        for index in range(2)
    ]
    autoscaler = an_autoscaler(
        a_recommendation("app", target=amounts(100, 500 * MIB), lower=amounts(90, 450 * MIB)),
        a_recommendation("cache", target=many, lower=amounts(90, 950 * MIB)),
        mode=mode,
    )
    item = LimitRangeItem(kind, max=amounts(memory=most * MIB))
    return snapshot_of(pods, autoscaler, limit_ranges={"default": [item]})


def least_given(outcomes: Sequence[Outcome], name: str, kind: Resource) -> int:
    """Return the least that a resize leaves a container; no pod may be evicted."""
    assert not any(isinstance(each, Evict) for each in outcomes)
    has = min(
        (each.current.requests or {})[kind]
        for outcome in outcomes
        for each in outcome.pod.containers
        if each.name == name
    )
    return min(
        [has]
        + [
            (each.wanted[name].requests or {}).get(kind, has)
            for each in outcomes
            if isinstance(each, Resize) and name in each.wanted
        ]
    )


def test_a_limit_range_still_bounds_growth() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(600))
    grown = replace(AS_IT_IS, target=amounts(900, 500 * MIB), lower_bound=amounts(800, 400 * MIB))
    outcomes = planned(limited(item, grown, UpdateMode.IN_PLACE))

    assert [each.wanted["app"].requests for each in outcomes if isinstance(each, Resize)] == [
        amounts(600, 500 * MIB)
    ] * 3
