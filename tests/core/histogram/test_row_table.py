import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.histogram.row_table import Rows, fold_in, list_distinct

BLANK = np.array((7, -1.5), dtype=[("count", np.int64), ("time", np.float64)])


def test_rows_start_blank_and_keep_what_is_written() -> None:
    rows = Rows(BLANK)
    numbers = [rows.allocate() for _ in range(200)]
    rows.data["count"][numbers] = numbers

    assert rows.data["count"][numbers].tolist() == numbers
    assert set(rows.data["time"][numbers].tolist()) == {-1.5}


def test_a_released_row_is_blank_when_it_is_used_again() -> None:
    rows = Rows(BLANK)
    row = rows.allocate()
    rows.data["count"][row] = 99
    rows.release(row)

    assert rows.allocate() == row
    assert rows.data["count"][row] == 7


@given(st.lists(st.booleans(), max_size=300))
def test_no_row_is_given_out_twice_and_none_is_lost(steps: list[bool]) -> None:
    rows, used = Rows(BLANK), list[int]()
    for allocates in steps:
        if allocates or not used:
            used.append(rows.allocate())
        else:
            rows.release(used.pop(len(used) // 2))

    assert len(used) == len(set(used)) == len(rows)


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(0, 39), st.floats(-9, 9)), max_size=60),
    st.sampled_from([np.minimum, np.maximum, np.add]),
)
def test_values_of_one_row_are_folded_into_it_in_their_order(
    size: int, given_values: list[tuple[int, float]], fold: np.ufunc
) -> None:
    pairs = [(row % size, value) for row, value in given_values]
    column = np.full(size, BLANK)["time"]
    expected = [-1.5] * size
    for row, value in pairs:
        expected[row] = float(fold(expected[row], value))
    rows, values = (np.array([pair[part] for pair in pairs]) for part in (0, 1))
    fold_in(fold, column, rows.astype(np.int64), values.astype(np.float64))

    assert column.tolist() == expected


@given(st.lists(st.integers(min_value=-3, max_value=3)))
def test_distinct_values_are_told_in_order(values: list[int]) -> None:
    assert list_distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
