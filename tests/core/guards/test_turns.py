"""Turns of namespaces at a limited rate (D26)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.guards.turns import take_turns


def first_letter(name: str) -> str:
    return name[0]


@pytest.mark.parametrize(
    ("items", "last_turns", "expected"),
    [
        pytest.param("a1 a2 a3", {}, "a1 a2 a3", id="one namespace keeps its order"),
        pytest.param("a1 a2 a3 b1", {}, "a1 b1 a2 a3", id="the less urgent one is second"),
        pytest.param("a1 a2 b1", {"a": 1}, "b1 a1 a2", id="a namespace that had a turn is behind"),
        pytest.param(
            "a1 b1 c1", {"a": 3, "b": 2, "c": 1}, "c1 b1 a1", id="the longest wait comes first"
        ),
        pytest.param("n1 a1 b1", {"a": 3, "b": 1}, "b1 n1 a1", id="a new one comes behind others"),
        pytest.param("b1 a1 b2 a2", {}, "b1 a1 b2 a2", id="rounds go on in the same order"),
        pytest.param("", {"a": 1}, "", id="nothing waits"),
    ],
)
def test_namespaces_take_turns(items: str, last_turns: dict[str, int], expected: str) -> None:
    assert take_turns(items.split(), first_letter, last_turns) == expected.split()


LETTERS = st.sampled_from("abcde")


@given(st.lists(LETTERS), st.dictionaries(LETTERS, st.integers(1, 5)))
def test_of_n_namespaces_each_acts_within_n_turns(
    letters: list[str], last_turns: dict[str, int]
) -> None:
    items = [f"{letter}{number}" for number, letter in enumerate(letters)]
    order = take_turns(items, first_letter, last_turns)
    of_namespace = {
        letter: [place for place, each in enumerate(order) if each[0] == letter]
        for letter in set(letters)
    }

    assert sorted(order) == sorted(items)
    for places in of_namespace.values():
        assert places[0] < len(of_namespace)
        assert all(later - before <= len(of_namespace) for before, later in pairwise(places))


@given(st.lists(LETTERS), st.dictionaries(LETTERS, st.integers(1, 5)))
def test_each_namespace_keeps_its_order(letters: list[str], last_turns: dict[str, int]) -> None:
    items = [(letter, number) for number, letter in enumerate(letters)]
    order = take_turns(items, lambda each: each[0], last_turns)

    for letter in set(letters):
        numbers = [number for name, number in order if name == letter]
        assert numbers == sorted(numbers)
