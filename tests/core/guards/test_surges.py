from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import hours, minutes

from trimtab.core.guards.rate_limit import USUAL_HALF_LIFE, Wishes, find_surging, remember_share

SHARES = st.floats(0, 1)


def test_the_first_share_is_the_usual_one() -> None:
    assert remember_share(None, 0.4, passed=timedelta()) == 0.4


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        pytest.param(timedelta(), 0.2, id="no time"),
        pytest.param(USUAL_HALF_LIFE, 0.5, id="a half-life"),
        pytest.param(timedelta(days=30), 0.8, id="a month"),
        pytest.param(-hours(1), 0.2, id="a clock that was set back"),
    ],
)
def test_what_is_seen_becomes_usual_with_time(passed: timedelta, expected: float) -> None:
    assert remember_share(0.2, 0.8, passed=passed) == pytest.approx(expected)


def test_a_surge_stands_out_for_more_than_an_hour() -> None:
    usual = 0.1
    for _ in range(60):
        usual = remember_share(usual, 0.9, passed=minutes(1))

    assert 0.9 - usual > 0.3


@given(usual=SHARES, share=SHARES, passed=st.integers(0, 10_000).map(minutes))
def test_what_is_usual_stays_between_what_was_and_what_is(
    usual: float, share: float, passed: timedelta
) -> None:
    found = remember_share(usual, share, passed=passed)

    assert min(usual, share) - 1e-12 <= found <= max(usual, share) + 1e-12


def surging(
    wishes: dict[str, tuple[int, int]], usual: float = 0.1, unknown: str = ""
) -> frozenset[str]:
    """The namespaces in a surge, given how many pods of how many want a change."""
    found = {name: Wishes(*counts) for name, counts in wishes.items()}
    known = {name: usual for name in wishes if name != unknown}
    return find_surging(found, known, margin=0.3, min_pods=50)


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        pytest.param({}, set(), id="nobody"),
        pytest.param({"a": (50, 50)}, {"a"}, id="one namespace"),
        pytest.param({"a": (49, 49)}, set(), id="too few pods to tell"),
        pytest.param({"a": (500, 500), "b": (10, 60)}, {"a"}, id="one of two"),
        pytest.param({"a": (900, 900), "b": (1, 10), "c": (3, 40)}, {"a"}, id="beside small ones"),
        pytest.param({"a": (49, 49), "b": (5, 40), "c": (5, 40)}, set(), id="one of the small"),
        pytest.param(
            {"a": (40, 40), "b": (40, 40), "c": (40, 40), "d": (6, 60)},
            {"a", "b", "c"},
            id="all of the small",
        ),
        pytest.param({"a": (39, 100)}, set(), id="just inside the margin"),
    ],
)
def test_a_surge_is_judged_per_namespace(
    wishes: dict[str, tuple[int, int]], expected: set[str]
) -> None:
    assert surging(wishes) == expected


def test_a_namespace_of_which_nothing_is_usual_yet_is_in_no_surge() -> None:
    assert surging({"a": (50, 50), "b": (50, 50)}, unknown="a") == {"b"}


@given(
    own=st.tuples(st.integers(0, 200), st.integers(0, 200)).filter(lambda each: each[0] <= each[1]),
    others=st.lists(st.tuples(st.integers(0, 9), st.integers(90, 200)), max_size=5),
)
def test_no_namespace_can_hold_back_others_that_are_as_usual(
    own: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    calm = {f"calm-{number}": counts for number, counts in enumerate(others)}

    assert surging({"tenant": own, **calm}) <= {"tenant"}


@given(
    own=st.tuples(st.integers(0, 200), st.integers(0, 200)).filter(lambda each: each[0] <= each[1]),
    others=st.lists(st.tuples(st.integers(0, 4), st.integers(40, 49)), max_size=5),
)
def test_no_namespace_can_hold_back_small_ones_that_are_as_usual(
    own: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    calm = {f"calm-{number}": counts for number, counts in enumerate(others)}

    assert surging({"tenant": own, **calm}) <= {"tenant"}
