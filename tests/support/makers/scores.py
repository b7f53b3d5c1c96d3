"""Entries of made-up rounds, as tests of several modules need them."""

from bench.scoring import Entry, Side
from bench.sections import Section
from bench.tables import Measure, Table, Unit

CPU = Measure("cpu", "CPU per tick", Unit.SECONDS, bound="Imports")
WALL = Measure("seconds", "A tick lasts", Unit.SECONDS, is_judged=False)
SECTION = Section(
    "made", "Made up", "How it was made.\n", (Table((CPU, WALL)),), "- *Imports.* So.\n"
)


def rounds(
    *pairs: tuple[float, float], size: int = 100, group: str = "lifted", name: str = "cpu"
) -> list[Entry]:
    """Ours and the original's in each round."""
    return [
        Entry(group, size, number, side, {name: value})
        for number, pair in enumerate(pairs, start=1)
        for side, value in zip(Side, pair, strict=True)
    ]
