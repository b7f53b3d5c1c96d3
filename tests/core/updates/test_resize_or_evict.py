from collections.abc import Callable
from datetime import timedelta

import pytest
from support.makers.records import NOW, a_container, a_pod, amounts, hours, minutes

from trimtab.core.guards.disruption_budgets import GroupPermission
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Allocation, Pod, PodPhase, ResizeState
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.updates.resize_or_evict import (
    Action,
    InfeasibleAttempt,
    PodSituation,
    ResizeMemory,
    decide_eviction,
    decide_resize_only,
    decide_resize_or_eviction,
    restarts_containers,
)

Decision = Action | HoldReason
EVICT, RESIZE = Action.EVICT, Action.RESIZE
SECOND = timedelta(seconds=1)
SPEC = amounts(100, 100)
HIGHER, LOWER = amounts(200, 200), amounts(100, 50)


def situation(
    pod: Pod | None = None,
    *,
    target: Resources = HIGHER,
    lasted: timedelta | None = None,
    refused: Resources | None = None,
    refused_ago: timedelta = minutes(1),
    **fields: object,
) -> PodSituation:
    """A pod that asks for 100 of each and wants `target`, in an open group with budget left."""
    attempt = None if refused is None else InfeasibleAttempt({"app": refused}, NOW - refused_ago)
    usual: dict[str, object] = {
        "standing": GroupPermission.OPEN,
        "disruptable": True,
        "memory": ResizeMemory(attempt, None if lasted is None else NOW - lasted),
    }
    return PodSituation(
        pod=a_pod(a_container(requests=SPEC)) if pod is None else pod,
        targets={"app": target},
        now=NOW,
        **(usual | fields),  # type: ignore[arg-type]
    )


def resizing(state: ResizeState) -> Pod:
    return a_pod(a_container(requests=SPEC), resize=state)


def pending(node_name: str = "") -> Pod:
    return a_pod(a_container(requests=SPEC), phase=PodPhase.PENDING, node_name=node_name)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(situation(), EVICT, id="budget left"),
        pytest.param(situation(disruptable=False), HoldReason.BUDGET_SPENT, id="budget spent"),
        pytest.param(
            situation(pending(), target=LOWER, disruptable=False),
            EVICT,
            id="pods without a node need no budget",
        ),
        pytest.param(
            situation(pending()), HoldReason.POD_PENDING, id="a larger pod finds no node sooner"
        ),
        pytest.param(
            situation(pending("node-1")), HoldReason.POD_PENDING, id="init containers are at work"
        ),
        pytest.param(
            situation(pending("node-1"), quick_oom=True, disruptable=False),
            EVICT,
            id="a sidecar is OOM-killed before the containers start",
        ),
        pytest.param(
            situation(pending(), standing=GroupPermission.RESIZE_ONLY),
            HoldReason.BELOW_MIN_REPLICAS,
            id="but not the minimum of replicas",
        ),
        pytest.param(
            situation(standing=GroupPermission.RESIZE_ONLY),
            HoldReason.BELOW_MIN_REPLICAS,
            id="a group too small to lose a pod",
        ),
        pytest.param(
            situation(resizing(ResizeState.IN_PROGRESS), lasted=minutes(1)),
            HoldReason.RESIZE_IN_PROGRESS,
            id="a resize under way is waited for",
        ),
        pytest.param(
            situation(resizing(ResizeState.INFEASIBLE)), EVICT, id="a resize that cannot succeed"
        ),
    ],
)
def test_whether_a_pod_may_be_evicted(given: PodSituation, expected: Decision) -> None:
    assert decide_eviction(given) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(situation(), RESIZE, id="budget left"),
        pytest.param(situation(disruptable=False), RESIZE, id="no budget is needed"),
        pytest.param(situation(pending()), HoldReason.POD_PENDING, id="a pending pod"),
        pytest.param(
            situation(pending("node-1")), HoldReason.POD_PENDING, id="init containers are at work"
        ),
        pytest.param(
            situation(pending("node-1"), quick_oom=True, restarts=True, disruptable=False),
            RESIZE,
            id="a sidecar is OOM-killed before the containers start",
        ),
        pytest.param(situation(standing=GroupPermission.RESIZE_ONLY), RESIZE, id="a small group"),
        pytest.param(
            situation(refused=HIGHER), EVICT, id="the API server refused the resize before"
        ),
        pytest.param(
            situation(refused=HIGHER, disruptable=False),
            HoldReason.BUDGET_SPENT,
            id="refused before, and no budget",
        ),
        pytest.param(situation(refused=HIGHER, target=LOWER), RESIZE, id="refused, but lower now"),
        pytest.param(
            situation(refused=HIGHER, refused_ago=hours(2)), RESIZE, id="refused long ago"
        ),
    ],
)
def test_resize_or_evict_without_a_resize_under_way(
    given: PodSituation, expected: Decision
) -> None:
    assert decide_resize_or_eviction(given) is expected


