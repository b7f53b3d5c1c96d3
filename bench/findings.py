"""All that is written down in the files of results, read at once."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import (
    admission_tables,
    capacity_tables,
    core_tables,
    recommender_tables,
    scoring,
    stack_tables,
    updater_tables,
)
from bench.scoring import Entry
from bench.sections import RESULTS, Section
from bench.tables import Growth, Line
from rig.fake_node import Json

SECTIONS: Final = tuple(
    each.SECTION
    for each in (recommender_tables, updater_tables, admission_tables, stack_tables, core_tables)
)
"""Wherever both sides were measured."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What was measured."""

    entries: Mapping[str, Sequence[Entry]]
    """By the names of sections."""
    planning: Json
    capacity: Json
    store: Json
    writes: Json = field(default_factory=dict)

    def list_lines(self) -> Iterator[tuple[Section, Line]]:
        """All that has a ratio."""
        for section in SECTIONS:
            for line in section.list_lines(self.entries[section.name]):
                yield section, line

    def list_growths(self) -> Iterator[tuple[str, Growth]]:
        """How all costs grow, each with the title of its part."""
        for section in SECTIONS:
            for growth in section.list_growths(self.entries[section.name]):
                yield section.title, growth
        for growth in updater_tables.list_planning_growths(self.planning):
            yield updater_tables.SECTION.title, growth
        for growth in capacity_tables.list_growths(self.capacity):
            yield "One recommender for many containers", growth


def read(folder: Path = RESULTS) -> Findings:
    """What the files in a folder say."""
    return Findings(
        {each.name: scoring.read_entries(each.path(folder)) for each in SECTIONS},
        planning=_read(folder / "planning.json"),
        capacity=_read(folder / "capacity.json"),
        store=_read(folder / "store.json"),
        writes=_read(folder / "writes.json"),
    )


def _read(path: Path) -> Json:
    if not path.exists():
        return {}
    found: Json = json.loads(path.read_text(encoding="utf-8"))
    return found
