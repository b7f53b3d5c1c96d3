"""What was set out to be reached, what was measured of it, and every line that is not won yet."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench import scoring, tables
from bench.admission_tables import GOVERNED, STRANGE
from bench.findings import Findings
from bench.scoring import Case, Entry
from bench.sections import Section
from bench.stack_tables import IDLE
from bench.tables import Growth, Line
from bench.updater_tables import Task

STEEPEST: Final = 1.05
"""No cost may grow by a larger exponent."""
FLAT: Final = 0.05
"""What grows by no larger exponent is flat: an eighth more for ten times as many."""
FASTER: Final = 10
IDLE_MINUTES: Final = 10
NOT_MEASURED: Final = "not measured"
_GOALS: Final = """
## Goals

| Goal | Measured | Met |
|---|---|---|
"""
_NOT_WON: Final = """
## Lines not won yet

Of {all} lines with a ratio Trimtab is ahead on {won}, {even} are even, and on these {lost} the
original needs less. Each ratio stands with its size; the section behind the link says what bounds
it under that head.

| | Conditions | original ÷ Trimtab | What bounds it |
|---|---|---|---|
"""
_STEEP: Final = f"""
## Costs of ours that grow too fast

Those with an exponent above {STEEPEST}: 1 is linear.

"""


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to be reached."""

    text: str
    measured: str
    is_met: bool


def tell(findings: Findings) -> Iterator[str]:
    """The goals and the lines that are not won, as Markdown."""
    yield _GOALS
    for goal in list_goals(findings):
        yield f"| {goal.text} | {goal.measured} | {'yes' if goal.is_met else '**no**'} |\n"
    yield from tell_of_lines(list(findings.list_lines()))
    yield from tell_of_growths(findings.list_growths())


def list_goals(findings: Findings) -> Iterator[Goal]:
    """All goals, in the order in which they were set."""
    recommender, stack = findings.entries["recommender"], findings.entries["stack"]
    at_most = "Recommender at 3 000 autoscalers: at most"
    large = ("lifted", 3000)
    yield _plan_to_win(list(findings.list_lines()))
    yield _ask_for(f"{at_most} 1/5 of the CPU per tick", recommender, large, "settled_cpu", 5)
    yield _ask_for(f"{at_most} 1/2 of the resident memory", recommender, large, "resident", 2)
    yield _keep_flat(findings.list_growths())
    yield from _hurry(findings.entries["updater"])
    yield _rest(stack)
    yield _stay_linear(list(findings.list_growths()))


def is_won(line: Line) -> bool:
    """Whether ours needs less, by more than is told of a ratio."""
    return _as_told(line) > 1


def is_lost(line: Line) -> bool:
    """Whether the original needs less, by more than is told of a ratio."""
    return _as_told(line) < 1


def _as_told(line: Line) -> float:
    return float(tables.format_ratio(line.score.ratio))


def _plan_to_win(lines: Sequence[tuple[Section, Line]]) -> Goal:
    won = sum(is_won(line) for _, line in lines)
    text = "Ahead of the original on every line"
    return Goal(text, f"on {won} of {len(lines)}", won == len(lines))


def _ask_for(text: str, entries: Sequence[Entry], case: Case, name: str, least: float) -> Goal:
    """A goal that is met if the original needs so many times more."""
    if case not in scoring.list_cases(entries, name):
        return Goal(text, NOT_MEASURED, is_met=False)
    found = scoring.score(entries, case, name)
    told = f"the original needs {tables.format_ratios(found.ratios)} times as much"
    return Goal(text, told, found.ratio >= least)


def _keep_flat(growths: Iterable[tuple[str, Growth]]) -> Goal:
    text = f"Webhook: CPU per request flat in the number of autoscalers (exponent up to {FLAT})"
    slopes = {
        each.group: each.ours
        for _, each in growths
        if each.group in (GOVERNED, STRANGE) and each.title.startswith("CPU")
    }
    told = ", ".join(f"{tables.format_exponent(each)} ({group})" for group, each in slopes.items())
    return Goal(text, told or NOT_MEASURED, bool(slopes) and max(slopes.values()) <= FLAT)


