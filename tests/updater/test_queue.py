from datetime import timedelta
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.clocks import run_virtually
from support.makers.records import NOW, a_pod

from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Evict, Resize, Unboost
from trimtab.core.guards import turns
from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.guards.turns import LastTurns
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.pods import OwnerReference
from trimtab.updater.pod_owners import OwnerKey
from trimtab.updater.queue import Action, ActionLane, ActionQueue
from trimtab.updater.state import UpdaterMemory

NAME = AutoscalerName("default", "web")
PACE = PaceSettings(per_second=1, burst=2, slow_start=timedelta())


def a_lane(pace: PaceSettings = PACE) -> ActionLane:
    return ActionLane(pace, NOW, LastTurns(count(1)))


def a_task(
    name: str,
    difference: float = 1.0,
    *,
    up: bool = True,
    owner: str = "web-1",
    namespace: str = "default",
    quick_oom: bool = False,
) -> Action:
    pod = a_pod(name=name, namespace=namespace, owner=OwnerReference("ReplicaSet", owner))
    act = Evict(pod, NAME, Change(up, relative_difference=difference), quick_oom=quick_oom)
    return Action(act, None, None)


def names(lane: ActionLane) -> list[str]:
    return [lane.take().act.pod.name for _ in range(len(lane))]


def test_growing_comes_before_shrinking_then_the_larger_change_then_the_name() -> None:
    lane = a_lane()
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
    lane = a_lane()
    change = Change(scale_up=True, relative_difference=0.2)
    rescue = Action(Evict(a_pod(name="dying"), NAME, change, quick_oom=True), None, None)
    lane.replace_all([a_task("grows-much", 5.0), rescue])

    assert names(lane) == ["dying", "grows-much"]


def test_the_end_of_a_boost_comes_before_any_resize() -> None:
    lane = a_lane()
    unboost = Action(Unboost(a_pod(name="z"), None, (), {}), None, None)
    resize = Action(
        Resize(a_pod(name="a"), NAME, {}, Change(scale_up=True, relative_difference=9.0)),
        None,
        None,
    )
    lane.replace_all([resize, unboost])

    assert names(lane) == ["z", "a"]


def test_a_part_replaces_only_what_concerns_its_owners() -> None:
    lane = a_lane()
    lane.replace_all([a_task("old", owner="web-1"), a_task("other", 0.5, owner="api-1")])
    owner = OwnerKey("default", "ReplicaSet", "web-1", "", "")
    lane.replace_part({owner}, [a_task("new", 0.1, owner="web-1")])

    assert names(lane) == ["other", "new"]


def test_evictions_and_resizes_have_lanes_of_their_own() -> None:
    agenda = ActionQueue(PACE, NOW, UpdaterMemory())
    resize = Action(Resize(a_pod(name="a"), NAME, {}, Change()), None, None)
    agenda.fill([a_task("b"), resize])

    assert len(agenda) == 2
    assert names(agenda.evictions) == ["b"]
    assert names(agenda.resizes) == ["a"]


def test_a_closed_lane_begins_nothing_before_it_opens() -> None:
    lane = a_lane()
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
    lane = a_lane(pace)
    for _ in range(5):
        lane.time_to_next(NOW)
        lane.count_begun(a_task("a"))

    assert (lane.time_to_next(NOW) > timedelta()) is waits


def test_what_is_put_back_waits_in_its_place() -> None:
    lane = a_lane()
    lane.replace_all([a_task("first", 3.0), a_task("second", 2.0)])
    taken = lane.take()
    lane.put_back(taken)

    assert names(lane) == ["first", "second"]


def test_waiting_for_a_task_ends_when_there_is_one() -> None:
    async def scene() -> int:
        lane = a_lane()
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
    one, two = a_lane(), a_lane()
    one.replace_all(tasks)
    two.replace_all(shuffled)

    assert names(one) == names(two)


OWNERS = st.sampled_from(("web-1", "api-1", "job-1"))
PARTS = st.tuples(OWNERS, st.lists(st.integers(0, 9), max_size=4), st.integers(0, 3))


@given(st.lists(PARTS, max_size=8))
def test_parts_and_takes_leave_what_a_sorted_list_would_hold(
    parts: list[tuple[str, list[int], int]],
) -> None:
    lane = a_lane()
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
    lane = a_lane()
    lane.replace_all([a_task("much", 9.0), a_task("little", 0.1), a_task("other", owner="api-1")])
    taken = lane.take_where(lambda task: task.act.pod.name != "other")

    assert [task.act.pod.name for task in taken] == ["little", "much"]
    assert names(lane) == ["other"]


def of_namespaces(lane: ActionLane, acts: int) -> list[str]:
    taken = []
    for _ in range(acts):
        task = lane.take()
        lane.count_begun(task)
        taken.append(task.act.pod.namespace)
    return taken


