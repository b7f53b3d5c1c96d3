import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import scoring
from bench.scoring import Entry, Measure, Score, Side, Unit

CPU = Measure("cpu", "CPU per tick", Unit.SECONDS)
WALL = Measure("seconds", "A tick lasts", Unit.SECONDS, is_judged=False)


def rounds(
    *pairs: tuple[float, float], size: int = 100, group: str = "lifted", name: str = "cpu"
) -> list[Entry]:
    """Ours and the original's in each round."""
    return [
        Entry(group, size, number, side, {name: value})
        for number, pair in enumerate(pairs, start=1)
        for side, value in zip(Side, pair, strict=True)
    ]


def test_ratios_are_taken_within_rounds_and_told_by_their_median() -> None:
    found = scoring.score(rounds((1, 10), (2, 40), (1, 30)), ("lifted", 100), "cpu")

    assert found == Score(1, 30, [10, 20, 30])
    assert found.ratio == 20


def test_a_round_of_which_only_one_side_is_there_has_no_ratio() -> None:
    entries = rounds((1, 10), (1, 20))[:-1]

    assert scoring.score(entries, ("lifted", 100), "cpu").ratios == [10]


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        pytest.param([12.4], "**12**", id="one round has no spread"),
        pytest.param([8.0, 12.4, 9.0], "**9** (8 to 12)", id="several have"),
        pytest.param([0.61, 0.6149], "**0.61**", id="a spread that would not show is left out"),
    ],
)
def test_ratios_are_shown_with_their_spread(ratios: Sequence[float], told: str) -> None:
    assert scoring.format_ratios(ratios) == told


@pytest.mark.parametrize(
    ("now", "regresses"),
    [
        pytest.param([(1, 9.1)], 0, id="within the tolerance"),
        pytest.param([(1, 8.9)], 1, id="beyond it"),
        pytest.param([(1, 8.0), (1, 9.5)], 0, id="one good round shows that it can be done"),
        pytest.param([(1, 30.0)], 0, id="better is fine"),
    ],
)
def test_a_ratio_that_is_a_tenth_worse_in_every_round_is_a_regress(
    now: list[tuple[float, float]], regresses: int
) -> None:
    recorded = rounds((1, 10))

    assert len(list(scoring.find_regresses(rounds(*now), recorded, [CPU]))) == regresses


def test_what_is_not_judged_or_was_not_recorded_is_no_regress() -> None:
    slow = rounds((1, 1), name="seconds")
    recorded = rounds((1, 10), name="seconds")

    assert not list(scoring.find_regresses(slow, recorded, [WALL]))
    assert not list(scoring.find_regresses(rounds((1, 1), size=7), rounds((1, 10)), [CPU]))


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


def test_entries_survive_being_written_and_read(tmp_path: Path) -> None:
    entries = rounds((1, 10), (2, 20))
    scoring.write_entries(tmp_path / "it.json", entries, {"cores": 2})

    assert scoring.read_entries(tmp_path / "it.json") == entries
    assert scoring.read_entries(tmp_path / "missing.json") == []


def test_the_table_names_a_measure_once_and_has_a_line_for_each_case() -> None:
    entries = rounds((0.5, 5)) + rounds((2, 40), size=1000)

    assert scoring.format_table(entries, [CPU]).splitlines()[2:] == [
        "| CPU per tick | 100 | lifted | 0.50 s | 5.00 s | **10** |",
        "|  | 1000 | lifted | 2.00 s | 40.0 s | **20** |",
    ]


def test_cases_that_are_measured_anew_replace_only_themselves() -> None:
    recorded = rounds((1, 10)) + rounds((2, 40), size=1000)
    renewed = scoring.renew(recorded, rounds((1, 20), (1, 30)))

    assert renewed == rounds((1, 20), (1, 30)) + rounds((2, 40), size=1000)
