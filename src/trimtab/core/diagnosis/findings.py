"""The words of a diagnosis: what was found, how bad it is, and what could not be seen at all.

Each check is a function from facts to findings, in the modules `diagnosis_*`; fetching facts is
left to others. A fact that could not be had is a value, too, so that nobody takes it for good news.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

_T = TypeVar("_T")
_U = TypeVar("_U")


class Severity(StrEnum):
    """How bad a finding is, from good to bad."""

    OK = "ok"
    NOTE = "note"
    UNKNOWN = "unknown"
    """Nobody could look, so nobody knows."""
    WARNING = "warning"
    PROBLEM = "problem"

    @property
    def rank(self) -> int:
        """The higher, the worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, in plain words."""

    severity: Severity
    text: str
    """What was seen, and what it means."""
    remedy: str = ""
    """What to do about it: a command where there is one."""
    subject: str = ""
    """What it is about: `shop/web`, say; empty for the whole cluster."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A fact that could not be had, and why not."""

    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What came of one check; it has at least one finding."""

    check: str
    findings: tuple[Finding, ...]

    @property
    def severity(self) -> Severity:
        """That of its worst finding."""
        return max((one.severity for one in self.findings), key=lambda one: one.rank)


_MOST_FINDINGS: Final = 20
"""More findings of one check than that tell nothing new."""


def ok(text: str) -> Finding:
    """Good news."""
    return Finding(Severity.OK, text)


def unknown(fact: Unseen, subject: str = "") -> Finding:
    """What is said where nobody could look."""
    return Finding(Severity.UNKNOWN, fact.why, fact.remedy, subject)


def seen(fact: _T | Unseen, find: Callable[[_T], Iterable[Finding]]) -> Iterator[Finding]:
    """What is found in a fact, or that it could not be had."""
    if isinstance(fact, Unseen):
        yield unknown(fact)
    else:
        yield from find(fact)


def seen_both(
    one: _T | Unseen, other: _U | Unseen, find: Callable[[_T, _U], Iterable[Finding]]
) -> Iterator[Finding]:
    """The same of two facts that are needed together."""
    if isinstance(other, Unseen):
        other_unseen = other
        yield from seen(one, lambda _: [unknown(other_unseen)])
    else:
        known = other
        yield from seen(one, lambda fact: find(fact, known))


def conclude(check: str, findings: Iterable[Finding], well: str) -> Diagnosis:
    """The findings of a check, the worst first; without any, all is well."""
    found = sorted(findings, key=lambda one: -one.severity.rank) or [ok(well)]
    if len(found) <= _MOST_FINDINGS:
        return Diagnosis(check, tuple(found))
    kept, left = found[:_MOST_FINDINGS], found[_MOST_FINDINGS:]
    more = Finding(left[0].severity, f"and {len(left)} more of this kind, or less grave")
    return Diagnosis(check, (*kept, more))
