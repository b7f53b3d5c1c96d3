"""Limits that keep their proportion to the requests, however often a pod is resized in place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
)

from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.json_patch import Add
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import LIMITS_PREFIX, Allocation, Container, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.container_resources import overlaid, wanted_by_autoscaler
from trimtab.core.sizing.limit_ratios import with_proportions
from trimtab.core.sizing.resize_patch import resize_patch
from trimtab.core.sizing.startup_boost import annotation_name, format_original

CPU = Resource.CPU
MARK = f"{LIMITS_PREFIX}app"


def running(requests: Resources, limits: Resources, **annotations: str) -> Pod:
    container = a_container(requests=requests, limits=limits, status=Allocation(requests, limits))
    return a_pod(container, annotations=annotations)


def resized(pod: Pod, target: Resources, *items: LimitRangeItem) -> Pod:
    """Return the pod after a resize in place, as the API server shows it."""
    autoscaler = an_autoscaler(a_recommendation(target=target), mode=UpdateMode.IN_PLACE)
    wanted = wanted_by_autoscaler(pod, autoscaler, items)
    patch = resize_patch(pod, wanted)
    if patch is None:
        return pod
    annotations = dict(pod.annotations)
    for operation in patch.metadata:
        if isinstance(operation, Add) and isinstance(operation.value, str):
            name = operation.path.removeprefix("/metadata/annotations/")
            annotations[name.replace("~1", "/")] = operation.value
    (container,) = pod.containers
    size = overlaid(container.spec, wanted["app"])
    bare = structs.replace(container, spec=size, status=size, base=None)
    return structs.replace(
        pod, annotations=annotations, containers=(with_proportions(bare, annotations),)
    )


def size_of(pod: Pod) -> Allocation:
    return pod.containers[0].current


@settings(max_examples=8, deadline=None)
@given(
    request=st.integers(10, 4000),
    excess=st.integers(0, 8000),
    targets=st.lists(st.integers(1, 4000), min_size=1000, max_size=1000),
)
def test_a_thousand_resizes_lose_no_more_than_one(
    request: int, excess: int, targets: list[int]
) -> None:
    limit = request + excess
    pod = running(amounts(request, request * MIB), amounts(limit, limit * MIB))
    for target in targets:
        pod = resized(pod, amounts(target, target * MIB))

    last = targets[-1]
    assert size_of(pod) == Allocation(
        amounts(last, last * MIB),
        amounts(limit * last // request, limit * last * MIB // request),
    )


def test_back_at_its_size_a_pod_has_its_limits() -> None:
    start = running(amounts(100), amounts(150))
    pod = resized(resized(resized(start, amounts(85)), amounts(1)), amounts(100))

    assert size_of(pod) == size_of(start)


def test_proportions_are_written_down_only_where_a_limit_is_rounded() -> None:
    pod = running(amounts(100), amounts(200))

    assert MARK not in resized(pod, amounts(33)).annotations
    assert MARK not in resized(running(amounts(100), {}), amounts(33)).annotations
    assert resized(running(amounts(100), amounts(150)), amounts(33)).annotations[MARK] == (
        format_original(Allocation(amounts(100), amounts(150)))
    )


def test_what_is_written_down_stays_as_it_is() -> None:
    once = resized(running(amounts(100), amounts(150)), amounts(33))

    assert resized(resized(once, amounts(77)), amounts(101)).annotations == once.annotations


def test_a_limit_that_a_person_has_set_counts() -> None:
    once = resized(running(amounts(100), amounts(150)), amounts(33))
    changed = Allocation(amounts(33), amounts(66))
    container = structs.replace(once.containers[0], spec=changed, status=changed, base=None)
    pod = structs.replace(once, containers=(with_proportions(container, once.annotations),))

    assert size_of(resized(pod, amounts(50))).limits == amounts(100)


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", '{"requests":{"cpu":"0"},"limits":{"cpu":"1"}}', '{"limits":{"cpu":"-1"}}'],
)
def test_what_makes_no_sense_counts_for_nothing(text: str) -> None:
    pod = running(amounts(100), amounts(200))
    (container,) = pod.containers
    found = with_proportions(container, {MARK: text})

    assert found.proportions == container.current


def test_a_new_pod_is_judged_by_its_spec_alone() -> None:
    container = Container("app", spec=Allocation(amounts(33), amounts(49)))
    mark = {MARK: format_original(Allocation(amounts(100), amounts(150)))}

    assert with_proportions(container, mark) == container


def test_a_limit_range_bounds_what_follows_from_the_proportions() -> None:
    small = resized(running(amounts(100), amounts(150)), amounts(3))
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(1000))
    grown = resized(small, amounts(2000), item)

    assert size_of(small).limits == amounts(4)
    assert size_of(grown) == Allocation(amounts(666), amounts(999))


def test_the_limits_of_a_boost_are_not_written_down() -> None:
    mark = {annotation_name("app"): format_original(Allocation(amounts(100), amounts(150)))}
    pod = running(amounts(300), amounts(450), **BOOST_TOLD, **mark)

    assert MARK not in resized(pod, amounts(33)).annotations
