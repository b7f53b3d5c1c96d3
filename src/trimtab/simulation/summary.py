"""What many runs come to: days that passed, what happened in them, and which rules were broken."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from datetime import timedelta
from typing import Final

from trimtab.core.records import dataclass
from trimtab.simulation.runs import Report

TOLD: Final = {
    "PodEvicted": "evictions",
    "PodResized": "resizes",
    "ContainerKilled": "OOM kills",
}
"""The kinds of facts that say most about a run, and what they are called in it."""


@dataclass(slots=True)
class Summary:
    """Grows with each report."""

    runs: int = 0
    failed: int = 0
    simulated: timedelta = timedelta()
    facts: Counter[str] = field(default_factory=Counter)
    runs_by_rule: Counter[str] = field(default_factory=Counter)
    """In how many runs each rule was broken."""
    violations_by_rule: Counter[str] = field(default_factory=Counter)

    def add(self, report: Report) -> None:
        """Count one run."""
        self.runs += 1
        self.failed += bool(report.violations)
        self.simulated += report.simulated
        self.facts.update(report.facts)
        rules = [violation.checker for violation in report.violations]
        self.violations_by_rule.update(rules)
        self.runs_by_rule.update(set(rules))

    def lines(self) -> Iterator[str]:
        """The summary in words; the last line is the verdict."""
        happened = ", ".join(f"{self.facts[kind]:,} {name}" for kind, name in TOLD.items())
        yield f"{self.simulated / timedelta(days=1):,.1f} simulated days: {happened}"
        for rule, count in self.violations_by_rule.most_common():
            runs = self.runs_by_rule[rule]
            yield f"{rule}: broken in {runs:,} of {self.runs:,} runs, {count:,} in all"
        yield f"{self.runs - self.failed} passed, {self.failed} failed"
