from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler

from trimtab.core.model.autoscalers import Autoscaler, ContainerMode, ContainerPolicy, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import Allocation, Pod, PodPhase, WorkloadName
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.model.selectors import Selector
from trimtab.core.report.severity import SizeSeverity
from trimtab.core.report.sizes import (
    Learned,
    MissingRecommendation,
    SizeBounds,
    WorkloadSizing,
    add_up,
    size_group,
)
from trimtab.core.report.virtual_autoscalers import Group
from trimtab.core.sizing.node_capacity import NodeRooms

_WEB = WorkloadName("default", "Deployment", "web")
_KNOWN = {"app": Learned(10, timedelta(hours=1))}
_NODE = Node("one", amounts(4000, 8192 * MIB))


def _pod(name: str, cpu: int = 1000, memory: int = 1024, **fields: object) -> Pod:
    container = a_container(requests=amounts(cpu, memory * MIB))
    return a_pod(container, name=name, node_name="one", **fields)  # type: ignore[arg-type]


def _size(
    *pods: Pod,
    autoscaler: Autoscaler | None = None,
    is_real: bool = False,
    learned: Mapping[str, Learned] | None = None,
    surroundings: SizeBounds | None = None,
) -> WorkloadSizing:
    told = autoscaler or an_autoscaler(a_recommendation(target=amounts(250, 256 * MIB)))
    own = told if is_real else an_autoscaler(name="Deployment/web", policies=told.policies)
    selector = None if is_real else Selector()
    group = Group(_WEB, "apps/v1", pods, own, selector)
    known = _KNOWN if learned is None else learned
    return size_group(group, told, known, surroundings or SizeBounds())


def test_what_is_saved_is_counted_over_all_pods() -> None:
    sized = _size(_pod("a"), _pod("b"), _pod("c", cpu=400))
    (container,) = sized.containers

    assert (sized.pods, container.pods) == (3, 3)
    assert container.current.requests == amounts(1000, 1024 * MIB)
    assert container.difference(Resource.CPU) == 3 * 250 - 2400
    assert sized.difference(Resource.MEMORY) == 3 * (256 - 1024) * MIB
    assert container.severity_of(Resource.CPU) is SizeSeverity.CRITICAL


def test_limits_keep_their_proportion_as_with_the_admission_controller() -> None:
    pod = a_pod(a_container(requests=amounts(1000), limits=amounts(2000)))
    (container,) = _size(pod).containers

    assert container.recommended is not None
    assert container.recommended.limits == amounts(500)


def test_pods_that_have_ended_cost_nothing_and_still_tell_what_was_requested() -> None:
    ended = _pod("a", phase=PodPhase.SUCCEEDED)
    sized = _size(ended)

    assert sized.pods == 0
    assert sized.containers[0].current.requests == amounts(1000, 1024 * MIB)
    assert [sized.difference(kind) for kind in BOTH] == [0, 0]


@pytest.mark.parametrize(
    ("learned", "doubt"),
    [
        pytest.param({}, MissingRecommendation.NO_SAMPLES, id="nothing is known"),
        pytest.param(
            {"app": Learned(1)}, MissingRecommendation.TOO_FEW_SAMPLES, id="hardly anything is"
        ),
    ],
)
def test_with_too_little_known_nothing_is_recommended(
    learned: Mapping[str, Learned], doubt: MissingRecommendation
) -> None:
    surroundings = SizeBounds(least_samples=2)
    (container,) = _size(_pod("a"), learned=learned, surroundings=surroundings).containers

    assert (container.recommended, container.doubt) == (None, doubt)
    assert container.severity is SizeSeverity.UNKNOWN
    assert container.wanted(Resource.CPU) == 1000


def test_what_an_autoscaler_has_published_counts_whatever_we_have_seen() -> None:
    (container,) = _size(_pod("a"), is_real=True, learned={}).containers

    assert container.doubt is None
    assert container.recommended == Allocation(amounts(250, 256 * MIB), {})


@pytest.mark.parametrize("mode", UpdateMode)
def test_what_is_recommended_is_told_in_every_mode(mode: UpdateMode) -> None:
    target = amounts(250, 256 * MIB)
    autoscaler = an_autoscaler(a_recommendation(target=target), mode=mode)
    (container,) = _size(_pod("a"), autoscaler=autoscaler, is_real=True).containers

    assert container.recommended is not None


def test_a_container_that_is_switched_off_is_not_sized() -> None:
    policy = ContainerPolicy("*", mode=ContainerMode.OFF)
    autoscaler = an_autoscaler(a_recommendation(target=amounts(250)), policies=(policy,))
    (container,) = _size(_pod("a"), autoscaler=autoscaler, is_real=True).containers

    assert (container.recommended, container.doubt) == (None, MissingRecommendation.SWITCHED_OFF)


def test_limit_ranges_and_policies_are_honoured() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, min=amounts(300))
    policy = ContainerPolicy("*", min_allowed=amounts(memory=500 * MIB))
    autoscaler = an_autoscaler(a_recommendation(target=amounts(250, 256 * MIB)), policies=(policy,))
    surroundings = SizeBounds({"default": [item]})
    (container,) = _size(
        _pod("a"), autoscaler=autoscaler, is_real=True, surroundings=surroundings
    ).containers

    assert container.recommended is not None
    assert container.recommended.requests == amounts(300, 500 * MIB)


def test_the_resource_binds_of_which_a_pod_takes_the_larger_part() -> None:
    surroundings = SizeBounds(nodes={"one": _NODE}, rooms=NodeRooms([_NODE]))
    sized = _size(_pod("a"), surroundings=surroundings)
    elsewhere = _size(_pod("a"))

    assert sized.shares == {Resource.CPU: 250 / 4000, Resource.MEMORY: 256 / 8192}
    assert sized.binding is Resource.CPU
    assert (elsewhere.shares, elsewhere.binding) == ({}, None)


def test_a_pod_never_outgrows_the_largest_node() -> None:
    small = Node("one", amounts(200, 8192 * MIB))
    surroundings = SizeBounds(nodes={"one": small}, rooms=NodeRooms([small]))
    (container,) = _size(_pod("a", cpu=100), surroundings=surroundings).containers

    assert container.recommended is not None
    assert (container.recommended.requests or {})[Resource.CPU] == 200


def test_totals_are_parts_of_what_all_nodes_have() -> None:
    totals = add_up([_size(_pod("a"), _pod("b"))], [_NODE, _NODE])

    assert totals.requested == amounts(2000, 2048 * MIB)
    assert totals.wanted == amounts(500, 512 * MIB)
    assert totals.shares(totals.wanted) == {Resource.CPU: 500 / 8000, Resource.MEMORY: 512 / 16384}
    assert totals.score == 0


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.integers(1, 10**6))
def test_what_is_requested_and_what_changes_come_to_what_is_wanted(
    requests: list[int], target: int
) -> None:
    autoscaler = an_autoscaler(a_recommendation(target=amounts(target)))
    pods = [_pod(f"p{place}", cpu=cpu) for place, cpu in enumerate(requests)]
    sized = _size(*pods, autoscaler=autoscaler)
    totals = add_up([sized], [])

    assert totals.requested[Resource.CPU] == sum(requests)
    assert totals.wanted[Resource.CPU] == target * len(requests)
    assert sized.difference(Resource.CPU) == totals.wanted[Resource.CPU] - sum(requests)
    assert sized.difference(Resource.MEMORY) == 0
