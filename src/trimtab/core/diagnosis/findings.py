"""Findings of a diagnosis, their severity, and facts that could not be read.

Each check is a function from facts to findings, in the modules of this package. Other packages
fetch the facts. A fact that could not be read is a value, too, so that no check takes it for good
news.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

_T = TypeVar("_T")
_U = TypeVar("_U")


class Severity(StrEnum):
    """Severity of a finding, from good to bad."""

    OK = "ok"
    NOTE = "note"
    UNKNOWN = "unknown"
    """The fact could not be read."""
    WARNING = "warning"
    PROBLEM = "problem"

    @property
    def rank(self) -> int:
        """Position in the order of severities; higher is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, in plain words."""

    severity: Severity
    text: str
    """The observation, and its meaning."""
    remedy: str = ""
    """Remedy: a command where there is one."""
    subject: str = ""
    """Object of the finding, such as `shop/web`; empty for the whole cluster."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A fact that could not be read, and why not."""

    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Result of one check; it has at least one finding."""

    check: str
    findings: tuple[Finding, ...]

    @property
    def severity(self) -> Severity:
        """Severity of its worst finding."""
        return max((one.severity for one in self.findings), key=lambda one: one.rank)


_MOST_FINDINGS: Final = 20
"""Maximum number of findings of one check that are shown."""


def ok(text: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(Severity.OK, text)


def unknown(fact: Unseen, subject: str = "") -> Finding:
    """Return the finding for a fact that could not be read."""
    return Finding(Severity.UNKNOWN, fact.why, fact.remedy, subject)


def seen(fact: _T | Unseen, find: Callable[[_T], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings in a fact, or that it could not be read."""
    if isinstance(fact, Unseen):
        yield unknown(fact)
    else:
        yield from find(fact)


def seen_both(
    one: _T | Unseen, other: _U | Unseen, find: Callable[[_T, _U], Iterable[Finding]]
) -> Iterator[Finding]:
    """Yield the findings in two facts that are needed together."""
    if isinstance(other, Unseen):
        other_unseen = other
        yield from seen(one, lambda _: [unknown(other_unseen)])
    else:
        known = other
        yield from seen(one, lambda fact: find(fact, known))


def conclude(check: str, findings: Iterable[Finding], well: str) -> Diagnosis:
    """Return the findings of a check, the worst first; without any, the words of `well`."""
    found = sorted(findings, key=lambda one: -one.severity.rank) or [ok(well)]
    if len(found) <= _MOST_FINDINGS:
        return Diagnosis(check, tuple(found))
    kept, left = found[:_MOST_FINDINGS], found[_MOST_FINDINGS:]
    more = Finding(left[0].severity, f"and {len(left)} more of this kind, or less grave")
    return Diagnosis(check, (*kept, more))
