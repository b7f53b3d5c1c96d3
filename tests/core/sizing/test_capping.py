from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts
from support.strategies.records import limit_ranges, pod, policy, recommendation

from trimtab.core.model.autoscalers import (
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
)
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.capping import Capped, cap_for_pod

CPU, MEMORY = Resource.CPU, Resource.MEMORY
REQUESTS_ONLY = ControlledValues.REQUESTS_ONLY

USUAL = a_container(requests=amounts(100, 128 * MIB), limits=amounts(200, 256 * MIB))
ADVICE = a_recommendation(
    target=amounts(500, 512 * MIB),
    lower=amounts(250, 256 * MIB),
    upper=amounts(2000, 4096 * MIB),
)


def a_range(
    minimum: Resources | None = None,
    maximum: Resources | None = None,
    default: Resources | None = None,
) -> LimitRangeItem:
    return LimitRangeItem(LimitRangeType.CONTAINER, minimum, maximum, default)


def allows(
    minimum: Resources | None = None,
    maximum: Resources | None = None,
    values: ControlledValues = ControlledValues.REQUESTS_AND_LIMITS,
) -> ContainerPolicy:
    return ContainerPolicy(
        "app", min_allowed=minimum or {}, max_allowed=maximum or {}, controlled_values=values
    )


@pytest.mark.parametrize(
    ("policies", "target", "lower", "upper"),
    [
        pytest.param((), (500, 512), (250, 256), (2000, 4096), id="no policy"),
        pytest.param(
            (allows(amounts(1000, 1024 * MIB)),),
            (1000, 1024),
            (1000, 1024),
            (2000, 4096),
            id="minAllowed raises",
        ),
        pytest.param(
            (allows(maximum=amounts(300, 300 * MIB)),),
            (300, 300),
            (250, 256),
            (300, 300),
            id="maxAllowed lowers",
        ),
        pytest.param(
            (allows(amounts(600), amounts(400)),),
            (400, 512),
            (400, 256),
            (400, 4096),
            id="maxAllowed wins over minAllowed",
        ),
        pytest.param(
            (allows(amounts(0, 0), amounts(0, 0)),),
            (500, 512),
            (250, 256),
            (2000, 4096),
            id="zero bounds are no bounds",
        ),
        pytest.param(
            (allows(amounts(-7, -1), amounts(-5, -1)),),
            (500, 512),
            (250, 256),
            (2000, 4096),
            id="bounds below zero are no bounds",
        ),
        pytest.param(
            (allows(values=REQUESTS_ONLY),),
            (200, 256),
            (200, 256),
            (200, 256),
            id="requests alone stay below the limit",
        ),
        pytest.param(
            (allows(amounts(3000), values=REQUESTS_ONLY),),
            (200, 256),
            (200, 256),
            (200, 256),
            id="the limit wins over minAllowed",
        ),
        pytest.param(
            (ContainerPolicy("other", max_allowed=amounts(1)),),
            (500, 512),
            (250, 256),
            (2000, 4096),
            id="the policy of another container",
        ),
    ],
)
def test_a_policy_caps_target_and_bounds(
    policies: tuple[ContainerPolicy, ...],
    target: tuple[int, int],
    lower: tuple[int, int],
    upper: tuple[int, int],
) -> None:
    capped = cap_for_pod([ADVICE], a_pod(USUAL), policies)
    expected = replace(
        ADVICE,
        target=amounts(target[0], target[1] * MIB),
        lower_bound=amounts(lower[0], lower[1] * MIB),
        upper_bound=amounts(upper[0], upper[1] * MIB),
    )

    assert capped.recommendations == (expected,)


