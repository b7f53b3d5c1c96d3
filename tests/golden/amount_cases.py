"""Cases with amounts below zero, or that cannot be read (decision 0004), by their input."""

from collections.abc import Iterator
from typing import Any

from trimtab.core.model import quantities

NEGATIVE_LINES = (
    r"[^.]+\.(target|lowerBound|upperBound)\.(cpu|memory): .* != -\d\S*$|annotations: "
    r"|(patches\./metadata/annotations/|annotations\.)vpaUpdates: "
    r"|patches\./spec/containers/\d+/resources/(requests|limits)/(cpu|memory): "
    r".* != \('add', Quantity\(mantissa=-"
    r"|containers\.[^.]+\.(requests|limits)\.(cpu|memory): .* != -\d\S*$"
)
"""An amount below zero in the original's answer, and the words about it."""


def has_negative_bounds(autoscaler: dict[str, Any]) -> bool:
    """Some policy of the autoscaler allows less than nothing."""
    return any(map(is_negative, _bounds(autoscaler)))


def advises_or_bounds_below_zero(case: dict[str, Any]) -> bool:
    """Some bound on a new pod, or the advice for it, is less than nothing."""
    autoscaler = case["input"].get("vpa")
    return autoscaler is not None and (
        has_negative_bounds(autoscaler) or any(map(is_negative, _advice(autoscaler)))
    )


def is_negative(text: str | float | None) -> bool:
    return text is not None and not is_unreadable(text) and quantities.parse(str(text)).sign < 0


def is_unreadable(text: Any) -> bool:
    """Return True if a text is no quantity."""
    try:
        quantities.parse(str(text))
    except quantities.QuantityError:
        return True
    return False


def has_unreadable_quantity(autoscaler: dict[str, Any]) -> bool:
    """Return True if an autoscaler has a quantity that is none."""
    spec = autoscaler["spec"]
    policies = (spec.get("resourcePolicy") or {}).get("containerPolicies") or []
    boosts = [(holder.get("startupBoost") or {}).get("cpu") or {} for holder in (spec, *policies)]
    given = [
        *(boost.get("quantity") for boost in boosts),
        *(policy.get(name) for policy in policies for name in ("oomBumpUpRatio", "oomMinBumpUp")),
        *(
            amount
            for policy in policies
            for name in ("minAllowed", "maxAllowed")
            for amount in (policy.get(name) or {}).values()
        ),
    ]
    return any(is_unreadable(each) for each in given if each is not None)


def _bounds(autoscaler: dict[str, Any]) -> Iterator[str]:
    policies = (autoscaler["spec"].get("resourcePolicy") or {}).get("containerPolicies") or []
    for policy in policies:
        for name in ("minAllowed", "maxAllowed"):
            yield from (policy.get(name) or {}).values()


def _advice(autoscaler: dict[str, Any]) -> Iterator[str]:
    recommendation = autoscaler.get("status", {}).get("recommendation") or {}
    for entry in recommendation.get("containerRecommendations") or []:
        for name in ("target", "lowerBound", "upperBound"):
            yield from (entry.get(name) or {}).values()
