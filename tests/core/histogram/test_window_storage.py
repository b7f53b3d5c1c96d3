import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.histogram.buckets import Buckets, Ints
from trimtab.core.histogram.window_storage import NARROW_WIDTHS, Arena, room_for

COUNT = 176


def an_arena(rows: int) -> Arena:
    arena = Arena(COUNT)
    arena.grow(rows)
    return arena


def numbers(*given_numbers: int) -> Ints:
    return np.array(given_numbers, np.int64)


def buckets(*given_numbers: int) -> Buckets:
    return np.array(given_numbers, np.uint8)


def contents(arena: Arena, row: int) -> dict[int, float]:
    return {
        int(bucket): float(weight)
        for _, found, weights in arena.contents(numbers(row))
        for bucket, weight in zip(found, weights, strict=True)
    }


def test_a_row_without_a_window_holds_no_bucket() -> None:
    arena = an_arena(2)

    assert arena.outside(numbers(0, 1), buckets(0, 175)).tolist() == [True, True]
    assert list(arena.windows(numbers(0, 1))) == []


def test_a_reserved_window_holds_its_buckets_and_some_on_both_sides() -> None:
    arena = an_arena(1)
    arena.reserve(numbers(0), buckets(40), buckets(44))
    asked = buckets(34, 35, 40, 44, 50, 51)

    assert arena.outside(numbers(*[0] * 6), asked).tolist() == [True, *[False] * 4, True]


def test_windows_never_reach_beyond_the_first_or_the_last_bucket() -> None:
    arena = an_arena(3)
    arena.reserve(numbers(0, 1, 2), buckets(0, 175, 0), buckets(0, 175, 175))
    rows = numbers(0, 1, 2, 2)

    assert arena.outside(rows, buckets(0, 175, 0, 175)).tolist() == [False] * 4
    assert [windows.bases.tolist() for windows in arena.windows(numbers(0, 1, 2))] == [
        [0, 160],
        [0],
    ]


def test_a_row_that_moves_takes_along_what_it_holds() -> None:
    arena = an_arena(2)
    arena.reserve(numbers(0, 1), buckets(10, 10), buckets(12, 12))
    arena.add(numbers(0, 0, 1), buckets(10, 12, 11), np.array([1.0, 2.0, 3.0]))
    arena.reserve(numbers(0), buckets(90), buckets(90))
    arena.add(numbers(0), buckets(90), np.array([4.0]))

    assert contents(arena, 0) == {10: 1.0, 12: 2.0, 90: 4.0}
    assert contents(arena, 1) == {11: 3.0}


def test_a_window_given_out_again_is_empty() -> None:
    arena = an_arena(2)
    arena.reserve(numbers(0), buckets(10), buckets(10))
    arena.add(numbers(0), buckets(10), np.array([1.0]))
    held = arena.bytes_held
    arena.release(numbers(0))
    arena.reserve(numbers(1), buckets(10), buckets(10))

    assert contents(arena, 1) == {}
    assert arena.bytes_held == held


def test_an_arena_that_is_mostly_left_behind_is_closed_up() -> None:
    arena = an_arena(500)
    rows = np.arange(500)
    low = np.full(500, 20, np.uint8)
    arena.reserve(rows, low, low)
    arena.add(rows, low, rows.astype(np.float64) + 1.0)
    held = arena.bytes_held
    arena.release(rows[:400])

    assert arena.bytes_held < held / 2
    assert contents(arena, 450) == {20: 451.0}


def test_taken_windows_are_copies_in_the_order_asked_for() -> None:
    arena = an_arena(3)
    arena.reserve(numbers(0, 2), buckets(10, 60), buckets(10, 90))
    arena.add(numbers(0, 2), buckets(10, 60), np.array([1.0, 2.0]))
    taken = arena.taken(numbers(2, 1, 0, 2))
    arena.add(numbers(0), buckets(10), np.array([5.0]))

    assert [contents(taken, row) for row in range(4)] == [{60: 2.0}, {}, {10: 1.0}, {60: 2.0}]


def test_a_scheme_of_few_buckets_has_no_wider_windows() -> None:
    arena = Arena(11)
    arena.grow(1)
    arena.reserve(numbers(0), buckets(0), buckets(10))

    assert [len(windows.weights) for windows in arena.windows(numbers(0))] == [11]


def test_room_is_made_for_a_quarter_more_than_needed() -> None:
    assert room_for(100) == 125


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=3)),
        max_size=25,
    )
)
def test_rows_hold_what_was_put_there_however_often_they_move(
    steps: list[tuple[int, list[int]]],
) -> None:
    arena, expected = an_arena(5), [dict[int, float]() for _ in range(5)]
    for number, (row, wanted) in enumerate(steps):
        if number % 7 == 6:
            arena.release(numbers(row))
            expected[row] = {}
        arena.reserve(numbers(row), buckets(min(wanted)), buckets(max(wanted)))
        for bucket in set(wanted):
            arena.put(numbers(row), buckets(bucket), np.array([number + 1.0]))
            expected[row][bucket] = number + 1.0

    assert [contents(arena, row) for row in range(5)] == expected
    for windows in arena.windows(np.arange(5)):
        assert len(windows.weights) in (*NARROW_WIDTHS, COUNT)
