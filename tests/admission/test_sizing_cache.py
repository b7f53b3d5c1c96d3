"""Pods that are alike get the same, and whatever has changed is seen."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler
from support.strategies.records import autoscaler, limit_ranges, pod

from trimtab.admission import sizing_cache
from trimtab.admission.sizing_cache import CapBounds, Sizings, WholePod
from trimtab.core.model.autoscalers import Autoscaler, CpuBoost
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Envelope, OwnerReference, Pod, without_status
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.admission_patch import Sizing, size_pod
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side

GATES = FeatureGates()
FREE = CapBounds((), None)
POD = a_pod(a_container(requests=amounts(100, 100 * MIB), limits=amounts(100, 100 * MIB)))
DOUBLED = an_autoscaler(a_recommendation(target=amounts(500, 500 * MIB)), boost=CpuBoost(factor=2))
CPU = QuotaClaim(Side.REQUESTS, Resource.CPU)
TIGHT, WIDE = Quota("default", "team", {CPU: 700}), Quota("default", "team", {CPU: 4000})
SMALL = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(None, 200 * MIB))


def work_out(pod: Pod, autoscaler: Autoscaler, bounds: CapBounds) -> Sizing:
    room = BoostRoom(
        bounds.limit_ranges,
        bounds.max_boost_millicores,
        bounds.quotas,
        bounds.awaited_pods,
        max_priority=bounds.max_boosted_priority,
    )
    return size_pod(without_status(pod), autoscaler, gates=GATES, room=room)


@pytest.mark.parametrize(
    ("pod", "autoscaler", "bounds"),
    [
        pytest.param(
            structs.replace(POD, containers=(a_container(requests=amounts(5)),)),
            DOUBLED,
            FREE,
            id="another request",
        ),
        pytest.param(
            structs.replace(POD, annotations={"a": "b"}), DOUBLED, FREE, id="an annotation"
        ),
        pytest.param(
            structs.replace(POD, has_empty_annotations=True), DOUBLED, FREE, id="an empty map"
        ),
        pytest.param(
            structs.replace(POD, envelope=Envelope(amounts(300), {})),
            DOUBLED,
            FREE,
            id="an envelope",
        ),
        pytest.param(
            POD,
            an_autoscaler(a_recommendation(target=amounts(700, 500 * MIB))),
            FREE,
            id="another recommendation",
        ),
        pytest.param(POD, DOUBLED, CapBounds((SMALL,), None), id="a limit range"),
        pytest.param(POD, DOUBLED, CapBounds((), 600), id="a bound for boosts"),
        pytest.param(POD, DOUBLED, CapBounds((), None, None, (TIGHT,)), id="what a quota leaves"),
        pytest.param(
            POD, DOUBLED, CapBounds((), None, None, (WIDE,), 8), id="pods that are awaited"
        ),
        pytest.param(structs.replace(POD, preemption_priority=9), DOUBLED, FREE, id="a priority"),
        pytest.param(
            POD, DOUBLED, CapBounds((), None, max_boosted_priority=-1), id="a bound for priorities"
        ),
    ],
)
def test_a_change_of_anything_that_counts_is_seen_at_once(
    pod: Pod, autoscaler: Autoscaler, bounds: CapBounds
) -> None:
    sizings = Sizings(GATES)
    before = sizings.size(WholePod(POD), DOUBLED, FREE)
    after = sizings.size(WholePod(pod), autoscaler, bounds)

    assert after == work_out(pod, autoscaler, bounds)
    assert after != before


@given(pod=pod(), autoscaler=autoscaler, items=limit_ranges, name=st.text())
def test_a_pod_gets_what_would_have_been_worked_out_for_it_alone(
    pod: Pod, autoscaler: Autoscaler, items: list[LimitRangeItem], name: str
) -> None:
    bounds = CapBounds(items, None)
    other = structs.replace(
        pod,
        name=name,
        uid=name,
        labels={"a": name},
        owner=OwnerReference("Job", name),
        node_name=name,
    )
    sizings = Sizings(GATES)
    first = sizings.size(WholePod(pod), autoscaler, bounds)

    assert sizings.size(WholePod(other), autoscaler, bounds) is first
    assert first == work_out(other, autoscaler, bounds)


@given(pod=pod(), autoscaler=autoscaler, items=limit_ranges)
def test_a_status_that_a_new_pod_brings_along_changes_nothing(
    pod: Pod, autoscaler: Autoscaler, items: list[LimitRangeItem]
) -> None:
    bounds = CapBounds(items, None)
    alone = Sizings(GATES).size(WholePod(without_status(pod)), autoscaler, bounds)
    copied = Sizings(GATES).size(WholePod(pod), autoscaler, bounds)

    assert copied == alone
    assert WholePod(pod).likeness() == WholePod(without_status(pod)).likeness()


def a_template(millicores: int) -> WholePod:
    return WholePod(structs.replace(POD, containers=(a_container(requests=amounts(millicores)),)))


def test_pods_of_a_thousand_autoscalers_with_four_templates_each_are_remembered() -> None:
    sizings = Sizings(GATES)
    autoscalers = [replace(DOUBLED, name=f"web-{number}") for number in range(1000)]
    templates = [a_template(100 + number) for number in range(4)]

    def size_all() -> list[Sizing]:
        return [sizings.size(each, one, FREE) for one in autoscalers for each in templates]

    assert all(one is other for one, other in zip(size_all(), size_all(), strict=True))


def test_templates_that_get_the_same_share_it() -> None:
    sizings, found = Sizings(GATES), []
    autoscaler = an_autoscaler(a_recommendation(target=amounts(500, 500 * MIB)))
    for millicores in (100, 200, 300):
        asking = structs.replace(POD, containers=(a_container(requests=amounts(millicores, MIB)),))
        found.append(sizings.size(WholePod(asking), autoscaler, FREE))

    assert found[0] is found[1] is found[2]


def test_no_more_than_some_megabytes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing_cache, "_KEPT_BYTES", MIB)
    sizings = Sizings(GATES)
    first = sizings.size(WholePod(POD), DOUBLED, FREE)
    for number in range(1000):
        sizings.size(WholePod(POD), replace(DOUBLED, name=f"web-{number}"), FREE)

    assert sizings.size(WholePod(POD), DOUBLED, FREE) is not first


def test_who_sends_endless_templates_is_the_only_one_that_is_forgotten() -> None:
    sizings = Sizings(GATES)
    other = replace(DOUBLED, name="other")
    first, others = (sizings.size(WholePod(POD), each, FREE) for each in (DOUBLED, other))
    for number in range(100):
        sizings.size(a_template(200 + number), other, FREE)

    assert sizings.size(WholePod(POD), DOUBLED, FREE) is first
    assert sizings.size(WholePod(POD), other, FREE) is not others


def test_other_bounds_take_the_place_of_the_former_ones() -> None:
    sizings = Sizings(GATES)
    tight, wide = (CapBounds((), None, None, (each,)) for each in (TIGHT, WIDE))
    other = sizings.size(a_template(300), DOUBLED, FREE)
    former = sizings.size(WholePod(POD), DOUBLED, tight)
    for _ in range(20):
        assert sizings.size(WholePod(POD), DOUBLED, wide) == work_out(POD, DOUBLED, wide)
        assert sizings.size(WholePod(POD), DOUBLED, tight) == former

    assert sizings.size(a_template(300), DOUBLED, FREE) is other


def test_an_autoscaler_that_changed_is_forgotten_with_all_its_pods() -> None:
    sizings = Sizings(GATES)
    first = sizings.size(WholePod(POD), DOUBLED, FREE)
    sizings.size(a_template(300), replace(DOUBLED), FREE)

    assert sizings.size(WholePod(POD), DOUBLED, FREE) is not first


def test_of_large_pods_fewer_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing_cache, "_KEPT_BYTES", MIB)
    names = [f"container-{number}" for number in range(200)]
    large = WholePod(a_pod(*(a_container(name) for name in names)))
    target = amounts(500, 500 * MIB)
    autoscaler = an_autoscaler(*(a_recommendation(name, target=target) for name in names))
    sizings = Sizings(GATES)
    first = sizings.size(large, autoscaler, FREE)
    for number in range(30):
        sizings.size(large, replace(autoscaler, name=f"web-{number}"), FREE)

    assert sizings.size(large, autoscaler, FREE) is not first


def test_of_a_pod_in_an_unusually_large_request_nothing_is_remembered() -> None:
    large = WholePod(POD)
    large.is_usual = False
    sizings = Sizings(GATES)

    assert sizings.size(large, DOUBLED, FREE) is not sizings.size(large, DOUBLED, FREE)
