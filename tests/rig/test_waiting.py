"""Waiting: as short as possible, and never for ever."""

from itertools import count

import pytest

from rig import waiting
from rig.waiting import WaitError


def test_what_is_as_wanted_already_is_read_once() -> None:
    numbers = count()

    assert waiting.wait_for(lambda: next(numbers), lambda number: number == 0) == 0
    assert next(numbers) == 1


def test_it_is_read_again_until_it_is_as_wanted() -> None:
    numbers = count()
    found = waiting.wait_for(lambda: next(numbers), lambda number: number == 7, poll_seconds=0)

    assert found == 7


def test_what_never_comes_is_shown_as_it_stood_at_the_end() -> None:
    with pytest.raises(WaitError, match=r"not as wanted after 0 s: \['pending'\]"):
        waiting.wait_for(lambda: ["pending"], lambda _: False, patience_seconds=0)
