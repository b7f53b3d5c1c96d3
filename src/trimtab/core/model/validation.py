"""Validation of settings: each setting is checked once, where it is made."""

import math
from collections.abc import Collection
from datetime import timedelta
from typing import Final

LONGEST: Final = timedelta(days=100 * 365)
"""No interval is longer: sums of moments and intervals stay inside the calendar."""


class SettingsError(ValueError):
    """A setting that makes no sense; the message has the field, its value and the problem."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field}: {value!r} {problem}")
        self.field = field
        self.value = value
        self.problem = problem


def require_fraction(field: str, value: float) -> None:
    """Refuse a value that is not between 0 and 1."""
    if not 0 <= value <= 1:
        raise SettingsError(field, value, "is not from 0 to 1")


def require_at_least(field: str, value: float, least: float) -> None:
    """Refuse a value that is too small, infinite or not a number."""
    if not least <= value < math.inf:
        raise SettingsError(field, value, f"is not a number from {least:g} on")


def require_one_scope(namespace: str, ignored_namespaces: Collection[str]) -> None:
    """Refuse one chosen namespace together with ignored namespaces, as the original does."""
    if namespace and ignored_namespaces:
        problem = "cannot be set together with namespaces that are ignored"
        raise SettingsError("namespace", namespace, problem)


def require_interval(field: str, value: timedelta) -> None:
    """Refuse a duration that is not positive, or longer than the calendar allows."""
    if not timedelta(0) < value <= LONGEST:
        raise SettingsError(field, value, f"is not above zero and up to {LONGEST.days} days")
