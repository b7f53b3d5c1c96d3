"""What a run writes down: every round as soon as it is complete, so that none is ever lost.

What is measured is judged by what was recorded before the run. Of a size and conditions of which a
ratio got clearly worse nothing is written, unless that is accepted: the recorded ratio stays what
the next run is judged by.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from bench import page, scoring, sections
from bench.scoring import Entry
from bench.sections import RESULTS, Section
from bench.tables import Regress
from bench.telling import say


class Record:
    """The file of a section: as it was before the run, and with what was measured since."""

    def __init__(
        self,
        section: Section,
        *,
        folder: Path = RESULTS,
        machine: str = "",
        commit: str = "",
        is_trial: bool = False,
        accepts_worse: bool = False,
        renew_page: Callable[[], None] = page.write,
    ) -> None:
        self._section = section
        self._path = section.path(folder)
        self._machine = machine
        self._commit = commit
        self._is_trial = is_trial
        self._accepts_worse = accepts_worse
        self._renew_page = renew_page
        self.before = scoring.read_entries(self._path)
        """As it was recorded before the run."""
        self._measured: list[Entry] = []
        self._kept: list[Entry] = []

    @property
    def complete(self) -> list[Entry]:
        """What was measured in this run, in rounds that are complete."""
        return scoring.list_complete(self._measured)

    def add(self, entries: Iterable[Entry]) -> None:
        """Note what was measured in a turn, and write down what is complete and not worse."""
        self._measured += [
            replace(entry, machine=self._machine, commit=self._commit) for entry in entries
        ]
        worse = set() if self._accepts_worse else {each.case for each in self.find_regresses()}
        kept = [entry for entry in self.complete if entry.case not in worse]
        if kept != self._kept and not self._is_trial:
            self._kept = kept
            renewed = scoring.renew(self.before, kept)
            scoring.write_entries(self._path, renewed)
            self._renew_page()

    def find_regresses(self) -> list[Regress]:
        """What got clearly worse than before the run; so little is tried that it proves nothing."""
        if self._is_trial:
            return []
        return list(self._section.find_regresses(self.complete, self.before))

    def close(self) -> int:
        """Print all that is complete, say what became of it, and tell the exit code."""
        complete = self.complete
        print(self._section.format_tables(complete))
        worse = self.find_regresses()
        for one in worse:
            print(f"worse: {one}")
        lost = len(self._measured) - len(complete)
        if lost:
            say(f"not kept, since their round was not complete: {lost} of {len(self._measured)}")
        told = sections.format_rounds(self._kept) if self._kept else "nothing"
        say(f"{self._section.name}: rounds written down: {told}")
        return 1 if worse else 0