@pytest.mark.parametrize(
    ("container", "item", "target"),
    [
        pytest.param(
            a_container(requests=amounts(100), limits=amounts(150)),
            a_range(maximum=amounts(300)),
            amounts(200, 512 * MIB),
            id="the maximum bounds the limit",
        ),
        pytest.param(
            USUAL, a_range(maximum=amounts(0, 0)), amounts(500, 512 * MIB), id="a zero maximum"
        ),
        pytest.param(
            a_container(requests=amounts(100)),
            a_range(maximum=amounts(300)),
            amounts(500, 512 * MIB),
            id="without a limit the maximum bounds nothing",
        ),
        pytest.param(
            a_container(requests=amounts(100)),
            a_range(maximum=amounts(300), default=amounts(200)),
            amounts(150, 512 * MIB),
            id="the default limit counts",
        ),
        pytest.param(
            a_container(requests=amounts(100), limits=amounts(0)),
            a_range(maximum=amounts(300), default=amounts(200)),
            amounts(150, 512 * MIB),
            id="a limit of zero is none",
        ),
        pytest.param(
            a_container(limits=amounts(200)),
            a_range(maximum=amounts(300)),
            amounts(300, 512 * MIB),
            id="without a request the maximum itself",
        ),
        pytest.param(
            USUAL,
            a_range(amounts(700, 1024 * MIB)),
            amounts(700, 1024 * MIB),
            id="the minimum bounds the request as well",
        ),
        pytest.param(
            a_container(requests=amounts(100)),
            a_range(amounts(700)),
            amounts(700, 512 * MIB),
            id="the minimum counts without a limit",
        ),
        pytest.param(
            USUAL,
            a_range(amounts(700), amounts(1000)),
            amounts(500, 512 * MIB),
            id="the maximum wins over the minimum",
        ),
        pytest.param(
            a_container(requests=amounts(1), limits=amounts(1000)),
            a_range(maximum=amounts(500)),
            amounts(500, 512 * MIB),
            id="a maximum that comes to nothing is none",
        ),
    ],
)
def test_a_limit_range_bounds_limits_and_so_requests(
    container: Container, item: LimitRangeItem, target: Resources
) -> None:
    capped = cap_for_pod([ADVICE], a_pod(container), limit_ranges=[item])

    assert capped.recommendations[0].target == target


@pytest.mark.parametrize(
    ("item", "cpu"),
    [
        pytest.param(a_range(maximum=amounts(300)), 300, id="a maximum is one of the request"),
        pytest.param(a_range(maximum=amounts(3000)), 500, id="a limit that stays bounds nothing"),
        pytest.param(a_range(amounts(600)), 600, id="a minimum is one of the request"),
    ],
)
def test_a_limit_range_bounds_requests_alone_where_limits_do_not_follow(
    item: LimitRangeItem, cpu: int
) -> None:
    container = a_container(requests=amounts(5), limits=amounts(2000))

    capped = cap_for_pod([ADVICE], a_pod(container), (allows(values=REQUESTS_ONLY),), [item])

    assert capped.recommendations[0].target[CPU] == cpu


def ranges_of(container: int, pod: int) -> list[LimitRangeItem]:
    return [
        LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(container)),
        LimitRangeItem(LimitRangeType.POD, max=amounts(pod)),
    ]


def with_limits_of(*ratios: int) -> Pod:
    """Return a pod whose containers have limits of so many times their requests."""
    containers = [
        a_container(f"c{index}", requests=amounts(100), limits=amounts(100 * ratio), index=index)
        for index, ratio in enumerate(ratios)
    ]
    return a_pod(*containers)


