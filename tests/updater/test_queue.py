from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.clocks import run_virtually
from support.makers.records import NOW, a_pod

from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Evict, Resize, Unboost
from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.pods import OwnerReference
from trimtab.updater.pod_owners import OwnerKey
from trimtab.updater.queue import Action, ActionLane, ActionQueue

NAME = AutoscalerName("default", "web")
PACE = PaceSettings(per_second=1, burst=2, slow_start=timedelta())


def a_task(name: str, difference: float = 1.0, *, up: bool = True, owner: str = "web-1") -> Action:
    pod = a_pod(name=name, owner=OwnerReference("ReplicaSet", owner))
    return Action(Evict(pod, NAME, Change(up, relative_difference=difference)), None, None)


def names(lane: ActionLane) -> list[str]:
    return [lane.take().act.pod.name for _ in range(len(lane))]


def test_growing_comes_before_shrinking_then_the_larger_change_then_the_name() -> None:
    lane = ActionLane(PACE, NOW)
    lane.replace_all(
        [
            a_task("shrinks", 9.0, up=False),
            a_task("b-grows-little", 0.1),
            a_task("a-grows-little", 0.1),
            a_task("grows-much", 5.0),
        ]
    )

    assert names(lane) == ["grows-much", "a-grows-little", "b-grows-little", "shrinks"]


def test_a_pod_that_is_oom_killed_early_comes_before_larger_changes() -> None:
    lane = ActionLane(PACE, NOW)
    change = Change(scale_up=True, relative_difference=0.2)
    rescue = Action(Evict(a_pod(name="dying"), NAME, change, quick_oom=True), None, None)
    lane.replace_all([a_task("grows-much", 5.0), rescue])

    assert names(lane) == ["dying", "grows-much"]


def test_the_end_of_a_boost_comes_before_any_resize() -> None:
    lane = ActionLane(PACE, NOW)
    unboost = Action(Unboost(a_pod(name="z"), None, (), {}), None, None)
    resize = Action(
        Resize(a_pod(name="a"), NAME, {}, Change(scale_up=True, relative_difference=9.0)),
        None,
        None,
    )
    lane.replace_all([resize, unboost])

    assert names(lane) == ["z", "a"]


def test_a_part_replaces_only_what_concerns_its_owners() -> None:
    lane = ActionLane(PACE, NOW)
    lane.replace_all([a_task("old", owner="web-1"), a_task("other", 0.5, owner="api-1")])
    owner = OwnerKey("default", "ReplicaSet", "web-1", "", "")
    lane.replace_part({owner}, [a_task("new", 0.1, owner="web-1")])

    assert names(lane) == ["other", "new"]


def test_evictions_and_resizes_have_lanes_of_their_own() -> None:
    agenda = ActionQueue(PACE, NOW)
    resize = Action(Resize(a_pod(name="a"), NAME, {}, Change()), None, None)
    agenda.fill([a_task("b"), resize])

    assert len(agenda) == 2
    assert names(agenda.evictions) == ["b"]
    assert names(agenda.resizes) == ["a"]


def test_a_closed_lane_begins_nothing_before_it_opens() -> None:
    lane = ActionLane(PACE, NOW)
    lane.close_until(NOW + timedelta(seconds=30))
    lane.close_until(NOW + timedelta(seconds=5))

    assert lane.time_to_next(NOW) == timedelta(seconds=30)
    assert lane.time_to_next(NOW + timedelta(seconds=30)) == timedelta()


@pytest.mark.parametrize(
    ("pace", "waits"),
    [
        pytest.param(PACE, True, id="limited"),
        pytest.param(PaceSettings(per_second=0), False, id="unlimited"),
        pytest.param(PaceSettings(per_second=-1), False, id="unlimited as the original says it"),
    ],
)
def test_tasks_that_were_begun_count_against_the_pace(pace: PaceSettings, *, waits: bool) -> None:
    lane = ActionLane(pace, NOW)
    for _ in range(5):
        lane.time_to_next(NOW)
        lane.count_begun()

    assert (lane.time_to_next(NOW) > timedelta()) is waits


def test_what_is_put_back_waits_in_its_place() -> None:
    lane = ActionLane(PACE, NOW)
    lane.replace_all([a_task("first", 3.0), a_task("second", 2.0)])
    taken = lane.take()
    lane.put_back(taken)

    assert names(lane) == ["first", "second"]


def test_waiting_for_a_task_ends_when_there_is_one() -> None:
    async def scene() -> int:
        lane = ActionLane(PACE, NOW)
        lane.replace_all([a_task("a")])
        await lane.filled()
        return len(lane)

    assert run_virtually(scene()) == 1


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 9)), max_size=12), st.randoms())
def test_the_order_in_which_tasks_come_in_plays_no_part(
    changes: list[tuple[bool, float]], dice: Random
) -> None:
    tasks = [a_task(f"p{number}", much, up=up) for number, (up, much) in enumerate(changes)]
    shuffled = list(tasks)
    dice.shuffle(shuffled)
    one, two = ActionLane(PACE, NOW), ActionLane(PACE, NOW)
    one.replace_all(tasks)
    two.replace_all(shuffled)

    assert names(one) == names(two)


OWNERS = st.sampled_from(("web-1", "api-1", "job-1"))
PARTS = st.tuples(OWNERS, st.lists(st.integers(0, 9), max_size=4), st.integers(0, 3))


@given(st.lists(PARTS, max_size=8))
def test_parts_and_takes_leave_what_a_sorted_list_would_hold(
    parts: list[tuple[str, list[int], int]],
) -> None:
    lane = ActionLane(PACE, NOW)
    held: list[tuple[int, str, str]] = []
    for number, (owner, changes, takes) in enumerate(parts):
        named = [(much, f"{number}-{place}") for place, much in enumerate(changes)]
        tasks = [a_task(name, float(much), owner=owner) for much, name in named]
        lane.replace_part({OwnerKey("default", "ReplicaSet", owner, "", "")}, tasks)
        held = [each for each in held if each[2] != owner]
        held = sorted([*held, *((-much, name, owner) for much, name in named)])
        taken = [lane.take().act.pod.name for _ in range(min(takes, len(lane)))]

        assert taken == [name for _, name, _ in held[:takes]]
        held = held[takes:]

    assert names(lane) == [name for _, name, _ in held]


def test_what_is_taken_by_a_condition_is_held_no_longer() -> None:
    lane = ActionLane(PACE, NOW)
    lane.replace_all([a_task("much", 9.0), a_task("little", 0.1), a_task("other", owner="api-1")])
    taken = lane.take_where(lambda task: task.act.pod.name != "other")

    assert [task.act.pod.name for task in taken] == ["little", "much"]
    assert names(lane) == ["other"]
