"""How scores are told: measures with their units, and the tables of them in Markdown.

A table also knows what of it got worse than what was recorded, what is not won, and how its costs
grow; what is made of that is the business of `recording` and `goals`.
"""

import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bench import scoring
from bench.scoring import Case, Entry, Score, Side

TOLERANCE: Final = 0.1
"""A ratio may be so much worse than the recorded one before that is a regress."""
_MIB: Final = 1024 * 1024
_MANY: Final = 10


class Unit(StrEnum):
    """In what a measure is told."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    """Measured in seconds, and told as milliseconds."""
    PER_SECOND = "/s"
    """Measured in seconds for a thousand, and told as so many a second."""
    MEBIBYTES = "MiB"
    BYTES = "B"
    COUNT = ""
    SHARE = "%"

    def tell(self, value: float) -> str:
        """A value as it stands in a table."""
        match self:
            case Unit.MEBIBYTES:
                told = f"{value / _MIB:.0f} MiB"
            case Unit.BYTES:
                told = f"{value:.0f} B"
            case Unit.COUNT:
                told = f"{value:.0f}" if value >= _MANY else f"{value:.2g}"
            case Unit.SHARE:
                told = f"{value:.0%}"
            case Unit.PER_SECOND:
                told = f"{1000 / value:.0f}/s"
            case Unit.MILLISECONDS:
                told = f"{value * 1000:.2f} ms"
            case Unit.SECONDS:
                told = f"{value:.1f} s" if value >= _MANY else f"{value:.2f} s"
        return told


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is measured of both sides; of what is measured less is better."""

    name: str
    title: str
    unit: Unit
    is_judged: bool = True
    """Whether a regress fails; what a busy machine makes longer does not."""
    is_share: bool = False
    """Whether it is told of a part that stays the same, while the whole grows with the size."""
    bound: str = ""
    """Under which head its section says what bounds it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table: one measure of one case."""

    measure: Measure
    case: Case
    score: Score


@dataclass(frozen=True, slots=True)
class Growth:
    """How a cost grows with the size, of each side: 1 is linear, 2 is quadratic."""

    title: str
    group: str
    sizes: Sequence[int]
    ours: float
    original: float | None
    """None of what only we do."""


@dataclass(frozen=True, slots=True)
class Regress:
    """A ratio that is clearly worse than the recorded one."""

    case: Case
    title: str
    now: float
    before: float

    def __str__(self) -> str:
        """In one line."""
        group, size = self.case
        return f"{size}, {group}: {self.title}: {self.now:.2f}, and it was {self.before:.2f}"


@dataclass(frozen=True, slots=True)
class Table:
    """Measures that are told together, each of the cases that have it."""

    measures: Sequence[Measure]
    conditions: str = "Limits"
    """What the groups of its entries differ by."""
    groups: Collection[str] = ()
    """Whose entries these are; those of all groups if none is named."""
    has_ratios: bool = True
    """Whether ratios mean anything: not of what may be none, nor where more is better."""
    sized_by: str = "Autoscalers"

    def format(self, entries: Iterable[Entry]) -> str:
        """As Markdown: for each measure and case both sides, and the ratio with its spread."""
        head = f"| | {self.sized_by} | {self.conditions} | Trimtab | original |"
        rule = "|---|--:|---|--:|--:|"
        if self.has_ratios:
            head, rule = head + " original ÷ Trimtab |", rule + "--:|"
        told, title = [head, rule], ""
        for line in self.list_lines(entries):
            shown = "" if line.measure.title == title else line.measure.title
            title = line.measure.title
            told.append(f"| {shown} | {self._format_line(line)} |")
        return "\n".join(told) + "\n"

    def list_lines(self, entries: Iterable[Entry]) -> Iterator[Line]:
        """All lines of what was measured."""
        own = self._own(entries)
        for measure in self.measures:
            for case in scoring.list_cases(own, measure.name):
                yield Line(measure, case, scoring.score(own, case, measure.name))

    def find_regresses(
        self, entries: Iterable[Entry], recorded: Sequence[Entry]
    ) -> Iterator[Regress]:
        """What is clearly worse than what was recorded: even its best round is."""
        for line in self.list_lines(entries) if self.has_ratios else ():
            measure = line.measure
            known = scoring.list_cases(recorded, measure.name) if measure.is_judged else ()
            if line.case in known:
                before = scoring.score(recorded, line.case, measure.name).ratio
                best = max(line.score.ratios)
                if best < before * (1 - TOLERANCE):
                    yield Regress(line.case, measure.title, best, before)

    def list_growths(self, entries: Iterable[Entry]) -> Iterator[Growth]:
        """How each cost grows, in the groups that were measured at more than one size."""
        own = self._own(entries)
        for measure in self.measures if self.has_ratios else ():
            cases = scoring.list_cases(own, measure.name)
            for group in dict.fromkeys(group for group, _ in cases):
                sizes = sorted(size for name, size in cases if name == group)
                if len(sizes) > 1:
                    slopes = [scoring.growth(own, group, side, measure.name) for side in Side]
                    ours, original = (slope + measure.is_share for slope in slopes)
                    yield Growth(measure.title, group, sizes, ours, original)

    def _format_line(self, line: Line) -> str:
        group, size = line.case
        values = (line.score.ours, line.score.original)
        told = [str(size), group, *map(line.measure.unit.tell, values)]
        return " | ".join([*told, *([format_ratios(line.score.ratios)] if self.has_ratios else ())])

    def _own(self, entries: Iterable[Entry]) -> list[Entry]:
        return [entry for entry in entries if not self.groups or entry.group in self.groups]


def format_growths(growths: Iterable[Growth]) -> str:
    """A Markdown table of exponents."""
    lines = ["| | Conditions | From … to | Trimtab | original |", "|---|---|--:|--:|--:|"]
    for each in growths:
        span = f"{each.sizes[0]} … {each.sizes[-1]}"
        original = "" if each.original is None else format_exponent(each.original)
        ours = format_exponent(each.ours)
        lines.append(f"| {each.title} | {each.group} | {span} | {ours} | {original} |")
    return "\n".join(lines) + "\n"


def format_exponent(slope: float) -> str:
    """An exponent, without the sign of a zero."""
    return f"{round(slope, 2) + 0.0:.2f}"


def format_ratios(ratios: Sequence[float]) -> str:
    """The median, and the least and the most where they are not the same."""
    texts = [format_ratio(number) for number in (min(ratios), max(ratios))]
    spread = "" if texts[0] == texts[1] else f" ({texts[0]} to {texts[1]})"
    return f"**{format_ratio(statistics.median(ratios))}**{spread}"


def format_ratio(ratio: float) -> str:
    """A ratio as far as it means anything."""
    return f"{ratio:.0f}" if ratio >= _MANY else f"{ratio:.2g}"
