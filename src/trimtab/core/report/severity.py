"""Severity: the distance of a request from its recommendation, by KRR's convention.

That convention counts in cores and MiB, not in parts of the request: the wasted or missing amount
matters, and half of a very small request is very little.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from trimtab.core.model.recommendation import MIB
from trimtab.core.model.resources import Resource


class SizeSeverity(StrEnum):
    """The grade of a request, from good to critical; unknown where nothing is recommended."""

    UNKNOWN = "unknown"
    GOOD = "good"
    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


_ORDER: Final = tuple(SizeSeverity)
_STEPS: Final = {
    Resource.CPU: (100, 250, 500),
    Resource.MEMORY: (100 * MIB, 250 * MIB, 500 * MIB),
}
"""The least differences, in millicores or bytes, for ok, warning and critical."""
_COSTS: Final = {SizeSeverity.WARNING: 0.7, SizeSeverity.CRITICAL: 1.0}
_LETTERS: Final = ((90, "A"), (70, "B"), (55, "C"), (30, "D"), (0, "F"))


def grade(resource: Resource, current: int | None, recommended: int | None) -> SizeSeverity:
    """Grade a request against its recommendation; None stands for a missing amount."""
    if current is None and recommended is None:
        return SizeSeverity.GOOD
    if current is None or recommended is None:
        return SizeSeverity.WARNING
    difference = abs(current - recommended)
    passed = sum(difference >= step for step in _STEPS[resource])
    return _ORDER[1 + passed]


def rank(severity: SizeSeverity) -> int:
    """Return a number that grows with the severity."""
    return _ORDER.index(severity)


def worst(severities: Iterable[SizeSeverity]) -> SizeSeverity:
    """Return the worst severity; unknown if there are none."""
    return max(severities, key=rank, default=SizeSeverity.UNKNOWN)


def score(severities: Sequence[SizeSeverity]) -> int | None:
    """Return a mark from 0 to 100 for all containers with a known severity, if there are any."""
    known = [each for each in severities if each is not SizeSeverity.UNKNOWN]
    if not known:
        return None
    return int(100 * (1 - sum(_COSTS.get(each, 0.0) for each in known) / len(known)))


def letter(mark: int) -> str:
    """Return the letter of a mark, from A to F."""
    return next(text for least, text in _LETTERS if mark >= least)
