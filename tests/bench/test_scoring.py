"""Ratios within rounds, exponents over sizes, and how both are written down."""

import math
from pathlib import Path

import pytest
from support.makers.scores import rounds

from bench import scoring
from bench.scoring import Score, Side


def test_ratios_are_taken_within_rounds_and_told_by_their_median() -> None:
    found = scoring.score(rounds((1, 10), (2, 40), (1, 30)), ("lifted", 100), "cpu")

    assert found == Score(1, 30, [10, 20, 30])
    assert found.ratio == 20


def test_a_round_of_which_only_one_side_is_there_has_no_ratio() -> None:
    entries = rounds((1, 10), (1, 20))[:-1]

    assert scoring.score(entries, ("lifted", 100), "cpu").ratios == [10]


def test_only_rounds_of_both_sides_are_complete() -> None:
    first, second = rounds((1, 10)), rounds((1, 10), (1, 20))[2:]

    assert scoring.list_complete([*first, second[0]]) == first
    assert scoring.list_complete([*first, *second]) == [*first, *second]


@pytest.mark.parametrize(
    "power", [pytest.param(1.0, id="linear"), pytest.param(2.0, id="quadratic")]
)
def test_growth_is_the_exponent_of_a_cost(power: float) -> None:
    entries = [
        entry
        for size in (100, 1000, 3000)
        for entry in rounds((size**power, 5 * size**power), size=size)
    ]

    for side in Side:
        assert math.isclose(scoring.growth(entries, "lifted", side, "cpu"), power)


def test_growth_is_taken_over_the_sizes_that_have_the_measure() -> None:
    entries = rounds((1, 1), size=10) + rounds((10, 10), size=100)
    other = rounds((7, 7), size=1000, name="seconds")

    assert math.isclose(scoring.growth(entries + other, "lifted", Side.OURS, "cpu"), 1.0)


def test_entries_survive_being_written_and_read(tmp_path: Path) -> None:
    entries = rounds((1, 10), (2, 20))
    scoring.write_entries(tmp_path / "it.json", entries)

    assert scoring.read_entries(tmp_path / "it.json") == entries
    assert [path.name for path in tmp_path.iterdir()] == ["it.json"]
    assert scoring.read_entries(tmp_path / "missing.json") == []


def test_cases_that_are_measured_anew_replace_only_themselves() -> None:
    recorded = rounds((1, 10)) + rounds((2, 40), size=1000)
    renewed = scoring.renew(recorded, rounds((1, 20), (1, 30)))

    assert renewed == rounds((1, 20), (1, 30)) + rounds((2, 40), size=1000)
