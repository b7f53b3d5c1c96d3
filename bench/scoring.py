"""Scores: what was measured of both sides in the same rounds, as ratios with their spread.

A ratio says how many times more the original needs. It is taken within a round, so that what else
the machine did then bears on both; what is told is the median of the rounds, with the least and the
most.
"""

import json
import math
import os
import platform
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

TOLERANCE: Final = 0.1
"""A ratio may be so much worse than the recorded one before that is a regress."""
_MIB: Final = 1024 * 1024
_MANY: Final = 10


class Side(StrEnum):
    """Who is measured."""

    OURS = "Trimtab"
    ORIGINAL = "original"


class Unit(StrEnum):
    """In what a measure is told."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    """Measured in seconds, and told as milliseconds."""
    MEBIBYTES = "MiB"
    COUNT = ""
    SHARE = "%"

    def tell(self, value: float) -> str:
        """A value as it stands in a table."""
        match self:
            case Unit.MEBIBYTES:
                return f"{value / _MIB:.0f} MiB"
            case Unit.COUNT:
                return f"{value:.0f}" if value >= _MANY else f"{value:.2g}"
            case Unit.SHARE:
                return f"{value:.0%}"
            case Unit.MILLISECONDS:
                return f"{value * 1000:.2f} ms"
            case Unit.SECONDS:
                return f"{value:.1f} s" if value >= _MANY else f"{value:.2f} s"


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is measured of both sides; less is better."""

    name: str
    title: str
    unit: Unit
    is_judged: bool = True
    """Whether a regress fails; what a busy machine makes longer does not."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What was measured of one side in one round."""

    group: str
    """Under which conditions."""
    size: int
    round: int
    side: Side
    values: Mapping[str, float]


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

    def format(self, entries: Iterable[Entry]) -> str:
        """As Markdown."""
        own = self._own(entries)
        return format_table(own, self.measures, self.conditions, has_ratios=self.has_ratios)

    def find_regresses(self, entries: Iterable[Entry], recorded: Sequence[Entry]) -> Iterator[str]:
        """What is clearly worse than what was recorded."""
        judged = self.measures if self.has_ratios else ()
        return find_regresses(self._own(entries), recorded, judged)

    def _own(self, entries: Iterable[Entry]) -> list[Entry]:
        return [entry for entry in entries if not self.groups or entry.group in self.groups]


@dataclass(frozen=True, slots=True)
class Score:
    """Both sides by one measure: medians, and the ratios of the rounds."""

    ours: float
    original: float
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median."""
        return statistics.median(self.ratios)


def write_entries(path: Path, entries: Iterable[Entry], facts: Mapping[str, object]) -> None:
    """Write down what was measured, and where."""
    document = {**facts, "entries": [asdict(entry) for entry in entries]}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_entries(path: Path) -> list[Entry]:
    """What was written down; nothing if there is no such file."""
    if not path.exists():
        return []
    document = json.loads(path.read_text(encoding="utf-8"))
    return [Entry(**{**one, "side": Side(one["side"])}) for one in document["entries"]]


def machine_facts() -> dict[str, object]:
    """On what was measured."""
    return {"python": platform.python_version(), "cores": os.cpu_count()}


def list_cases(entries: Iterable[Entry], name: str = "") -> list[tuple[str, int]]:
    """The conditions and sizes that were measured, at all or by name, in order of the entries."""
    found = (entry for entry in entries if not name or name in entry.values)
    return list(dict.fromkeys((entry.group, entry.size) for entry in found))


def renew(recorded: Iterable[Entry], entries: Sequence[Entry]) -> list[Entry]:
    """What was recorded, with the cases that were measured now in place of what they were."""
    measured = set(list_cases(entries))
    kept = [entry for entry in recorded if (entry.group, entry.size) not in measured]
    return sorted([*kept, *entries], key=lambda entry: (entry.group, entry.size))


def score(entries: Iterable[Entry], case: tuple[str, int], name: str) -> Score:
    """Both sides of a case by one measure."""
    found = {
        (entry.side, entry.round): entry.values[name]
        for entry in entries
        if (entry.group, entry.size) == case and name in entry.values
    }
    ours = {number: value for (side, number), value in found.items() if side is Side.OURS}
    original = {number: value for (side, number), value in found.items() if side is Side.ORIGINAL}
    both = sorted(ours.keys() & original.keys())
    ratios = [original[number] / max(ours[number], 1e-9) for number in both]
    return Score(statistics.median(ours.values()), statistics.median(original.values()), ratios)


def growth(entries: Sequence[Entry], group: str, side: Side, name: str) -> float:
    """The exponent of a cost over sizes."""
    sizes = sorted({entry.size for entry in entries if entry.group == group})
    costs = [
        statistics.median(
            entry.values[name]
            for entry in entries
            if (entry.group, entry.size, entry.side) == (group, size, side)
        )
        for size in sizes
    ]
    return exponent(dict(zip(sizes, costs, strict=True)))


def exponent(costs: Mapping[int, float]) -> float:
    """How costs grow, by size: the slope of a line through their logarithms."""
    points = [(math.log(size), math.log(max(cost, 1e-9))) for size, cost in costs.items()]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def find_regresses(
    entries: Sequence[Entry], recorded: Sequence[Entry], measures: Iterable[Measure]
) -> Iterator[str]:
    """What is clearly worse than what was recorded: even the best round of each measure is."""
    for measure in measures:
        known = list_cases(recorded, measure.name) if measure.is_judged else ()
        for case in list_cases(entries, measure.name):
            if case not in known:
                continue
            before = score(recorded, case, measure.name).ratio
            best = max(score(entries, case, measure.name).ratios)
            if best < before * (1 - TOLERANCE):
                group, size = case
                yield f"{size}, {group}: {measure.title}: {best:.2f}, and it was {before:.2f}"


def format_table(
    entries: Sequence[Entry],
    measures: Sequence[Measure],
    conditions: str = "Limits",
    *,
    has_ratios: bool = True,
) -> str:
    """A Markdown table: for each measure and case both sides, and the ratio with its spread."""
    lines = [
        f"| | Autoscalers | {conditions} | Trimtab | original |",
        "|---|--:|---|--:|--:|",
    ]
    if has_ratios:
        lines = [lines[0] + " original ÷ Trimtab |", lines[1] + "--:|"]
    for measure in measures:
        title = measure.title
        for group, size in list_cases(entries, measure.name):
            found = score(entries, (group, size), measure.name)
            told = [measure.unit.tell(value) for value in (found.ours, found.original)]
            told += [format_ratios(found.ratios)] if has_ratios else []
            lines.append(f"| {title} | {size} | {group} | {' | '.join(told)} |")
            title = ""
    return "\n".join(lines) + "\n"


def format_ratios(ratios: Sequence[float]) -> str:
    """The median, and the least and the most where they are not the same."""
    texts = [_format_ratio(number) for number in (min(ratios), max(ratios))]
    spread = "" if texts[0] == texts[1] else f" ({texts[0]} to {texts[1]})"
    return f"**{_format_ratio(statistics.median(ratios))}**{spread}"


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= _MANY else f"{ratio:.2g}"