def test_namespaces_take_turns_and_each_keeps_its_order() -> None:
    lane = a_lane()
    lane.replace_all(
        [
            *(a_task(f"big-{number}", 9.0, namespace="swings") for number in range(3)),
            a_task("less", 0.2, namespace="calm"),
            a_task("more", 0.3, namespace="calm"),
            a_task("shrinks", 5.0, up=False, namespace="small"),
        ]
    )
    order = []
    while lane:
        order.append(task := lane.take())
        lane.count_begun(task)

    assert [each.act.pod.name for each in order] == [
        *("big-0", "more", "shrinks"),
        *("big-1", "less"),
        "big-2",
    ]


def test_pods_that_are_oom_killed_early_wait_for_no_turn() -> None:
    lane = a_lane()
    dying = [a_task(f"dying-{n}", 0.1, namespace="swings", quick_oom=True) for n in range(3)]
    lane.replace_all([a_task("other", 9.0, namespace="calm"), *dying])

    assert of_namespaces(lane, 4) == ["swings", "swings", "swings", "calm"]


def test_a_namespace_that_had_its_turn_waits_although_a_new_plan_brings_more_of_it() -> None:
    lane = a_lane()
    found = []
    for tick in range(4):
        more = [a_task(f"big-{tick}-{n}", 9.0, namespace="swings") for n in range(5)]
        lane.replace_all([*more, a_task(f"calm-{tick}", 0.1, namespace="calm")])
        # The rate allows one act for each plan.
        found += of_namespaces(lane, 1)

    assert found == ["swings", "calm", "swings", "calm"]


def test_an_act_that_is_not_begun_costs_its_namespace_no_turn() -> None:
    lane = a_lane()
    lane.replace_all([a_task("outdated", 9.0, namespace="a"), a_task("next", 8.0, namespace="a")])
    lane.put_back(a_task("other", namespace="b"))
    lane.take()

    assert of_namespaces(lane, 2) == ["a", "b"]


def test_new_namespaces_keep_none_waiting() -> None:
    lane = a_lane()
    found = []
    for tick in range(6):
        new = [a_task(f"new-{tick}-{n}", 9.0, namespace=f"new-{tick}-{n}") for n in range(2)]
        lane.replace_all([*new, a_task(f"calm-{tick}", 0.1, namespace="calm")])
        found += of_namespaces(lane, 1)

    assert [place for place, name in enumerate(found) if name == "calm"] == [1, 4]


def test_of_many_namespaces_those_that_wait_keep_their_places() -> None:
    turns_taken = LastTurns(count(1))
    for number in range(10_100):
        turns_taken.note(f"n{number}")
    turns_taken.forget_others({"n0"})

    assert len(turns_taken.by_namespace()) == 10_000
    assert turns_taken.join("n0") == 1
    assert "n1" not in turns_taken.by_namespace()


NAMESPACES = st.sampled_from(("a", "b", "c", "d"))
TASKS_OF_PLANS = st.lists(
    st.tuples(st.booleans(), NAMESPACES, st.lists(st.integers(0, 9), min_size=1, max_size=4)),
    min_size=1,
    max_size=12,
)


@given(TASKS_OF_PLANS)
def test_of_n_namespaces_each_that_waits_has_a_turn_within_n_turns(
    plans: list[tuple[bool, str, list[int]]],
) -> None:
    lane, waits = a_lane(), dict.fromkeys("abcd", 0)
    for number, (is_whole, namespace, changes) in enumerate(plans):
        # The namespace of the tenant always has more urgent pods than the others.
        tasks = [a_task(f"t{number}-{n}", 99.0, namespace="a") for n in range(3)]
        tasks += [
            a_task(f"p{number}-{place}", float(much), namespace=namespace, owner=namespace)
            for place, much in enumerate(changes)
        ]
        if is_whole:
            lane.replace_all([*tasks, *(a_task(f"z{number}-{n}", 0.1, namespace=n) for n in "bc")])
        else:
            lane.replace_part({OwnerKey(namespace, "ReplicaSet", namespace, "", "")}, tasks)
        for _ in range(min(2, len(lane))):
            waiting = set(lane.count_by_namespace())
            [taken] = of_namespaces(lane, 1)
            waits = {name: waits[name] + 1 if name in waiting else 0 for name in waits}
            waits[taken] = 0

            assert taken in waiting
            assert all(turns < 4 for turns in waits.values())


@given(st.lists(st.tuples(NAMESPACES, st.floats(0, 9)), max_size=12))
def test_a_lane_acts_in_the_order_of_the_plan(wishes: list[tuple[str, float]]) -> None:
    tasks = [a_task(f"p{n}", much, namespace=name) for n, (name, much) in enumerate(wishes)]
    lane, alone = a_lane(), a_lane()
    lane.replace_all(tasks)
    planned: list[Action] = []
    for name in "abcd":
        alone.replace_all([task for task in tasks if task.act.pod.namespace == name])
        planned += [alone.take() for _ in range(len(alone))]
    planned.sort(key=lambda task: -task.act.change.relative_difference)  # type: ignore[union-attr]
    expected = turns.take_turns(planned, lambda task: task.act.pod.namespace, {})

    assert of_namespaces(lane, len(lane)) == [task.act.pod.namespace for task in expected]
