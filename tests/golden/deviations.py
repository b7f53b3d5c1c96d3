"""The one table of answers that differ from the original's on purpose, each with its decision.

`D1` … `D16` are the project's founding decisions, `0002` … the pages of `docs/decisions/`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Deviation:
    """Cases of one set whose answer a decision changes."""

    set: str
    decision: str
    reason: str
    applies: Callable[[dict[str, Any]], bool]
    """Whether the decision changes this case, judged by the case's input."""
    where: str
    """A regular expression: every difference must match it, nothing else may differ."""


DEVIATIONS: Final[tuple[Deviation, ...]] = (
    Deviation(
        set="quantity",
        decision="D16",
        reason="numbers that wrapped round or were rounded wrongly are marked; ours are right",
        applies=lambda case: bool(case["expected"].get("quirk")),
        # Above 1000E the original runs out of suffixes and prints the number without any.
        where=r"(milliValue|value): |(canonical|string): '-?\d+000E' != '-?\d+'$",
    ),
)
