from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from support.makers.records import MIB, NOW, a_container, a_pod, amounts, minutes

from trimtab.core.changes.outcomes import Unboost
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.pods import IN_PLACE_UPDATED, Allocation, Pod, ResizeState
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.startup_boost import annotation_name
from trimtab.core.updates.pod_history import (
    Recollection,
    after_denial,
    after_failed_unboost,
    after_no_effect,
    after_protection,
    after_refusal,
    after_resize,
    after_silence,
    after_silent_unboost,
    after_succession,
    after_unboost,
    is_settling,
    pod_memory,
    recall,
)
from trimtab.core.updates.resize_or_evict import DeniedAttempt, InfeasibleAttempt

ONE, TWO = AutoscalerName("default", "one"), AutoscalerName("default", "two")
POD = a_pod(resource_version="1", ready_since=NOW)
FRESH = Recollection(ONE)


def remembered(
    pod: Pod, governor: AutoscalerName | None, before: Recollection | None = None
) -> Recollection:
    known = {} if before is None else {pod.uid: before}
    return (known | recall(known, [(pod, governor)], NOW))[pod.uid]


def test_of_a_pod_that_is_new_there_is_nothing_to_tell() -> None:
    found = recall({}, [(POD, ONE)], NOW)

    assert found == {POD.uid: FRESH}
    assert pod_memory(found, [POD.uid]) == {}
    assert recall(found, [(POD, ONE)], NOW) == {}


@pytest.mark.parametrize(
    ("governor", "since"),
    [
        pytest.param(TWO, NOW, id="another autoscaler"),
        pytest.param(ONE, None, id="the same as ever"),
        pytest.param(None, None, id="none for the moment"),
    ],
)
def test_a_new_governor_starts_afresh_and_its_beginning_is_remembered(
    governor: AutoscalerName | None, since: object
) -> None:
    before = after_refusal(FRESH, {}, NOW)
    found = remembered(POD, governor, before)

    assert found.memory.governed_since == since
    assert (found.memory.resize.infeasible is None) is (governor is TWO)


def test_a_label_that_flaps_is_no_change_of_role() -> None:
    away = remembered(POD, None, FRESH)

    assert remembered(POD, ONE, away) == FRESH


def test_a_pod_that_nobody_governed_before_has_not_changed_its_role() -> None:
    assert remembered(POD, ONE, Recollection(None)).memory.governed_since is None


def test_the_time_of_a_resize_is_its_own() -> None:
    first = remembered(structs.replace(POD, resize=ResizeState.IN_PROGRESS), ONE)
    later = [(structs.replace(POD, resize=ResizeState.DEFERRED), ONE)]
    still = ({POD.uid: first} | recall({POD.uid: first}, later, NOW + minutes(3)))[POD.uid]
    over = remembered(POD, ONE, still)

    assert first.memory.resize.resize_since == NOW
    assert still.memory.resize.resize_since == NOW
    assert over.memory.resize.resize_since is None


def test_what_was_just_asked_for_is_not_taken_for_ended_before_the_view_shows_it() -> None:
    asked = after_resize(FRESH, POD, NOW)

    assert remembered(POD, ONE, asked).memory.resize.resize_since == NOW
    assert (
        remembered(
            structs.replace(POD, resource_version="2"), ONE, asked
        ).memory.resize.resize_since
        is None
    )


def test_a_resize_that_is_accepted_ends_what_was_refused() -> None:
    refused = after_refusal(FRESH, {"app": Allocation(amounts(5))}, NOW)
    resized = after_resize(refused, POD, NOW)

    assert refused.memory.resize.infeasible == InfeasibleAttempt({"app": amounts(5)}, NOW)
    assert resized.memory.resize.infeasible is None
    assert resized.memory.last_updated_at == NOW


def test_a_resize_that_is_accepted_ends_what_was_denied() -> None:
    denied = after_denial(FRESH, {"app": Allocation(amounts(5))}, NOW, "at most 4")
    resized = after_resize(denied, POD, NOW)

    assert denied.memory.resize.denied == DeniedAttempt({"app": amounts(5)}, NOW, "at most 4")
    assert resized.memory.resize.denied is None


