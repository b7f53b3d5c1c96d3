from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.plans import WEB
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    hours,
    minutes,
)

from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Evict, Resize
from trimtab.core.guards.convergence import (
    Expectation,
    Fulfilled,
    Missed,
    NeverMade,
    Suspect,
    Verdict,
    Void,
    expect,
    review,
    shows,
)
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.cap_notes import ContainerUpdate, Note, NoteKind, format_updates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import PUT_OFF, Allocation, Pod, ResizeState
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.startup_boost import annotation_name
from trimtab.core.updates.failed_changes import count_miss, is_forgiven

NAME = AutoscalerName("default", "web")
WANTED = {"app": Allocation(amounts(500, 500 * MIB))}
SEEN = {"vpaObservedContainers": "app"}
BOOSTED = {**SEEN, **BOOST_TOLD, annotation_name("app"): "{}"}


def noted(kind: NoteKind) -> str:
    """Return what admission writes on a pod whose CPU has such a note."""
    update = ContainerUpdate(a_container(), notes=(Note(Resource.CPU, kind),))
    return format_updates("web", [update])


def sized(cpu: int | None, memory: int | None = 500, name: str = "new", **fields: object) -> Pod:
    """A pod with so many millicores and mebibytes."""
    requests = amounts(cpu, None if memory is None else memory * MIB)
    return a_pod(a_container(requests=requests), name=name, **fields)  # type: ignore[arg-type]


OLD = sized(100, 100, "old")
EVICTION = Evict(OLD, NAME, Change(), wanted=WANTED)
RESIZE = Resize(OLD, NAME, WANTED, Change())


def expected(act: Evict | Resize = EVICTION, known: Sequence[Pod] = (OLD,)) -> Expectation:
    found = expect(act, WEB, [pod.uid for pod in known], NOW)
    assert found is not None
    return found


def verdicts(
    expectation: Expectation,
    *pods: Pod,
    after: timedelta = minutes(2),
    lacks_pods: bool = False,
    limit_ranges: Sequence[LimitRangeItem] = (),
) -> list[Verdict]:
    return review([expectation], pods, limit_ranges, lacks_pods=lacks_pods, now=NOW + after)


@pytest.mark.parametrize(
    ("successor", "outcome"),
    [
        pytest.param(sized(500), True, id="exactly what was wanted"),
        pytest.param(sized(550, 480), True, id="nearer: the recommendation moved on"),
        pytest.param(sized(100, 100), False, id="what it was"),
        pytest.param(sized(500, 100), False, id="only one of two resources"),
        pytest.param(sized(50, 500), False, id="farther in one"),
        pytest.param(sized(None, 500), False, id="no request at all"),
        pytest.param(sized(2000, 500, annotations=BOOSTED), True, id="boosted, memory right"),
        pytest.param(sized(2000, 100, annotations=BOOSTED), False, id="boosted, memory wrong"),
    ],
)
def test_a_successor_shows_an_effect_if_it_came_nearer(successor: Pod, *, outcome: bool) -> None:
    assert shows(expected(), successor) is outcome


def test_a_request_that_was_missing_only_has_to_be_there() -> None:
    act = Evict(sized(None, None, "old"), NAME, Change(), wanted=WANTED)

    assert shows(expected(act), sized(700, 700)) is True


def test_pods_without_the_containers_cannot_be_compared() -> None:
    other = a_pod(a_container("other", requests=amounts(1, 1)), name="new")

    assert verdicts(expected(), OLD, other) == [Void(expected())]


def test_an_act_that_changes_no_request_has_nothing_to_expect() -> None:
    act = Evict(sized(500, 500, "old"), NAME, Change(), wanted=WANTED)

    assert expect(act, WEB, [], NOW) is None


@pytest.mark.parametrize(
    ("annotations", "limit_ranges", "suspect"),
    [
        pytest.param({}, (), Suspect.ADMISSION, id="admission never saw it"),
        pytest.param(SEEN, (), Suspect.OTHER_MANAGER, id="admission saw it, somebody undid it"),
        pytest.param(
            {**SEEN, "vpaUpdates": format_updates("other", ())},
            (),
            Suspect.OTHER_AUTOSCALER,
            id="another autoscaler gave it its size",
        ),
        pytest.param(
            {**SEEN, "vpaUpdates": noted(NoteKind.QUOTA_REFUSES)},
            (),
            Suspect.QUOTA_REFUSED,
            id="admission left it as it came, for a quota",
        ),
        pytest.param(
            {**SEEN, "vpaUpdates": noted(NoteKind.LIMIT_RANGE_REFUSES)},
            [LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(100))],
            Suspect.LIMIT_RANGE_REFUSED,
            id="admission left it as it came, for a limit range",
        ),
        pytest.param(
            {**SEEN, "vpaUpdates": noted(NoteKind.PODS_REFUSED)},
            (),
            Suspect.PODS_REFUSED,
            id="admission left it as it came, for pods that were never created",
        ),
        pytest.param(
            {**SEEN, "vpaUpdates": noted(NoteKind.BOOST_QUOTA)},
            (),
            Suspect.OTHER_MANAGER,
            id="admission cut its boost alone",
        ),
        pytest.param(
            {**SEEN, "vpaUpdates": format_updates("web", ())},
            [LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(100))],
            Suspect.LIMIT_RANGE,
            id="it has what a limit range says",
        ),
        pytest.param(
            SEEN,
            [LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(300))],
            Suspect.OTHER_MANAGER,
            id="a limit range that says something else",
        ),
    ],
)
def test_the_successor_tells_whom_to_suspect(
    annotations: dict[str, str], limit_ranges: Sequence[LimitRangeItem], suspect: Suspect
) -> None:
    successor = sized(100, 100, annotations=annotations)
    found = verdicts(expected(), OLD, successor, limit_ranges=limit_ranges)

    assert found == [Missed(expected(), suspect, successor)]