@pytest.mark.parametrize(
    ("state", "lasted", "expected"),
    [
        pytest.param(ResizeState.INFEASIBLE, None, EVICT, id="infeasible"),
        pytest.param(ResizeState.DEFERRED, None, HoldReason.RESIZE_DEFERRED, id="just deferred"),
        pytest.param(
            ResizeState.DEFERRED, minutes(5), HoldReason.RESIZE_DEFERRED, id="for five minutes"
        ),
        pytest.param(ResizeState.DEFERRED, minutes(5) + SECOND, EVICT, id="for longer"),
        pytest.param(ResizeState.PENDING_UNKNOWN, None, EVICT, id="pending for another reason"),
        pytest.param(
            ResizeState.IN_PROGRESS, hours(1), HoldReason.RESIZE_IN_PROGRESS, id="for an hour"
        ),
        pytest.param(ResizeState.IN_PROGRESS, hours(1) + SECOND, EVICT, id="for over an hour"),
        pytest.param(ResizeState.ERROR, None, EVICT, id="failed with this very size"),
        pytest.param(ResizeState.IN_PROGRESS_UNKNOWN, None, EVICT, id="in progress, oddly"),
    ],
)
def test_a_resize_that_does_not_succeed_ends_in_an_eviction(
    state: ResizeState, lasted: timedelta | None, expected: Decision
) -> None:
    given = situation(resizing(state), target=SPEC, lasted=lasted)

    assert decide_resize_or_eviction(given) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(200, 100, HoldReason.RESIZE_FAILING, id="a limit that would be lower"),
        pytest.param(None, 100, HoldReason.RESIZE_FAILING, id="a limit where there was none"),
        pytest.param(100, 200, EVICT, id="a limit that would be higher"),
        pytest.param(100, 100, EVICT, id="the same limit"),
        pytest.param(None, None, EVICT, id="no limit at all"),
    ],
)
def test_a_pod_that_keeps_more_memory_than_it_shall_have_is_not_evicted_for_that(
    before: int | None, after: int | None, expected: Decision
) -> None:
    had, wanted = ({} if each is None else amounts(memory=each) for each in (before, after))
    container = a_container(requests=SPEC, limits=wanted, status=Allocation(SPEC, had))
    given = situation(a_pod(container, resize=ResizeState.ERROR), target=SPEC, lasted=hours(2))

    assert decide_resize_or_eviction(given) is expected


def test_how_long_a_deferred_resize_may_wait_is_for_the_operator_to_say() -> None:
    given = situation(resizing(ResizeState.DEFERRED), target=SPEC, lasted=10 * SECOND)

    assert decide_resize_or_eviction(given) is HoldReason.RESIZE_DEFERRED
    assert decide_resize_or_eviction(given._replace(evict_after_deferred=9 * SECOND)) is EVICT


@pytest.mark.parametrize("state", list(ResizeState))
def test_no_resize_ends_in_an_eviction_beyond_the_budget(state: ResizeState) -> None:
    given = situation(resizing(state), target=SPEC, lasted=hours(2), disruptable=False)

    assert decide_resize_or_eviction(given) is HoldReason.BUDGET_SPENT


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(situation(), RESIZE, id="budget left"),
        pytest.param(situation(disruptable=False), RESIZE, id="no budget is needed"),
        pytest.param(situation(pending()), HoldReason.POD_PENDING, id="a pending pod"),
        pytest.param(
            situation(refused=HIGHER), HoldReason.RESIZE_INFEASIBLE, id="refused the same before"
        ),
        pytest.param(
            situation(refused=amounts(150, 150)),
            HoldReason.RESIZE_INFEASIBLE,
            id="refused less before",
        ),
        pytest.param(
            situation(refused=amounts(201, 100)), RESIZE, id="one resource is lower than refused"
        ),
        pytest.param(
            situation(refused=amounts(memory=200)),
            HoldReason.RESIZE_INFEASIBLE,
            id="what was not asked for then is not lower now",
        ),
    ],
)
def test_resize_only_without_a_resize_under_way(given: PodSituation, expected: Decision) -> None:
    assert decide_resize_only(given) is expected