def test_failed_ends_of_boosts_are_repeated_ever_later_until_one_succeeds() -> None:
    once = after_failed_unboost(FRESH, NOW)
    twice = after_failed_unboost(once, NOW)
    done = after_unboost(twice, Unboost(POD, ONE, ("app",), {}), NOW)

    assert once.memory.unboost.not_before == NOW + timedelta(seconds=10)
    assert twice.memory.unboost.not_before == NOW + timedelta(seconds=20)
    assert done.memory.unboost.is_due(NOW)
    assert done.memory.unmarked == {"app"}


def test_a_mark_that_was_removed_is_forgotten_once_the_view_shows_that() -> None:
    marked = structs.replace(POD, annotations={annotation_name("app"): "{}"})
    done = after_unboost(FRESH, Unboost(marked, ONE, ("app",), {}), NOW)

    assert remembered(marked, ONE, done).memory.unmarked == {"app"}
    assert remembered(POD, ONE, done).memory.unmarked == frozenset()


def test_a_request_to_end_a_boost_is_repeated_ever_later_until_it_is_reported() -> None:
    cpu = {"app": Allocation(amounts(50), {})}
    once = after_unboost(FRESH, Unboost(POD, ONE, ("app",), cpu), NOW)
    twice = after_unboost(once, Unboost(POD, ONE, ("app",), cpu), NOW)
    done = after_unboost(twice, Unboost(POD, ONE, ("app",), {}), NOW)

    assert once.memory.unboost.not_before == NOW + timedelta(seconds=10)
    assert twice.memory.unboost.not_before == NOW + timedelta(seconds=20)
    assert twice.memory.unboost_asked == cpu
    assert done.memory.unboost_asked == {}


def test_the_words_of_a_refusal_are_kept_until_a_request_succeeds() -> None:
    refused = after_failed_unboost(FRESH, NOW, error="exceeded quota")
    failed = after_failed_unboost(refused, NOW)
    asked = after_unboost(failed, Unboost(POD, ONE, ("app",), {"app": Allocation()}), NOW)

    assert failed.memory.unboost_error == "exceeded quota"
    assert not asked.memory.unboost_error


def test_a_resize_without_an_answer_counts_as_made_and_as_nothing_once_the_pod_tells() -> None:
    before = after_refusal(after_resize(FRESH, POD, NOW - minutes(60)), {}, NOW - minutes(30))
    silent = after_silence(before, SHOWN, NOW)
    forgotten = after_no_effect(silent, NOW)

    assert silent.memory.last_updated_at == NOW
    assert silent.memory.resize.infeasible == before.memory.resize.infeasible
    assert is_settling(silent, RESTARTING, NOW + minutes(1))
    assert forgotten.memory.last_updated_at == NOW - minutes(60)
    assert not is_settling(forgotten, RESTARTING, NOW + minutes(1))


def test_what_was_done_after_a_resize_without_an_answer_is_not_forgotten_with_it() -> None:
    silent = after_silence(FRESH, POD, NOW)
    resized = after_resize(silent, SHOWN, NOW + minutes(1))

    assert after_no_effect(resized, NOW) == resized


def test_an_end_of_a_boost_without_an_answer_is_a_change_and_is_repeated() -> None:
    act = Unboost(POD, ONE, ("app",), {"app": Allocation(amounts(50))})
    silent = after_silent_unboost(FRESH, act, NOW)

    assert silent.memory.last_updated_at == NOW
    assert silent.memory.unboost.not_before == NOW + timedelta(seconds=10)
    assert not silent.memory.unmarked


def test_a_protected_pod_is_tried_again_at_the_given_time() -> None:
    protected = after_protection(FRESH, NOW + minutes(1))

    assert not protected.memory.eviction.is_due(NOW)
    assert protected.memory.eviction.is_due(NOW + minutes(1))


SHOWN = structs.replace(POD, resource_version="2")
RESTARTING = a_pod(
    a_container(requests=amounts(1, MIB), restarts_on_resize=True), resource_version="2"
)
BEFORE = structs.replace(RESTARTING, resource_version="1", ready_since=NOW)
BEHIND = a_pod(
    a_container(
        requests=amounts(2, MIB), status=Allocation(amounts(1, MIB)), restarts_on_resize=True
    ),
    resource_version="2",
    ready_since=NOW,
)
RESIZED = after_resize(FRESH, BEFORE, NOW)