def _hurry(entries: Sequence[Entry]) -> Iterator[Goal]:
    """The goal for the updater: where nothing holds it back, and where its own limits do."""
    lifted = [case for case in scoring.list_cases(entries, "seconds") if case[0] == Task.ALL]
    found = {size: scoring.score(entries, (group, size), "seconds") for group, size in lifted}
    told = ", ".join(
        f"{tables.format_ratios(each.ratios)} times at {size}" for size, each in found.items()
    )
    is_met = bool(found) and all(each.ratio >= FASTER for each in found.values())
    text = f"Updater: {FASTER} times as fast from the first eviction to the last"
    yield Goal(f"{text}, limits lifted", told or NOT_MEASURED, is_met)
    yield _hurry_by_default(entries, f"{text}, within the default limits of both")


def _hurry_by_default(entries: Sequence[Entry], text: str) -> Goal:
    name = "in_first_minute"
    cases = [case for case in scoring.list_cases(entries, name) if case[0] == Task.ALL_BY_DEFAULT]
    found = {case[1]: scoring.score(entries, case, name) for case in cases}
    told = ", ".join(
        f"{each.ours:.0f} in a minute against {each.original:.0f} at {size}"
        for size, each in found.items()
    )
    is_met = bool(found) and all(each.ours >= FASTER * each.original for each in found.values())
    choice = "" if is_met else ": ours holds back by choice"
    return Goal(text, f"{told}{choice}" if found else NOT_MEASURED, is_met)


def _rest(entries: Sequence[Entry]) -> Goal:
    text = f"Whole stack, idle for {IDLE_MINUTES} minutes at 1 000: at most 1/3 of the CPU"
    goal = _ask_for(text, entries, (IDLE, 1000), "cpu", 3)
    watched = min((entry.values["minutes"] for entry in entries), default=0)
    if watched >= IDLE_MINUTES:
        return goal
    return replace(goal, measured=f"{goal.measured}, for {watched:g} minutes only", is_met=False)


def _stay_linear(growths: Sequence[tuple[str, Growth]]) -> Goal:
    steep = sum(is_steep(growth) for _, growth in growths)
    text = f"No cost of ours grows by an exponent above {STEEPEST}"
    return Goal(text, f"{steep} of {len(growths)} do", steep == 0)


def is_steep(growth: Growth) -> bool:
    """Whether a cost of ours grows faster than any may."""
    return round(growth.ours, 2) > STEEPEST


def tell_of_growths(growths: Iterable[tuple[str, Growth]]) -> Iterator[str]:
    """Every cost of ours that grows too fast."""
    steep = [
        replace(growth, title=f"{title}: {growth.title}")
        for title, growth in growths
        if is_steep(growth)
    ]
    if steep:
        yield _STEEP + tables.format_growths(steep)


def tell_of_lines(lines: Sequence[tuple[Section, Line]]) -> Iterator[str]:
    """Every line on which the original needs less, with where it is told what bounds it."""
    lost = [(section, line) for section, line in lines if is_lost(line)]
    won = sum(is_won(line) for _, line in lines)
    even = len(lines) - won - len(lost)
    yield _NOT_WON.format(all=len(lines), won=won, even=even, lost=len(lost))
    # One measure of all sizes in one line: so it is seen where ours catches up.
    rows: dict[tuple[str, str, str], list[str]] = {}
    for section, line in lost:
        group, size = line.case
        title = f"{section.title}: {line.measure.title}"
        bound = f"[{line.measure.bound or section.title}]({section.link})"
        told = f"{tables.format_ratios(line.score.ratios)} at {size}"
        rows.setdefault((title, group, bound), []).append(told)
    for (title, group, bound), ratios in rows.items():
        yield f"| {title} | {group} | {', '.join(ratios)} | {bound} |\n"