@pytest.mark.parametrize(
    ("after", "lacks_pods", "found"),
    [
        pytest.param(minutes(9), True, [], id="it may still come"),
        pytest.param(
            minutes(11), True, [Missed(expected(), Suspect.NO_SUCCESSOR)], id="it did not come"
        ),
        pytest.param(minutes(11), False, [Void(expected())], id="nobody wants one any more"),
    ],
)
def test_an_eviction_without_a_successor_is_judged_after_a_while(
    after: timedelta, found: list[Verdict], *, lacks_pods: bool
) -> None:
    assert verdicts(expected(), after=after, lacks_pods=lacks_pods) == found


@pytest.mark.parametrize(
    ("pods", "after", "is_void"),
    [
        pytest.param([OLD], minutes(6), True, id="the pod stands"),
        pytest.param([OLD], minutes(4), False, id="the view may be behind"),
        pytest.param(
            [structs.replace(OLD, is_deleting=True)], minutes(6), False, id="it terminates"
        ),
        pytest.param([], minutes(6), False, id="it is gone"),
    ],
)
def test_an_eviction_without_an_answer_may_never_have_been_made(
    pods: list[Pod], after: timedelta, *, is_void: bool
) -> None:
    unanswered = replace(expected(), is_answered=False)

    found = verdicts(unanswered, *pods, after=after, lacks_pods=True)
    assert found == ([Void(unanswered)] if is_void else [])


@pytest.mark.parametrize(
    ("pods", "after", "found"),
    [
        pytest.param([sized(500, 500, "old")], minutes(0.5), [], id="somebody may yet undo it"),
        pytest.param(
            [sized(500, 500, "old")],
            minutes(2),
            [Fulfilled(expected(RESIZE), sized(500, 500, "old"))],
            id="it stands",
        ),
        pytest.param(
            [OLD],
            minutes(2),
            [Missed(expected(RESIZE), Suspect.OTHER_MANAGER, OLD)],
            id="it was undone",
        ),
        pytest.param([], minutes(0), [Void(expected(RESIZE))], id="the pod is gone"),
    ],
)
def test_a_resize_is_judged_by_its_own_pod_once_nobody_undoes_it(
    pods: list[Pod], after: timedelta, found: list[Verdict]
) -> None:
    assert verdicts(expected(RESIZE), *pods, after=after) == found


UNANSWERED = replace(expected(RESIZE), is_answered=False)


@pytest.mark.parametrize(
    ("pod", "after", "found"),
    [
        pytest.param(OLD, minutes(4), [], id="it may yet show"),
        pytest.param(OLD, minutes(5), [NeverMade(UNANSWERED, OLD)], id="the request got lost"),
        pytest.param(
            sized(500, 500, "old"),
            minutes(1),
            [Fulfilled(UNANSWERED, sized(500, 500, "old"))],
            id="only the answer got lost",
        ),
    ],
)
def test_a_resize_without_an_answer_that_does_not_show_is_nobodys_fault(
    pod: Pod, after: timedelta, found: list[Verdict]
) -> None:
    assert verdicts(UNANSWERED, pod, after=after) == found


@given(st.integers(1, 6), st.integers(0, 6))
def test_each_successor_speaks_for_one_eviction_the_oldest_first(
    evictions: int, successors: int
) -> None:
    expectations = [
        replace(expected(), pod_uid=f"uid-{number}", since=NOW + minutes(number))
        for number in range(evictions)
    ]
    pods = [sized(500, 500, f"new-{number}") for number in range(successors)]
    found = review(expectations, pods, (), lacks_pods=True, now=NOW + minutes(6))

    assert [verdict.expectation for verdict in found] == expectations[:successors]
    assert len({verdict.pod.uid for verdict in found if isinstance(verdict, Fulfilled)}) == len(
        found
    )


MISSED = Missed(expected(), Suspect.ADMISSION, sized(100, 100))


def test_each_miss_doubles_the_time_until_the_next_try() -> None:
    first = count_miss(None, MISSED, known=[], generation=1, now=NOW)
    second = count_miss(first, MISSED, known=[], generation=1, now=NOW)

    assert (first.retry.failures, second.retry.failures) == (1, 2)
    assert first.retry.not_before == NOW + minutes(2)
    assert second.retry.not_before == NOW + minutes(4)


