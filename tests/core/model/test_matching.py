from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW, an_autoscaler

from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    ContainerPolicy,
    CpuBoost,
    UpdateMode,
)
from trimtab.core.model.matching import (
    Conflict,
    ObservedAutoscaler,
    acts_on_new_pods,
    acts_on_running_pods,
    find_conflicts,
    governing,
    index_by_workload,
    match_autoscalers,
)
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector

WEB = WorkloadName("default", "Deployment", "web")
EVERYTHING = Selector()


def labelled(**labels: str) -> Selector:
    return Selector(
        tuple(LabelRequirement(key, Operator.IN, (value,)) for key, value in labels.items())
    )


def observed(
    name: str = "web", *, target_selector: Selector | None = EVERYTHING, **fields: object
) -> ObservedAutoscaler:
    return ObservedAutoscaler(an_autoscaler(name=name, **fields), target_selector)


def names(found: Sequence[ObservedAutoscaler]) -> list[str]:
    return [each.autoscaler.name for each in found]


@pytest.mark.parametrize(
    ("workload", "labels", "expected"),
    [
        pytest.param(WEB, {"app": "web"}, ["web"], id="kind, name and labels fit"),
        pytest.param(None, {"app": "web"}, [], id="a pod without a workload is nobody's"),
        pytest.param(WEB, {"app": "db"}, [], id="the target's own selector does not match"),
        pytest.param(
            WorkloadName("other", "Deployment", "web"), {"app": "web"}, [], id="another namespace"
        ),
        pytest.param(
            WorkloadName("default", "StatefulSet", "web"), {"app": "web"}, [], id="another kind"
        ),
        pytest.param(
            WorkloadName("default", "Deployment", "db"), {"app": "web"}, [], id="another name"
        ),
    ],
)
def test_an_autoscaler_matches_pods_of_its_target(
    workload: WorkloadName | None, labels: dict[str, str], expected: list[str]
) -> None:
    index = index_by_workload([observed(target_selector=labelled(app="web"))])

    assert names(match_autoscalers(index, workload, labels)) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"app": "web", "role": "leader"}, ["leader"], id="the leader's autoscaler"),
        pytest.param({"app": "web", "role": "follower"}, ["follower"], id="the follower's"),
        pytest.param({"app": "web"}, [], id="an unlabelled pod is unmanaged"),
        pytest.param({"role": "leader"}, [], id="both selectors must match"),
    ],
)
def test_a_selector_takes_part_of_the_targets_pods(
    labels: dict[str, str], expected: list[str]
) -> None:
    index = index_by_workload(
        observed(role, selector=labelled(role=role), target_selector=labelled(app="web"))
        for role in ("leader", "follower")
    )

    assert names(match_autoscalers(index, WEB, labels)) == expected


def test_an_autoscaler_whose_target_selector_is_unknown_matches_nothing() -> None:
    index = index_by_workload([observed(target_selector=None)])

    assert match_autoscalers(index, WEB, {"app": "web"}) == []


def test_an_autoscaler_without_a_target_is_not_indexed() -> None:
    assert index_by_workload([observed(target=None)]) == {}


def test_with_the_gate_off_an_autoscaler_with_a_selector_matches_nothing() -> None:
    index = index_by_workload(
        [observed("all"), observed("some", selector=EVERYTHING)], selectors_enabled=False
    )

    assert names(match_autoscalers(index, WEB, {})) == ["all"]


@pytest.mark.parametrize(
    ("autoscalers", "expected"),
    [
        pytest.param(
            [
                observed("a", created_at=NOW),
                observed("z", created_at=NOW - timedelta(days=1)),
            ],
            ["z", "a"],
            id="the oldest is the strongest",
        ),
        pytest.param(
            [observed("b", created_at=NOW), observed("a", created_at=NOW)],
            ["a", "b"],
            id="of the same age the smaller name",
        ),
        pytest.param(
            [observed("a", created_at=NOW), observed("b", created_at=None)],
            ["b", "a"],
            id="no creation time counts as the oldest",
        ),
    ],
)
def test_f45_two_autoscalers_on_one_pod_have_a_fixed_order(
    autoscalers: list[ObservedAutoscaler], expected: list[str]
) -> None:
    index = index_by_workload(autoscalers)

    assert names(match_autoscalers(index, WEB, {})) == expected


def test_f45_the_governing_one_is_the_strongest_that_acts() -> None:
    off = observed("a", mode=UpdateMode.OFF)
    acting = observed("b")

    assert governing([off, acting], acts_on_running_pods) is acting
    assert governing([off], acts_on_running_pods) is off
    assert governing([], acts_on_running_pods) is None


@pytest.mark.parametrize(
    ("autoscaler", "running", "new"),
    [
        pytest.param(an_autoscaler(mode=UpdateMode.OFF), False, False, id="off"),
        pytest.param(an_autoscaler(mode=UpdateMode.INITIAL), False, True, id="initial"),
        pytest.param(an_autoscaler(mode=UpdateMode.RECREATE), True, True, id="recreate"),
        pytest.param(an_autoscaler(mode=UpdateMode.UPSCALE_ONLY), True, True, id="upscale only"),
        pytest.param(
            an_autoscaler(mode=UpdateMode.OFF, boost=CpuBoost(factor=2)),
            True,
            True,
            id="off, but it boosts all containers",
        ),
        pytest.param(
            an_autoscaler(
                mode=UpdateMode.OFF, policies=(ContainerPolicy("app", boost=CpuBoost(factor=2)),)
            ),
            True,
            True,
            id="off, but it boosts one container",
        ),
    ],
)
def test_what_an_autoscaler_acts_on_follows_from_mode_and_boost(
    *, autoscaler: Autoscaler, running: bool, new: bool
) -> None:
    assert (acts_on_running_pods(autoscaler), acts_on_new_pods(autoscaler)) == (running, new)


def test_f45_a_conflict_names_the_stronger_and_the_weaker_autoscaler_once() -> None:
    pair = [observed("old"), observed("young")]

    assert find_conflicts([pair, pair, pair[:1], []], acts_on_running_pods) == [
        Conflict(AutoscalerName("default", "old"), AutoscalerName("default", "young"))
    ]


@given(st.permutations([observed(name) for name in ("a", "b", "c", "d")]))
def test_the_order_of_the_list_does_not_matter(autoscalers: list[ObservedAutoscaler]) -> None:
    index = index_by_workload(autoscalers)

    assert names(match_autoscalers(index, WEB, {})) == ["a", "b", "c", "d"]