def targets_within(pod: Pod, wanted: Sequence[int], ranges: Sequence[LimitRangeItem]) -> list[int]:
    advice = [a_recommendation(f"c{i}", target=amounts(cpu)) for i, cpu in enumerate(wanted)]
    capped = cap_for_pod(advice, pod, (), ranges)
    return [each.target[Resource.CPU] for each in capped.recommendations]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param((500, 300), [200, 300], id="cut, the pod fits without further loss"),
        pytest.param((150, 900), [150, 400], id="the other one is cut"),
        pytest.param((900, 900), [200, 400], id="both are cut"),
        pytest.param((150, 300), [150, 300], id="nothing is too large"),
    ],
)
def test_what_a_container_may_not_have_is_left_to_the_others(
    wanted: Sequence[int], expected: Sequence[int]
) -> None:
    assert targets_within(with_limits_of(2, 1), wanted, ranges_of(400, 1000)) == expected


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2000)), min_size=1, max_size=4),
    st.integers(10, 1000),
    st.integers(10, 3000),
)
def test_both_limit_ranges_are_kept_and_no_container_loses_more_than_it_must(
    containers: list[tuple[int, int]], of_container: int, of_pod: int
) -> None:
    ratios, wanted = zip(*containers, strict=True)
    pod, both = with_limits_of(*ratios), ranges_of(of_container, of_pod)
    found = targets_within(pod, wanted, both)
    scaled = targets_within(pod, wanted, both[1:])
    as_original = targets_within(pod, scaled, both[:1])

    assert all(one >= other for one, other in zip(found, as_original, strict=True))
    assert sum(cpu * ratio for cpu, ratio in zip(found, ratios, strict=True)) <= of_pod


def test_the_policy_has_the_last_word_over_the_limit_range() -> None:
    item = a_range(maximum=amounts(600, 800 * MIB))

    capped = cap_for_pod([ADVICE], a_pod(USUAL), (allows(amounts(450)),), [item])

    assert capped.recommendations[0].target == amounts(450, 400 * MIB)
    assert capped.notes == {
        "app": (
            Note(CPU, NoteKind.LIMIT_RANGE_MAX),
            Note(MEMORY, NoteKind.LIMIT_RANGE_MAX),
            Note(CPU, NoteKind.MIN_ALLOWED),
        )
    }


def test_only_what_happens_to_the_target_is_noted() -> None:
    capped = cap_for_pod([ADVICE], a_pod(USUAL), (allows(amounts(300), amounts(1000)),))

    assert capped.recommendations[0].lower_bound == amounts(300, 256 * MIB)
    assert capped.notes == {}


def test_every_step_that_changed_a_target_is_noted_in_order() -> None:
    capped = cap_for_pod([ADVICE], a_pod(USUAL), (allows(amounts(3000), values=REQUESTS_ONLY),))

    assert capped.notes == {
        "app": (
            Note(CPU, NoteKind.MIN_ALLOWED),
            Note(CPU, NoteKind.CONTAINER_LIMIT),
            Note(MEMORY, NoteKind.CONTAINER_LIMIT),
        )
    }


def test_of_a_recommendation_what_is_below_zero_is_dropped() -> None:
    odd = a_recommendation(target=amounts(-1, 5), lower=amounts(-1, 4), upper=amounts(9, -1))

    assert cap_for_pod([odd], a_pod(USUAL)).recommendations == (
        replace(
            odd, target=amounts(memory=5), lower_bound=amounts(memory=4), upper_bound=amounts(9)
        ),
    )


@given(
    recommendations=st.lists(recommendation, max_size=4),
    pod=pod(),
    policies=st.lists(policy, max_size=3).map(tuple),
    items=limit_ranges,
)
def test_no_capped_amount_lies_below_zero(
    recommendations: list[ContainerRecommendation],
    pod: Pod,
    policies: tuple[ContainerPolicy, ...],
    items: list[LimitRangeItem],
) -> None:
    for one in cap_for_pod(recommendations, pod, policies, items).recommendations:
        for given_amounts in (one.target, one.lower_bound or {}, one.upper_bound or {}):
            assert min(given_amounts.values(), default=0) >= 0


def test_of_two_containers_of_one_name_the_first_counts() -> None:
    other = a_container(requests=amounts(100), limits=amounts(300), index=1)

    capped = cap_for_pod([ADVICE], a_pod(USUAL, other), (allows(values=REQUESTS_ONLY),))

    assert capped.recommendations[0].target == amounts(200, 256 * MIB)


