"""How scores are told, what of them got worse, and how costs grow."""

import math
from collections.abc import Sequence

import pytest
from support.makers.scores import CPU, WALL, rounds

from bench import tables
from bench.tables import Growth, Measure, Table, Unit


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        pytest.param([12.4], "**12**", id="one round has no spread"),
        pytest.param([8.0, 12.4, 9.0], "**9** (8 to 12)", id="several have"),
        pytest.param([0.61, 0.6149], "**0.61**", id="a spread that would not show is left out"),
    ],
)
def test_ratios_are_shown_with_their_spread(ratios: Sequence[float], told: str) -> None:
    assert tables.format_ratios(ratios) == told


@pytest.mark.parametrize(
    ("unit", "value", "told"),
    [
        pytest.param(Unit.PER_SECOND, 0.25, "4000/s", id="seconds for a thousand are a rate"),
        pytest.param(Unit.MILLISECONDS, 0.0125, "12.50 ms", id="seconds are told in milliseconds"),
        pytest.param(Unit.BYTES, 208.75, "209 B", id="bytes are whole"),
        pytest.param(Unit.COUNT, 1.5, "1.5", id="few are told with a fraction"),
        pytest.param(Unit.COUNT, 297.4, "297", id="many are told without"),
    ],
)
def test_a_value_is_told_in_its_unit(unit: Unit, value: float, told: str) -> None:
    assert unit.tell(value) == told


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
    found = Table([CPU]).find_regresses(rounds(*now), rounds((1, 10)))

    assert len(list(found)) == regresses


def test_a_regress_says_what_it_is_and_what_it_was() -> None:
    (found,) = Table([CPU]).find_regresses(rounds((1, 5)), rounds((1, 10)))

    assert str(found) == "100, lifted: CPU per tick: 5.00, and it was 10.00"


def test_what_is_not_judged_or_was_not_recorded_is_no_regress() -> None:
    slow, recorded = rounds((1, 1), name="seconds"), rounds((1, 10), name="seconds")

    assert not list(Table([WALL]).find_regresses(slow, recorded))
    assert not list(Table([CPU]).find_regresses(rounds((1, 1), size=7), rounds((1, 10))))


def test_the_table_names_a_measure_once_and_has_a_line_for_each_case() -> None:
    entries = rounds((0.5, 5)) + rounds((2, 40), size=1000)

    assert Table([CPU]).format(entries).splitlines()[2:] == [
        "| CPU per tick | 100 | lifted | 0.50 s | 5.00 s | **10** |",
        "|  | 1000 | lifted | 2.00 s | 40.0 s | **20** |",
    ]


def test_growth_is_told_of_each_measure_and_group_with_several_sizes() -> None:
    entries = (
        rounds((1, 1)) + rounds((10, 100), size=1000) + rounds((1, 1), group="default", size=5)
    )
    (found,) = Table([CPU, WALL]).list_growths(entries)

    assert (found.title, found.group, found.sizes) == ("CPU per tick", "lifted", [100, 1000])
    assert math.isclose(found.ours, 1.0)
    assert found.original is not None
    assert math.isclose(found.original, 2.0)


def test_growth_of_what_is_told_by_shares_is_that_of_the_whole() -> None:
    share = Measure("cpu", "CPU per 100 evictions", Unit.SECONDS, is_share=True)
    (found,) = Table([share]).list_growths(rounds((3, 3)) + rounds((3, 3), size=1000))

    assert math.isclose(found.ours, 1.0)


def test_an_exponent_that_rounds_to_nothing_has_no_sign() -> None:
    told = tables.format_growths([Growth("CPU", "all", [1, 10], -0.001, None)])

    assert told.splitlines()[-1] == "| CPU | all | 1 … 10 | 0.00 |  |"
