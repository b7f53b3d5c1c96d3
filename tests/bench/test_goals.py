"""What was set out to be reached, and every line that is not won yet."""

from collections.abc import Mapping, Sequence

import pytest
from support.makers.scores import SECTION, rounds

from bench import goals
from bench.admission_tables import GOVERNED
from bench.findings import SECTIONS, Findings
from bench.goals import Goal
from bench.scoring import Entry, Side
from bench.stack_tables import IDLE
from bench.updater_tables import Task

LARGE = ("lifted", 3000)


def both(case: tuple[str, int], ours: Mapping[str, float], factor: float) -> list[Entry]:
    """Both sides, of which the original needs so many times more."""
    group, size = case
    theirs = {name: factor * value for name, value in ours.items()}
    return [Entry(group, size, 1, Side.OURS, ours), Entry(group, size, 1, Side.ORIGINAL, theirs)]


def goals_of(planning: Sequence[float] = (), **entries: Sequence[Entry]) -> list[Goal]:
    lines = [
        {"what": "plan", "to_be_changed": "all", "autoscalers": 10**n, "costs": {"first": cost}}
        for n, cost in enumerate(planning, start=2)
    ]
    known = {section.name: entries.get(section.name, []) for section in SECTIONS}
    return list(goals.list_goals(Findings(known, {"lines": lines}, {"runs": []}, {})))


def the(found: Sequence[Goal], words: str) -> Goal:
    """The goal with these words."""
    (goal,) = [each for each in found if words in each.text]
    return goal


@pytest.mark.parametrize(
    ("factor", "is_met"),
    [
        pytest.param(5.0, True, id="a fifth is enough"),
        pytest.param(4.9, False, id="more than a fifth is not"),
    ],
)
def test_the_recommender_has_to_need_a_fifth_of_the_cpu(factor: float, *, is_met: bool) -> None:
    found = goals_of(recommender=both(LARGE, {"settled_cpu": 1.0}, factor))

    assert the(found, "1/5 of the CPU") == Goal(
        "Recommender at 3 000 autoscalers: at most 1/5 of the CPU per tick",
        f"the original needs **{factor:.2g}** times as much",
        is_met,
    )


def test_what_was_not_measured_is_not_met() -> None:
    unmet = [goal for goal in goals_of() if goal.measured.startswith(goals.NOT_MEASURED)]

    assert len(unmet) == 6
    assert not any(goal.is_met for goal in unmet)


@pytest.mark.parametrize(
    ("minutes", "is_met"),
    [
        pytest.param(10.0, True, id="ten minutes are what was asked for"),
        pytest.param(3.0, False, id="three minutes are not"),
    ],
)
def test_an_idle_stack_has_to_be_watched_for_ten_minutes(minutes: float, *, is_met: bool) -> None:
    stack = [
        Entry(IDLE, 1000, 1, side, {"cpu": cpu, "minutes": minutes})
        for side, cpu in zip(Side, (1.0, 4.0), strict=True)
    ]

    assert the(goals_of(stack=stack), "idle for 10 minutes").is_met == is_met


def test_the_updater_has_to_be_faster_at_every_size() -> None:
    entries = both((Task.ALL, 100), {"seconds": 4.0}, 3) + both(
        (Task.ALL, 1000), {"seconds": 8.0}, 12
    )
    found = the(goals_of(updater=entries), "limits lifted")

    assert (found.measured, found.is_met) == ("**3** times at 100, **12** times at 1000", False)


def test_where_the_updater_holds_back_by_choice_that_is_told() -> None:
    pace = both((Task.ALL_BY_DEFAULT, 100), {"in_first_minute": 7.0}, 10)
    found = the(goals_of(updater=pace), "default limits of both")

    assert found.measured == "7 in a minute against 70 at 100: ours holds back by choice"
    assert not found.is_met


@pytest.mark.parametrize(
    ("costs", "is_met"),
    [
        pytest.param((0.1, 0.1), True, id="the same at all sizes"),
        pytest.param((0.1, 0.15), False, id="half as much again for ten times as many"),
    ],
)
def test_a_webhook_has_to_be_flat(costs: tuple[float, float], *, is_met: bool) -> None:
    entries = [
        entry
        for size, cost in zip((1, 10), costs, strict=True)
        for entry in both((GOVERNED, size), {"cpu": cost}, 2)
    ]

    assert the(goals_of(admission=entries), "Webhook").is_met == is_met


@pytest.mark.parametrize(
    ("costs", "is_met"),
    [
        pytest.param((1.0, 10.0), True, id="linear is fine"),
        pytest.param((1.0, 20.0), False, id="steeper is not"),
    ],
)
def test_no_cost_may_grow_faster_than_linearly(costs: tuple[float, float], *, is_met: bool) -> None:
    found = the(goals_of(planning=costs), "No cost of ours")

    assert found.is_met == is_met


def test_steep_costs_are_listed_with_their_section() -> None:
    entries = rounds((1, 1)) + rounds((200, 10), size=1000)
    told = "".join(goals.tell_of_growths(("Made up", one) for one in SECTION.list_growths(entries)))

    assert told.splitlines()[-1] == "| Made up: CPU per tick | lifted | 100 … 1000 | 2.30 | 1.00 |"
    assert not list(goals.tell_of_growths([]))


def test_lines_that_are_not_won_are_listed_with_what_bounds_them() -> None:
    entries = (
        rounds((2, 1), (4, 1))
        + rounds((4, 3), size=200)
        + rounds((1, 1), size=300)
        + rounds((1, 2), size=400)
    )
    lines = [(SECTION, line) for line in SECTION.list_lines(entries)]
    told = "".join(goals.tell_of_lines(lines))

    assert "Of 4 lines with a ratio Trimtab is ahead on 1, 1 are even, and on these 2" in told
    assert told.splitlines()[-1] == (
        "| Made up: CPU per tick | lifted | **0.38** (0.25 to 0.5) at 100, **0.75** at 200 "
        "| [Imports](#made-up) |"
    )


@pytest.mark.parametrize(
    ("ours", "told"),
    [
        pytest.param(1000, "ahead on 0, 1 are even", id="the same"),
        pytest.param(1004, "ahead on 0, 1 are even", id="a little more"),
        pytest.param(996, "ahead on 0, 1 are even", id="a little less"),
        pytest.param(1010, "ahead on 0, 0 are even", id="a hundredth more"),
        pytest.param(990, "ahead on 0, 1 are even", id="a hundredth less, told as 1"),
        pytest.param(940, "ahead on 1, 0 are even", id="less by more than a twentieth"),
    ],
)
def test_what_differs_by_less_than_is_told_is_even(ours: float, told: str) -> None:
    lines = [(SECTION, line) for line in SECTION.list_lines(rounds((ours, 1000)))]

    assert told in "".join(goals.tell_of_lines(lines))
