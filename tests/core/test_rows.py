import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.rows import Rows

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
