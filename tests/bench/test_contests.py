"""Who is measured when, how far a contest is, and how it ends."""

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from types import ModuleType

import pytest
from support.makers.scores import SECTION, rounds

from bench import admission, contests, interrupts, recommender, scoring, stack, updater
from bench.contests import Course, Turn
from bench.recording import Record
from bench.scoring import Side


def a_record(folder: Path) -> Record:
    return Record(SECTION, folder=folder, renew_page=lambda: None)


def a_clock(*moments: float) -> Callable[[], float]:
    waiting: Iterator[float] = chain(moments, repeat(moments[-1]))
    return lambda: next(waiting)


def turns_of(size: int, count: int) -> list[Turn]:
    return [Turn("lifted", size, *each) for each in contests.take_turns(count)]


def test_the_sides_take_turns_and_so_does_who_is_first() -> None:
    assert list(contests.take_turns(2)) == [
        (1, Side.OURS),
        (1, Side.ORIGINAL),
        (2, Side.ORIGINAL),
        (2, Side.OURS),
    ]


@pytest.mark.parametrize("contest", [recommender, updater, admission, stack])
def test_every_contest_has_several_rounds_by_default(contest: ModuleType) -> None:
    assert contest.CONTEST.rounds >= 2


def test_stacks_are_watched_for_ten_minutes_by_default() -> None:
    assert stack.parse_arguments([]).minutes == 10


def test_a_course_says_which_turn_it_is_and_for_how_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # It is asked at the start, before and at the start of each turn, and when a turn is noted.
    course = Course(turns_of(100, 1), a_record(tmp_path), a_clock(0, 0, 0, 60, 60, 60))
    for turn in course:
        course.note(turn, turn.entry({"cpu": 1.0}))
    told = [line for line in capsys.readouterr().err.splitlines() if " of 2: " in line]

    assert told == [
        "bench: 1 of 2: 100 autoscalers, lifted, round 1, Trimtab; 0 s so far",
        (
            "bench: 2 of 2: 100 autoscalers, lifted, round 1, original; "
            "1 min 0 s so far, about 1 min 0 s to go"
        ),
    ]


def test_what_is_left_is_estimated_by_what_the_same_turns_took_before(tmp_path: Path) -> None:
    recorded = [
        scoring.Entry("lifted", size, 1, side, {"cpu": 1.0}, took=took)
        for size, took in ((100, 10.0), (1000, 100.0))
        for side in Side
    ]
    scoring.write_entries(SECTION.path(tmp_path), recorded)
    course = Course([*turns_of(100, 1), *turns_of(1000, 2)], a_record(tmp_path))

    assert course.estimate_seconds(0) == 2 * 10 + 4 * 100
    assert course.estimate_seconds(5) == 100


def test_nothing_is_estimated_where_nothing_is_known(tmp_path: Path) -> None:
    assert Course(turns_of(100, 1), a_record(tmp_path)).estimate_seconds(0) is None


def test_a_course_hands_on_what_was_measured_with_how_long_it_took(tmp_path: Path) -> None:
    record = a_record(tmp_path)
    course = Course(turns_of(100, 1), record, a_clock(0, 0, 0, 7.04))
    for turn in course:
        course.note(turn, turn.entry({"cpu": 1.0}))
    found = scoring.read_entries(SECTION.path(tmp_path))

    assert [entry.side for entry in found] == list(Side)
    assert found[0].took == 7.0


def test_an_interrupted_run_keeps_what_is_complete_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = a_record(tmp_path)

    def measure() -> None:
        record.add(rounds((1, 10), (1, 12))[:3])
        raise KeyboardInterrupt

    code = contests.run(record, measure)

    assert code == interrupts.EXIT_CODE
    assert scoring.read_entries(SECTION.path(tmp_path)) == rounds((1, 10))
    assert "rounds written down: 1 of everything" in capsys.readouterr().err


def test_a_run_that_failed_keeps_what_is_complete_and_fails(tmp_path: Path) -> None:
    record = a_record(tmp_path)

    def measure() -> None:
        record.add(rounds((1, 10)))
        raise TimeoutError

    with pytest.raises(TimeoutError):
        contests.run(record, measure)

    assert scoring.read_entries(SECTION.path(tmp_path)) == rounds((1, 10))
