"""Scores: what was measured of both sides in the same rounds, as ratios with their spread.

A ratio says how many times more the original needs. It is taken within a round, so that what else
the machine did then bears on both; what is told is the median of the rounds, with the least and the
most. How that is told is the business of `tables`.
"""

import json
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

_LEAST: Final = 1e-9
"""Nothing costs less than that."""

Case: TypeAlias = tuple[str, int]
"""The conditions and the size of a measurement."""


class Side(StrEnum):
    """Who is measured."""

    OURS = "Trimtab"
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Entry:
    """What was measured of one side in one round."""

    group: str
    """Under which conditions."""
    size: int
    round: int
    side: Side
    values: Mapping[str, float]
    took: float = 0.0
    """For how many seconds all of that was waited, preparations included."""
    machine: str = ""
    """On what it was measured."""
    commit: str = ""
    """Of which state of the code."""

    @property
    def case(self) -> Case:
        """What it was measured of."""
        return self.group, self.size


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


def write_entries(path: Path, entries: Iterable[Entry]) -> None:
    """Write down what was measured."""
    write_json(path, {"entries": [asdict(entry) for entry in entries]})


def write_json(path: Path, document: object) -> None:
    """Write a file of results; whoever interrupts that leaves the old one."""
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)


def read_entries(path: Path) -> list[Entry]:
    """What was written down; nothing if there is no such file."""
    if not path.exists():
        return []
    document = json.loads(path.read_text(encoding="utf-8"))
    return [Entry(**{**one, "side": Side(one["side"])}) for one in document["entries"]]


def describe_machine() -> str:
    """On what is measured here."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}"


def describe_commit() -> str:
    """Name the state of the code that is measured here; nothing outside of a repository."""
    command = ["git", "describe", "--always", "--abbrev=7", "--dirty", "--exclude=*"]
    folder = Path(__file__).parent
    found = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return found.stdout.decode().strip()


def list_cases(entries: Iterable[Entry], name: str = "") -> list[Case]:
    """The conditions and sizes that were measured, at all or by name, in order of the entries."""
    return list(dict.fromkeys(entry.case for entry in entries if not name or name in entry.values))


def list_complete(entries: Iterable[Entry]) -> list[Entry]:
    """The entries of the rounds in which both sides were measured."""
    found = list(entries)
    seen = {(entry.case, entry.round, entry.side) for entry in found}
    return [
        entry for entry in found if all((entry.case, entry.round, side) in seen for side in Side)
    ]


def renew(recorded: Iterable[Entry], entries: Sequence[Entry]) -> list[Entry]:
    """What was recorded, with the cases that were measured now in place of what they were."""
    measured = set(list_cases(entries))
    kept = [entry for entry in recorded if entry.case not in measured]
    return sorted([*kept, *entries], key=lambda entry: entry.case)


def score(entries: Iterable[Entry], case: Case, name: str) -> Score:
    """Both sides of a case by one measure."""
    found = {
        (entry.side, entry.round): entry.values[name]
        for entry in entries
        if entry.case == case and name in entry.values
    }
    ours = {number: value for (side, number), value in found.items() if side is Side.OURS}
    original = {number: value for (side, number), value in found.items() if side is Side.ORIGINAL}
    both = sorted(ours.keys() & original.keys())
    ratios = [original[number] / max(ours[number], _LEAST) for number in both]
    return Score(statistics.median(ours.values()), statistics.median(original.values()), ratios)


def growth(entries: Iterable[Entry], group: str, side: Side, name: str) -> float:
    """The exponent of a cost over the sizes that it was measured at."""
    costs: dict[int, list[float]] = {}
    for entry in entries:
        if (entry.group, entry.side) == (group, side) and name in entry.values:
            costs.setdefault(entry.size, []).append(entry.values[name])
    return exponent({size: statistics.median(found) for size, found in costs.items()})


def exponent(costs: Mapping[int, float]) -> float:
    """How costs grow, by size: the slope of a line through their logarithms."""
    points = [(math.log(size), math.log(max(cost, _LEAST))) for size, cost in costs.items()]
    return statistics.linear_regression(*zip(*points, strict=True)).slope
