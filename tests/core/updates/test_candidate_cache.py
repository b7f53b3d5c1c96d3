"""That nothing about a pod that is known already is overlooked, and little is looked at twice."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.makers.plans import DOWN, SMALL, UP, WEB, several, snapshot_of, told
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

from trimtab.core.changes.change import Thresholds
from trimtab.core.model.autoscalers import Autoscaler, Condition
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Termination
from trimtab.core.model.selectors import Selector
from trimtab.core.updates.plan import Planner
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import MemoryKey, PodMemory, Retry, Snapshot

A_MOMENT = timedelta(microseconds=1)
SETTINGS = PlanSettings(
    role_dwell=minutes(5),
    cool_down=minutes(5),
    thresholds=Thresholds(lifetime=minutes(65), quick_oom=minutes(6)),
)
INSIDE = an_autoscaler(a_recommendation(target=amounts(150, 150 * MIB)))


def remembering(memory: PodMemory, autoscaler: Autoscaler) -> Snapshot:
    pods = several(2)
    remembered = {(pod.uid, autoscaler.identity): memory for pod in pods}
    return snapshot_of(pods, autoscaler, pod_memory=remembered)


def killed_early() -> Snapshot:
    kill = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    container = a_container(requests=SMALL, last_termination=kill)
    pods = [a_pod(container, name=name, age=minutes(9)) for name in ("web-0", "web-1")]
    return snapshot_of(pods, INSIDE)


@pytest.mark.parametrize(
    ("snapshot", "before", "after"),
    [
        pytest.param(
            remembering(PodMemory(governed_since=NOW), an_autoscaler(DOWN)),
            "RoleDwell",
            "Evict",
            id="a pod has its governor for long enough",
        ),
        pytest.param(
            remembering(PodMemory(last_updated_at=NOW), an_autoscaler(UP)),
            "CoolDown",
            "Evict",
            id="a pod that was resized has cooled down",
        ),
        pytest.param(
            snapshot_of(several(2), INSIDE),
            "TooYoung",
            "Evict",
            id="a pod inside its bounds is old enough",
        ),
        pytest.param(
            snapshot_of(
                several(2), an_autoscaler(UP), convergence={WEB: Retry(1, NOW + minutes(5))}
            ),
            "NotConverging",
            "Evict",
            id="a workload may be tried again",
        ),
        pytest.param(
            killed_early(),
            "Evict",
            "TooYoung",
            id="a kill for want of memory is long ago",
        ),
    ],
)
def test_what_is_known_of_a_pod_ends_at_the_very_moment(
    snapshot: Snapshot, before: str, after: str
) -> None:
    planner = Planner(SETTINGS)
    first = planner.plan(snapshot, NOW)

    short_before = planner.plan(snapshot, NOW + minutes(5) - A_MOMENT)
    in_time = planner.plan(snapshot, NOW + minutes(5))

    assert [told(each)[0] for each in (first, short_before, in_time)] == [before, before, after]


def governed_by(snapshot: Snapshot, autoscaler: Autoscaler) -> Snapshot:
    """The very same pods under another version of their autoscaler."""
    return replace(snapshot, autoscalers=[ObservedAutoscaler(autoscaler, Selector())])


def test_a_status_in_which_plans_find_nothing_new_makes_no_second_look() -> None:
    planner, before = Planner(SETTINGS), snapshot_of(several(2), INSIDE)
    condition = Condition("UpdatesHeld", "True")
    written = replace(INSIDE, resource_version="2", observed_generation=1, conditions=(condition,))
    first = planner.plan(before, NOW)
    second = planner.plan(governed_by(before, written), NOW + minutes(1))

    assert all(one is other for one, other in zip(first, second, strict=True))


def test_a_doubt_of_the_recommender_is_heard_in_the_next_plan() -> None:
    planner, before = Planner(SETTINGS), snapshot_of(several(2), INSIDE)
    condition = Condition("UsageStale", "True")
    doubting = replace(INSIDE, resource_version="2", conditions=(condition,))
    planner.plan(before, NOW)
    second = planner.plan(governed_by(before, doubting), NOW)

    assert told(second) == ["RecommendationStale"] * 2


def test_a_sibling_that_settles_makes_no_second_look_at_the_others() -> None:
    planner, before = Planner(SETTINGS), snapshot_of(several(3), INSIDE)
    busy = replace(before, settling=frozenset({before.pods[0].pod.uid}))
    first = planner.plan(before, NOW)
    second = planner.plan(busy, NOW + minutes(1))

    assert all(one is other for one, other in zip(first, second, strict=True))


def test_a_clock_that_is_set_back_makes_pods_young_again() -> None:
    planner, snapshot = Planner(SETTINGS), snapshot_of(several(2), INSIDE)
    planner.plan(snapshot, NOW + minutes(5))
    second = planner.plan(snapshot, NOW)

    assert told(second) == ["TooYoung"] * 2


def test_a_plan_of_a_part_in_between_hides_nothing_from_the_next_plan_of_all() -> None:
    planner, everything = Planner(SETTINGS), snapshot_of(several(2), an_autoscaler(UP))
    planner.plan(everything, NOW)
    alone = replace(
        everything, surging=frozenset(), pods=everything.pods[:1], admission_alive=False
    )
    part = planner.plan(alone, NOW)
    second = planner.plan(replace(everything, admission_alive=False), NOW)

    assert (told(part), told(second)) == (["AdmissionAbsent"], ["AdmissionAbsent"] * 2)


def test_what_is_remembered_of_a_pod_since_counts_in_the_next_plan() -> None:
    planner, autoscaler = Planner(SETTINGS), an_autoscaler(UP)
    before = snapshot_of(several(2), autoscaler)
    planner.plan(before, NOW)
    pod = before.pods[0].pod
    resized: dict[MemoryKey, PodMemory] = {
        (pod.uid, autoscaler.identity): PodMemory(last_updated_at=NOW)
    }
    second = planner.plan(replace(before, pod_memory=resized), NOW)

    assert sorted(told(second)) == ["CoolDown", "Evict"]
