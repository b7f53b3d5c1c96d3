"""What all contests between the two sides have in common, whatever is measured in them.

Who is measured when, the command line, how far a contest is, and what becomes of the figures: they
are written down round by round, shown, and compared with what was recorded before.
"""

import argparse
import asyncio
import compileall
import json
import statistics
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import trimtab
from bench import interrupts, scoring
from bench.recording import Record
from bench.scoring import Entry, Side
from bench.sections import Section
from bench.telling import say
from rig import building, controlplane, programs
from rig.building import Recipe
from rig.controlplane import ControlPlane
from rig.progress import format_span

Key: TypeAlias = tuple[str, int, Side]
"""Turns of the same key take about the same time."""
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Turn:
    """What is measured at a time: one side in one round, of a size and under some conditions."""

    group: str
    size: int
    round: int
    side: Side

    @property
    def key(self) -> Key:
        """What it has in common with other rounds."""
        return self.group, self.size, self.side

    def __str__(self) -> str:
        """In words."""
        return f"{self.size} autoscalers, {self.group}, round {self.round}, {self.side}"

    def entry(self, values: dict[str, float], group: str = "") -> Entry:
        """What was measured in it, or under some conditions of it."""
        return Entry(group or self.group, self.size, self.round, self.side, values)


class Course:
    """The turns of a contest one after the other, with how far it is, and what was measured."""

    def __init__(
        self,
        turns: Iterable[Turn],
        record: Record,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turns = list(turns)
        self._record = record
        self._clock = clock
        self._begin = self._last = clock()
        self._took: dict[Key, float] = {
            (entry.group, entry.size, entry.side): entry.took
            for entry in record.before
            if entry.took
        }
        """How long turns have taken, in this run or in the recorded one."""

    def __iter__(self) -> Iterator[Turn]:
        for number, turn in enumerate(self._turns):
            self._last = self._clock()
            say(f"{number + 1} of {len(self._turns)}: {turn}; {self._describe(number)}")
            yield turn

    def note(self, turn: Turn, *entries: Entry) -> None:
        """Take what was measured in a turn."""
        took = self._clock() - self._last
        self._took[turn.key] = took
        noted = [replace(entry, took=round(took, 1)) for entry in entries]
        for entry in noted:
            say(json.dumps(asdict(entry)))
        self._record.add(noted)

    def estimate_seconds(self, done: int) -> float | None:
        """How long the turns may take that are left after so many; None if nothing is known."""
        if not self._took:
            return None
        usual = statistics.mean(self._took.values())
        return sum(self._took.get(turn.key, usual) for turn in self._turns[done:])

    def _describe(self, done: int) -> str:
        passed = format_span(self._clock() - self._begin)
        left = self.estimate_seconds(done)
        to_go = "" if left is None else f", about {format_span(left)} to go"
        return f"{passed} so far{to_go}"


Measuring: TypeAlias = Callable[[ControlPlane, Course], Coroutine[None, None, None]]


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared, of which sizes by default, and how it is told."""

    section: Section
    sizes: Sequence[int]
    rounds: int
    short_size: int
    """A short contest has one round of this size."""
    programs: Sequence[str]
    """Of the original."""
    recipes: Sequence[Recipe] = ()
    """What else has to be built."""

    def parser(self) -> argparse.ArgumentParser:
        """The flags that every contest has."""
        parser = argparse.ArgumentParser(prog=f"python -m bench.{self.section.name}")
        add = parser.add_argument
        add("--sizes", type=int, nargs="+", default=self.sizes, help="autoscalers")
        add("--rounds", type=int, default=self.rounds, help="of each side and size")
        add("--short", action="store_true", help="one small round, nothing written")
        add("--accept", action="store_true", help="write down even what got worse")
        return parser

    def parse(
        self, parser: argparse.ArgumentParser, arguments: Sequence[str]
    ) -> argparse.Namespace:
        """What the command line asks for."""
        given = parser.parse_args(arguments)
        if given.short:
            given.sizes, given.rounds = [self.short_size], 1
        return given

    def hold(self, given: argparse.Namespace, turns: Iterable[Turn], measure: Measuring) -> int:
        """Measure, print and record; 1 if a ratio got worse, 2 if a program cannot be built."""
        record = Record(
            self.section,
            machine=scoring.describe_machine(),
            commit=scoring.describe_commit(),
            is_trial=given.short,
            accepts_worse=given.accept,
        )
        with interrupts.raised():
            try:
                return run(record, lambda: self._measure(measure, turns, record))
            except building.BuildError as error:
                say(str(error))
                return 2

    def _measure(self, measure: Measuring, turns: Iterable[Turn], record: Record) -> None:
        found = programs.find_all(self.programs)
        for recipe in self.recipes:
            building.build(recipe)
        _compile_ours()
        _warm(found.values())
        with controlplane.running() as plane:
            asyncio.run(measure(plane, Course(turns, record)))


def run(record: Record, measure: Callable[[], None]) -> int:
    """Measure, and tell what was recorded, however that ends: the exit code."""
    try:
        measure()
    except KeyboardInterrupt:
        say("interrupted")
        record.close()
        return interrupts.EXIT_CODE
    except Exception:
        record.close()
        raise
    return record.close()


def _compile_ours() -> None:
    """Compile our code, as installing the package does; the original has been compiled, too."""
    compileall.compile_dir(Path(trimtab.__file__).parent, quiet=1)


def _warm(found: Iterable[Path]) -> None:
    """Have the original's programs in memory, as ours are: neither side starts from the disk."""
    for path in found:
        with path.open("rb") as program:
            while program.read(_CHUNK_BYTES):
                pass


def take_turns(rounds: int) -> Iterator[tuple[int, Side]]:
    """The rounds, with the sides in turn; who is first in a round alternates, too."""
    for number in range(1, rounds + 1):
        sides = list(Side)
        for side in sides if number % 2 else reversed(sides):
            yield number, side
