"""Which cases hold amounts below zero (decision 0004), judged by their input."""

from collections.abc import Iterator
from typing import Any

from trimtab.core import quantities


def has_negative_bounds(autoscaler: dict[str, Any]) -> bool:
    """Some policy of the autoscaler allows less than nothing."""
    return any(map(is_negative, _bounds(autoscaler)))


def is_negative(text: str | float | None) -> bool:
    return text is not None and quantities.parse(str(text)).sign < 0


def _bounds(autoscaler: dict[str, Any]) -> Iterator[str]:
    policies = (autoscaler["spec"].get("resourcePolicy") or {}).get("containerPolicies") or []
    for policy in policies:
        for name in ("minAllowed", "maxAllowed"):
            yield from (policy.get(name) or {}).values()