@pytest.mark.parametrize(
    ("state", "target", "expected"),
    [
        pytest.param(ResizeState.DEFERRED, LOWER, HoldReason.RESIZE_DEFERRED, id="deferred"),
        pytest.param(
            ResizeState.PENDING_UNKNOWN, LOWER, HoldReason.RESIZE_DEFERRED, id="pending, oddly"
        ),
        pytest.param(
            ResizeState.IN_PROGRESS, HIGHER, HoldReason.RESIZE_IN_PROGRESS, id="in progress"
        ),
        pytest.param(
            ResizeState.IN_PROGRESS_UNKNOWN,
            HIGHER,
            HoldReason.RESIZE_IN_PROGRESS,
            id="in progress, oddly",
        ),
        pytest.param(
            ResizeState.ERROR, SPEC, HoldReason.RESIZE_FAILING, id="failed, retried by itself"
        ),
        pytest.param(ResizeState.INFEASIBLE, LOWER, RESIZE, id="infeasible, lower now"),
        pytest.param(
            ResizeState.INFEASIBLE, HIGHER, HoldReason.RESIZE_INFEASIBLE, id="infeasible, higher"
        ),
        pytest.param(
            ResizeState.INFEASIBLE, SPEC, HoldReason.RESIZE_INFEASIBLE, id="infeasible, the same"
        ),
    ],
)
def test_resize_only_respects_a_resize_under_way(
    state: ResizeState, target: Resources, expected: Decision
) -> None:
    given = situation(resizing(state), target=target, lasted=minutes(1))

    assert decide_resize_only(given) is expected


@pytest.mark.parametrize("decide", [decide_resize_only, decide_resize_or_eviction])
def test_f23_a_higher_target_after_a_failed_resize_is_applied_without_a_restart(
    decide: Callable[[PodSituation], Decision],
) -> None:
    given = situation(resizing(ResizeState.ERROR), target=HIGHER)

    assert decide(given) is RESIZE


def test_f23_a_resize_that_was_infeasible_for_a_moment_is_tried_again_later() -> None:
    soon = situation(resizing(ResizeState.INFEASIBLE), target=HIGHER, lasted=minutes(59))
    later = situation(resizing(ResizeState.INFEASIBLE), target=HIGHER, lasted=minutes(60))

    assert decide_resize_only(soon) is HoldReason.RESIZE_INFEASIBLE
    assert decide_resize_only(later) is RESIZE


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            situation(restarts=True, disruptable=False),
            HoldReason.BUDGET_SPENT,
            id="a restart needs budget",
        ),
        pytest.param(situation(restarts=True), RESIZE, id="there is budget"),
        pytest.param(
            situation(restarts=True, standing=GroupPermission.RESIZE_ONLY),
            HoldReason.BELOW_MIN_REPLICAS,
            id="a group too small for a restart",
        ),
    ],
)
def test_f24_a_resize_that_restarts_containers_counts_as_a_disruption(
    given: PodSituation, expected: Decision
) -> None:
    assert decide_resize_only(given) is expected
    assert decide_resize_or_eviction(given) is expected


ON_MEMORY = frozenset({Resource.MEMORY})


@pytest.mark.parametrize(
    ("wanted", "fields", "expected"),
    [
        pytest.param(None, {}, True, id="whatever changes"),
        pytest.param({"a": Allocation(amounts(200))}, {}, False, id="cpu alone"),
        pytest.param({"a": Allocation(amounts(200, 200))}, {}, True, id="memory grows"),
        pytest.param({"a": Allocation(amounts(200, 50))}, {}, True, id="memory shrinks"),
        pytest.param(
            {"a": Allocation(amounts(200, 100), amounts(400, 200))}, {}, False, id="it stays"
        ),
        pytest.param({"a": Allocation(limits=amounts(memory=300))}, {}, True, id="a limit changes"),
        pytest.param({"b": Allocation(amounts(memory=200))}, {}, False, id="another container"),
        pytest.param(
            {"a": Allocation(amounts(200))},
            {"status": Allocation(amounts(100, 90), amounts(400, 200))},
            True,
            id="the kubelet has yet to change its memory",
        ),
    ],
)
def test_a_resize_restarts_a_container_whose_restarting_resource_changes(
    wanted: dict[str, Allocation] | None, fields: dict[str, object], *, expected: bool
) -> None:
    limits = amounts(400, 200)
    container = a_container(
        "a", requests=SPEC, limits=limits, restarts_on_resize=ON_MEMORY, **fields
    )

    assert restarts_containers(a_pod(container, a_container("b")), wanted) is expected


def test_a_pod_without_restarting_containers_is_never_restarted() -> None:
    assert not restarts_containers(a_pod())
    assert not restarts_containers(a_pod(), {"app": Allocation(amounts(1, 1))})


def test_a_smaller_size_than_the_node_refused_is_tried_before_an_eviction() -> None:
    refused = resizing(ResizeState.INFEASIBLE)

    assert decide_resize_or_eviction(situation(refused, target=LOWER, lasted=minutes(1))) is RESIZE
    assert decide_resize_or_eviction(situation(refused, target=SPEC, lasted=minutes(1))) is EVICT


def test_a_refusal_of_a_part_says_nothing_about_a_whole_that_asks_for_less() -> None:
    part = situation(refused=amounts(200), target=amounts(200))
    whole = situation(refused=amounts(200), target=amounts(200, 50))

    assert decide_resize_only(part) is HoldReason.RESIZE_INFEASIBLE
    assert decide_resize_only(whole) is RESIZE
