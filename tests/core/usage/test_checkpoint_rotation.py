from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW, minutes

from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.usage.checkpoint_rotation import (
    Turn,
    awaits_news,
    find_orphans,
    list_by_worth,
    list_due,
    spread_turns,
)

ROTATION = minutes(10)
TICK = minutes(1)


def a_name(number: int) -> AutoscalerName:
    return AutoscalerName("default", f"web-{number}")


def due(turns: dict[AutoscalerName, Turn], now: float = 0) -> list[AutoscalerName]:
    return list_due(turns, NOW + minutes(now), rotation=ROTATION, tick=TICK)


@given(st.integers(1, 60), st.integers(1, 40))
def test_f35_everybody_is_saved_within_a_rotation_and_nobody_twice_in_half_of_one(
    count: int, ticks: int
) -> None:
    turns = {a_name(number): Turn(NOW) for number in range(count)}
    for tick in range(ticks):
        now = NOW + minutes(tick)
        chosen = due(turns, tick)

        assert len(chosen) == len(set(chosen))
        for name in chosen:
            waited = now - turns[name].since
            assert not turns[name].is_saved or waited >= ROTATION / 2
            turns[name] = Turn(now, is_saved=True)
        assert all(now - turn.since <= ROTATION - TICK for turn in turns.values())


def test_a_tick_saves_its_share_those_never_saved_first_then_the_longest_waiting() -> None:
    turns = {a_name(number): Turn(NOW, is_saved=True) for number in range(19)}
    turns[a_name(19)] = Turn(NOW + minutes(4))

    assert due(turns, 4) == [a_name(19)]
    assert due(turns, 5) == [a_name(19), a_name(0)]


def test_what_was_restored_is_saved_at_once_what_was_saved_longest_ago_first() -> None:
    restored = Turn(NOW, is_saved=True, first_save_until=NOW + minutes(2))
    turns = {
        a_name(0): restored,
        a_name(1): replace(restored, since=NOW - minutes(50)),
        a_name(2): Turn(NOW, is_saved=True),
    }

    assert due(turns) == [a_name(1), a_name(0)]


@pytest.mark.parametrize(
    ("until", "now", "awaits"),
    [
        pytest.param(2, 1, True, id="restored a moment ago"),
        pytest.param(2, 2, False, id="it has not learned anything for two minutes"),
        pytest.param(None, 1, False, id="saved since"),
    ],
)
def test_a_restored_history_without_news_is_tried_again_for_a_while(
    until: float | None, now: float, *, awaits: bool
) -> None:
    turn = Turn(NOW, first_save_until=None if until is None else NOW + minutes(until))

    assert awaits_news(turn, NOW + minutes(now)) is awaits


def test_the_young_are_saved_at_once_and_take_nobodys_place() -> None:
    turns = {a_name(number): Turn(NOW - minutes(6), is_saved=True) for number in range(20)}
    young = {a_name(number) for number in range(10, 15)}
    chosen = list_due(turns, NOW, rotation=ROTATION, tick=TICK, young=young)

    assert chosen == [*(a_name(number) for number in range(10, 15)), a_name(0), a_name(1)]


@given(st.integers(1, 60))
def test_f35_those_saved_at_once_come_as_a_trickle_from_then_on(count: int) -> None:
    names = [a_name(number) for number in range(count)]
    turns = {
        name: Turn(since, is_saved=True)
        for name, since in spread_turns(names, NOW, rotation=ROTATION, tick=TICK).items()
    }
    saved_at = dict.fromkeys(names, NOW)
    for tick in range(1, 31):
        now = NOW + minutes(tick)
        chosen = due(turns, tick)
        for name in chosen:
            saved_at[name] = now
            turns[name] = Turn(now, is_saved=True)

        assert len(chosen) <= count / 10 + 2
        assert all(now - moment <= ROTATION for moment in saved_at.values())


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param((Turn(NOW), 0, True), (Turn(NOW), 900, False), id="what was never saved"),
        pytest.param(
            (Turn(NOW, is_saved=True, samples=100), 110, False),
            (Turn(NOW, is_saved=True, samples=200), 205, False),
            id="where most samples are not saved",
        ),
        pytest.param(
            (Turn(NOW, is_saved=True), 5, False),
            (Turn(NOW + minutes(1), is_saved=True), 5, False),
            id="what was saved longer ago",
        ),
    ],
)
def test_what_would_be_lost_most_comes_first(
    better: tuple[Turn, int, bool], worse: tuple[Turn, int, bool]
) -> None:
    known = {a_name(2): better, a_name(1): worse}
    order = list_by_worth(
        {name: turn for name, (turn, _, _) in known.items()},
        {name: samples for name, (_, samples, _) in known.items()},
        {name for name, (_, _, is_young) in known.items() if is_young},
    )

    assert order == [a_name(2), a_name(1)]


def test_whoever_could_not_be_saved_is_not_made_to_wait_for_the_share_of_a_tick() -> None:
    turns = {a_name(number): Turn(NOW - minutes(30), is_saved=True) for number in range(40)}

    assert len(due(turns)) == 40


def test_those_saved_before_are_spread_over_the_rotation() -> None:
    turns = {a_name(number): Turn(NOW - minutes(5), is_saved=True) for number in range(50)}

    assert len(due(turns)) == 5


@pytest.mark.parametrize(
    ("unreadable", "orphans"),
    [
        pytest.param(set(), {"a/gone", "b/gone"}, id="all can be read"),
        pytest.param({AutoscalerName("a", "gone")}, {"b/gone"}, id="one cannot be read"),
        pytest.param({AutoscalerName("a", "")}, {"b/gone"}, id="one hides its name"),
        pytest.param({AutoscalerName("", "")}, set(), id="one hides even its namespace"),
    ],
)
def test_nobody_is_taken_for_deleted_who_may_only_be_unreadable(
    unreadable: set[AutoscalerName], orphans: set[str]
) -> None:
    owners = [AutoscalerName(*text.split("/")) for text in ("a/here", "a/gone", "b/gone")]
    found = find_orphans(owners, {AutoscalerName("a", "here")}, unreadable)

    assert {f"{one.namespace}/{one.name}" for one in found} == orphans


def test_a_tick_longer_than_the_rotation_saves_everybody() -> None:
    turns = {a_name(number): Turn(NOW) for number in range(5)}

    assert len(list_due(turns, NOW, rotation=TICK, tick=timedelta(hours=1))) == 5