@pytest.mark.parametrize(
    ("recollection", "pod", "after", "is_it"),
    [
        pytest.param(FRESH, POD, minutes(0), False, id="nothing was done"),
        pytest.param(
            after_resize(FRESH, POD, NOW), POD, minutes(1), False, id="a resize without a restart"
        ),
        pytest.param(RESIZED, BEFORE, minutes(1), True, id="not shown yet"),
        pytest.param(RESIZED, BEFORE, minutes(6), False, id="for too long"),
        pytest.param(
            RESIZED, structs.replace(RESTARTING, ready_since=NOW), minutes(1), False, id="done"
        ),
        pytest.param(RESIZED, BEHIND, minutes(1), True, id="the kubelet is behind"),
        pytest.param(
            RESIZED,
            structs.replace(RESTARTING, ready_since=NOW, resize=ResizeState.IN_PROGRESS),
            minutes(1),
            True,
            id="under way",
        ),
        pytest.param(
            RESIZED,
            structs.replace(BEHIND, resize=ResizeState.DEFERRED),
            minutes(1),
            False,
            id="put off, which disturbs nothing",
        ),
        pytest.param(RESIZED, RESTARTING, minutes(1), True, id="restarting"),
        pytest.param(
            after_succession(FRESH, NOW),
            structs.replace(POD, ready_since=None),
            minutes(1),
            True,
            id="a successor that is not ready",
        ),
        pytest.param(
            after_succession(FRESH, NOW), POD, minutes(1), False, id="a successor that is"
        ),
        pytest.param(
            after_succession(FRESH, NOW),
            structs.replace(POD, ready_since=None),
            minutes(6),
            False,
            id="a successor that never will be",
        ),
        pytest.param(
            after_succession(FRESH, NOW),
            structs.replace(POD, ready_since=None, created_at=NOW + minutes(20)),
            minutes(21),
            True,
            id="a successor that came late",
        ),
    ],
)
def test_a_pod_settles_until_what_was_done_to_it_is_over(
    recollection: Recollection, pod: Pod, after: timedelta, *, is_it: bool
) -> None:
    assert is_settling(recollection, pod, NOW + after) is is_it


def shrinking(pod_cpu: int, *, annotated: bool = False) -> Pod:
    """Return a pod that has 500m and 500Mi, and whose spec asks for so much CPU."""
    container = a_container(
        requests=amounts(pod_cpu, 500 * MIB), status=Allocation(amounts(500, 500 * MIB))
    )
    annotations = {IN_PLACE_UPDATED: "true"} if annotated else {}
    return a_pod(container, annotations=annotations, resource_version="1")


MORE_MEMORY = {"app": Allocation({Resource.MEMORY: 900 * MIB})}


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        pytest.param(shrinking(500), 500, id="no shrink is under way"),
        pytest.param(shrinking(300), 500, id="a shrink of a pod that no autoscaler resized"),
        pytest.param(shrinking(300, annotated=True), 300, id="a shrink that may be ours"),
    ],
)
def test_what_a_resize_does_not_name_is_left_as_it_was(pod: Pod, left: int) -> None:
    resized = after_resize(FRESH, pod, NOW, MORE_MEMORY)

    assert resized.memory.resize.left["app"].requests == amounts(left, 900 * MIB)


def test_what_a_person_asks_for_between_two_resizes_does_not_become_ours() -> None:
    first = after_resize(FRESH, shrinking(500), NOW, {"app": Allocation(amounts(500))})
    second = after_resize(first, shrinking(300, annotated=True), NOW, MORE_MEMORY)

    assert second.memory.resize.left["app"].requests == amounts(500, 900 * MIB)


def test_another_governor_knows_what_was_asked_for() -> None:
    resized = after_resize(FRESH, shrinking(500), NOW, MORE_MEMORY)
    found = remembered(POD, TWO, resized)

    assert found.memory.resize.left == resized.memory.resize.left
    assert found.memory.resize.asked == {}


@pytest.mark.parametrize("after", [after_unboost, after_silent_unboost])
def test_the_end_of_a_boost_is_ours(
    after: Callable[[Recollection, Unboost, datetime], Recollection],
) -> None:
    cpu = {"app": Allocation(amounts(100))}
    ended = after(FRESH, Unboost(shrinking(500), ONE, ("app",), cpu), NOW)

    assert ended.memory.resize.left["app"].requests == amounts(100, 500 * MIB)