def test_a_recommendation_for_a_container_that_is_not_there_is_dropped() -> None:
    ghost = a_recommendation("ghost", target=amounts(1))

    assert cap_for_pod([ghost, ADVICE], a_pod(USUAL)) == Capped((ADVICE,))


def test_bounds_that_are_not_there_stay_absent() -> None:
    bare = ContainerRecommendation("app", amounts(500))

    capped = cap_for_pod([bare], a_pod(USUAL), (allows(maximum=amounts(300, MIB)),))

    assert capped.recommendations == (ContainerRecommendation("app", amounts(300)),)


@pytest.mark.parametrize("policies", [(), (allows(amounts(1000)),)], ids=["no policy", "a policy"])
def test_without_a_recommendation_there_is_nothing_to_cap(
    policies: tuple[ContainerPolicy, ...],
) -> None:
    item = LimitRangeItem(LimitRangeType.POD, min=amounts(5000))

    assert cap_for_pod(None, a_pod(USUAL), policies, [item]) == Capped()


@given(
    recommendations=st.none() | st.lists(recommendation, max_size=4),
    pod=pod(),
    policies=st.lists(policy, max_size=3).map(tuple),
    items=limit_ranges,
)
def test_f28_nothing_that_decodes_stops_the_capping(
    recommendations: list[ContainerRecommendation] | None,
    pod: Pod,
    policies: tuple[ContainerPolicy, ...],
    items: list[LimitRangeItem],
) -> None:
    capped = cap_for_pod(recommendations, pod, policies, items)
    names = {container.name for container in pod.containers}

    assert all(one.container_name in names for one in capped.recommendations)
    assert capped.notes.keys() <= names


@given(one=recommendation, pod=pod(), rule=policy, items=limit_ranges, kind=st.sampled_from(BOTH))
def test_capped_targets_lie_inside_the_policy(
    one: ContainerRecommendation,
    pod: Pod,
    rule: ContainerPolicy,
    items: list[LimitRangeItem],
    kind: Resource,
) -> None:
    everyone = ContainerPolicy("*", min_allowed=rule.min_allowed, max_allowed=rule.max_allowed)
    low, high = max(rule.min_allowed.get(kind, 0), 0), max(rule.max_allowed.get(kind, 0), 0)

    for capped in cap_for_pod([one], pod, (everyone,), items).recommendations:
        if kind in capped.target:
            assert not high or capped.target[kind] <= high
            assert capped.target[kind] >= (min(low, high) if high else low)


@given(one=recommendation, pod=pod(), rule=policy)
def test_what_was_capped_once_is_capped_for_good(
    one: ContainerRecommendation, pod: Pod, rule: ContainerPolicy
) -> None:
    once = cap_for_pod([one], pod, (rule,)).recommendations

    assert cap_for_pod(once, pod, (rule,)).recommendations == once


@pytest.mark.parametrize(
    ("asks", "has", "expected"),
    [
        pytest.param(256, None, 256, id="not reported yet"),
        pytest.param(200, 256, 200, id="the kubelet fails to lower it"),
        pytest.param(400, 256, 256, id="the kubelet has yet to raise it"),
        pytest.param(None, 256, 256, id="taken away and still there"),
    ],
)
def test_requests_alone_stay_below_the_limit_asked_for_and_the_one_reported(
    asks: int | None, has: int | None, expected: int
) -> None:
    def limited(mebibytes: int | None) -> Allocation:
        limits = {} if mebibytes is None else amounts(memory=mebibytes * MIB)
        return Allocation(amounts(100, 128 * MIB), limits)

    container = Container("app", spec=limited(asks), status=None if has is None else limited(has))
    policies = (allows(values=REQUESTS_ONLY),)
    found = cap_for_pod((ADVICE,), a_pod(container), policies, ())

    assert found.recommendations[0].target[MEMORY] == expected * MIB
    assert found.notes["app"] == (Note(MEMORY, NoteKind.CONTAINER_LIMIT),)
