"""What all contests between the two sides have in common, whatever is measured in them.

Who is measured when, the command line, and what becomes of the figures: they are shown, compared
with what was recorded, and recorded if nothing got clearly worse.
"""

import argparse
import asyncio
import compileall
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

import trimtab
from bench import page, scoring
from bench.scoring import Entry, Side, Table
from bench.telling import say
from rig import building, controlplane, programs
from rig.building import Recipe
from rig.controlplane import ControlPlane

RESULTS: Final = Path(__file__).parent / "results"

Measuring: TypeAlias = Callable[
    [ControlPlane, argparse.Namespace], Coroutine[None, None, list[Entry]]
]


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared, of which sizes by default, and how it is told."""

    name: str
    """Of its module and of the file of its results."""
    sizes: Sequence[int]
    rounds: int
    short_size: int
    """A short contest has one round of this size."""
    programs: Sequence[str]
    """Of the original."""
    tables: Sequence[Table]
    recipes: Sequence[Recipe] = ()
    """What else has to be built."""

    @property
    def results(self) -> Path:
        """The file of what is recorded."""
        return RESULTS / f"{self.name}.json"

    def parser(self) -> argparse.ArgumentParser:
        """The flags that every contest has."""
        parser = argparse.ArgumentParser(prog=f"python -m bench.{self.name}")
        add = parser.add_argument
        add("--sizes", type=int, nargs="+", default=self.sizes, help="autoscalers")
        add("--rounds", type=int, default=self.rounds, help="of each side and size")
        add("--short", action="store_true", help="one small round, nothing written")
        add("--accept", action="store_true", help="write down even what got worse")
        return parser

    def hold(self, given: argparse.Namespace, measure: Measuring) -> int:
        """Measure, print and record; 1 if a ratio got worse, 2 if a program cannot be built."""
        try:
            programs.find_all(self.programs)
            for recipe in self.recipes:
                building.build(recipe)
        except building.BuildError as error:
            say(str(error))
            return 2
        _compile_ours()
        if given.short:
            given.sizes, given.rounds = [self.short_size], 1
        with controlplane.running() as plane:
            entries = asyncio.run(measure(plane, given))
        for table in self.tables:
            print(table.format(entries))
        return self._record(entries, given)

    def _record(self, entries: Sequence[Entry], given: argparse.Namespace) -> int:
        recorded = scoring.read_entries(self.results)
        # So little was measured of a short contest that it proves nothing.
        worse = [] if given.short else self.find_regresses(entries, recorded)
        for one in worse:
            print(f"worse: {one}")
        if not given.short and (given.accept or not worse):
            facts = scoring.machine_facts()
            scoring.write_entries(self.results, scoring.renew(recorded, entries), facts)
            page.write()
        return 1 if worse else 0

    def find_regresses(self, entries: Sequence[Entry], recorded: Sequence[Entry]) -> list[str]:
        """What is clearly worse than what was recorded."""
        found = (table.find_regresses(entries, recorded) for table in self.tables)
        return list(chain.from_iterable(found))


def _compile_ours() -> None:
    """Compile our code, as installing the package does; the original has been compiled, too."""
    compileall.compile_dir(Path(trimtab.__file__).parent, quiet=1)


def take_turns(rounds: int) -> Iterator[tuple[int, Side]]:
    """The rounds, with the sides in turn; who is first in a round alternates, too."""
    for number in range(1, rounds + 1):
        sides = list(Side)
        for side in sides if number % 2 else reversed(sides):
            yield number, side


def note(entry: Entry) -> Entry:
    """The entry, of which whoever waits has been told."""
    say(json.dumps(asdict(entry)))
    return entry