@pytest.mark.parametrize(
    ("pod", "generation", "is_it"),
    [
        pytest.param(sized(500, annotations=SEEN), 1, True, id="a new pod came out right"),
        pytest.param(sized(500), 1, False, id="right, but not through admission"),
        pytest.param(sized(100, 100, annotations=SEEN), 1, False, id="a new pod came out wrong"),
        pytest.param(sized(500, name="known", annotations=SEEN), 1, False, id="an old pod"),
        pytest.param(OLD, 2, True, id="somebody edited the autoscaler"),
        pytest.param(OLD, None, False, id="the autoscaler is gone"),
    ],
)
def test_a_workload_is_forgiven_when_something_shows_that_it_may_work_again(
    pod: Pod, generation: int | None, *, is_it: bool
) -> None:
    miss = count_miss(None, MISSED, known=["uid-known", "uid-old"], generation=1, now=NOW)

    assert is_forgiven(miss, [pod], generation, now=NOW) is is_it


REFUSED = replace(MISSED, suspect=Suspect.PODS_REFUSED)


def test_refused_sizes_are_tried_again_ever_later_and_for_ever() -> None:
    miss, now, delays = None, NOW, []
    for _ in range(20):
        miss = count_miss(miss, REFUSED, known=[], generation=1, now=now)
        assert miss.retry.not_before is not None
        delays.append(miss.retry.not_before - now)
        now = miss.retry.not_before

    assert delays[:4] == [minutes(10), minutes(20), minutes(40), minutes(80)]
    assert delays[-1] == hours(6)
    assert miss is not None
    assert miss.retry.failures == 0
    assert miss.changes == 20


def test_evictions_of_one_moment_count_once_if_their_successors_are_refused() -> None:
    first = count_miss(None, REFUSED, known=[], generation=1, now=NOW)
    second = count_miss(first, REFUSED, known=[], generation=1, now=NOW + minutes(1))

    assert second.retry == first.retry
    assert second.refusals == 1


@pytest.mark.parametrize(
    ("suspect", "target", "is_it"),
    [
        pytest.param(Suspect.PODS_REFUSED, amounts(400, 500 * MIB), True, id="less CPU"),
        pytest.param(Suspect.PODS_REFUSED, amounts(500, 400 * MIB), True, id="less memory"),
        pytest.param(Suspect.PODS_REFUSED, amounts(480, 500 * MIB), False, id="hardly less"),
        pytest.param(Suspect.PODS_REFUSED, amounts(500, 500 * MIB), False, id="the same"),
        pytest.param(Suspect.PODS_REFUSED, amounts(400, 600 * MIB), False, id="more memory"),
        pytest.param(Suspect.PODS_REFUSED, {}, False, id="nothing"),
        pytest.param(Suspect.OTHER_MANAGER, amounts(400, 400 * MIB), False, id="another suspect"),
    ],
)
def test_a_clearly_smaller_size_than_a_refused_one_is_tried_at_once(
    suspect: Suspect, target: Resources, *, is_it: bool
) -> None:
    refused = [a_recommendation(target=amounts(500, 500 * MIB))]
    missed = replace(MISSED, suspect=suspect)
    miss = count_miss(None, missed, known=[], generation=1, now=NOW, recommendation=refused)

    assert is_forgiven(miss, [], 1, [a_recommendation(target=target)], now=NOW) is is_it


def test_delays_have_an_end() -> None:
    miss = count_miss(None, MISSED, known=[], generation=1, now=NOW)
    for _ in range(30):
        miss = count_miss(miss, MISSED, known=[], generation=1, now=NOW)

    assert miss.retry.not_before == NOW + hours(6)


def refused(name: str = "old", state: ResizeState = ResizeState.INFEASIBLE) -> Pod:
    """A pod whose spec asks for all that is wanted, and whose kubelet gives it less."""
    small = amounts(100, 100 * MIB)
    container = structs.replace(
        a_container(requests=amounts(500, 500 * MIB)), status=Allocation(small), is_running=True
    )
    return a_pod(container, name=name, resize=state)


def test_an_eviction_after_a_refused_resize_is_expected_to_have_an_effect() -> None:
    pod = refused()
    expectation = expected(replace(EVICTION, pod=pod), known=(pod,))
    (verdict,) = verdicts(expectation, sized(100, 100))
    assert isinstance(verdict, Missed)
    assert verdict.suspect is Suspect.ADMISSION


def test_a_successor_that_was_resized_in_vain_shows_no_effect() -> None:
    (verdict,) = verdicts(expected(), refused("new"))
    assert isinstance(verdict, Missed)


@pytest.mark.parametrize("state", sorted(PUT_OFF))
def test_a_resize_that_the_kubelet_does_not_make_is_no_effect(state: ResizeState) -> None:
    assert verdicts(expected(RESIZE), refused(state=state)) == []


def test_a_resize_that_is_under_way_is_an_effect() -> None:
    (verdict,) = verdicts(expected(RESIZE), refused(state=ResizeState.IN_PROGRESS))
    assert isinstance(verdict, Fulfilled)
