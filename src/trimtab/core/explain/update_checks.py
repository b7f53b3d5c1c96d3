"""Verdicts on a pod, one for each kind of check.

The checks are those of a plan; `pod_checks.py` runs all of them.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.updates.checks.check import CheckKind


class CheckVerdict(StrEnum):
    """Result of a check for the pod; the value names it to users."""

    CLEAR = "pass"
    BLOCKED = "fail"
    UNKNOWN = "unknown"
    """The facts that the check needs are not available."""
    NOT_ASKED = "notAsked"
    """The check does not apply to this pod, or not yet."""


@dataclass(frozen=True, slots=True)
class PodCheck:
    """One check of one pod, and its result."""

    kind: CheckKind
    verdict: CheckVerdict
    reason: HoldReason | None = None
    until: datetime | None = None
    """When it passes if nothing changes but the time; None if that will not help."""
    is_decisive: bool = False
    """True if its reason is the one that the plan gives."""
