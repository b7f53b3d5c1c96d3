"""A part of the page of benchmarks: what is compared in it, and in which words that is told."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import scoring, tables
from bench.scoring import Entry
from bench.tables import Growth, Line, Regress, Table

RESULTS: Final = Path(__file__).parent / "results"
_GROWTH: Final = """
How costs grow with the size, as an exponent: 0 is flat, 1 is linear, 2 is quadratic. Of what is
told per hundred or per thousand of what grows, it is that of the whole.

"""


@dataclass(frozen=True, slots=True)
class Section:
    """What is compared, and how it is told."""

    name: str
    """Of its module and of the file of its results."""
    title: str
    head: str
    """How it was measured."""
    tables: Sequence[Table]
    bounds: str
    """What bounds it: a text with a head in italics for everything that may not be won."""

    @property
    def link(self) -> str:
        """To where it stands on the page."""
        return "#" + self.title.lower().replace(" ", "-")

    def path(self, folder: Path = RESULTS) -> Path:
        """The file of what is recorded."""
        return folder / f"{self.name}.json"

    def tell(self, entries: Sequence[Entry], more: Iterable[str] = ()) -> Iterator[str]:
        """All of it as Markdown; what else there is to tell stands before what bounds it."""
        if not entries:
            return
        yield f"\n## {self.title}\n\n{self.head}\n"
        yield self.format_tables(entries)
        machines = sorted({entry.machine for entry in entries} - {""})
        told = "".join(f" On {machine}." for machine in machines)
        yield f"\nRounds recorded: {format_rounds(entries)}.{told}{_format_commits(entries)}\n"
        if growths := list(self.list_growths(entries)):
            yield _GROWTH + tables.format_growths(growths)
        yield from more
        yield f"\n{self.bounds}"

    def format_tables(self, entries: Sequence[Entry]) -> str:
        """The tables of which anything was measured."""
        told = [table.format(entries) for table in self.tables if any(table.list_lines(entries))]
        return "\n".join(told)

    def list_lines(self, entries: Sequence[Entry]) -> Iterator[Line]:
        """All lines with ratios."""
        for table in self.tables:
            yield from table.list_lines(entries) if table.has_ratios else ()

    def list_growths(self, entries: Sequence[Entry]) -> Iterator[Growth]:
        """How all costs grow."""
        for table in self.tables:
            yield from table.list_growths(entries)

    def find_regresses(
        self, entries: Sequence[Entry], recorded: Sequence[Entry]
    ) -> Iterator[Regress]:
        """What is clearly worse than what was recorded."""
        for table in self.tables:
            yield from table.find_regresses(entries, recorded)


def _format_commits(entries: Sequence[Entry]) -> str:
    """The commits at which cases were measured, in words."""
    cases: dict[str, list[str]] = {}
    for group, size in scoring.list_cases(entries):
        of_case = {entry.commit for entry in entries if entry.case == (group, size)}
        for commit in sorted(of_case - {""}):
            cases.setdefault(commit, []).append(f"{size} {group}")
    told = [
        f"`{commit}`" if len(cases) == 1 else f"`{commit}` ({', '.join(named)})"
        for commit, named in cases.items()
    ]
    return f" At commit {'; '.join(told)}." if told else ""


def format_rounds(entries: Sequence[Entry]) -> str:
    """How many rounds there were of which cases, in words."""
    counted: dict[int, list[str]] = {}
    for case in scoring.list_cases(entries):
        rounds = {entry.round for entry in entries if entry.case == case}
        group, size = case
        counted.setdefault(len(rounds), []).append(f"{size} {group}")
    all_of_them = len(counted) == 1
    return "; ".join(
        f"{count} of " + ("everything" if all_of_them else ", ".join(cases))
        for count, cases in sorted(counted.items())
    )
