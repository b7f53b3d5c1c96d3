"""Capping: a recommendation inside policies and limit ranges, with notes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.limits import decode_limit_range
from trimtab.api.kinds.pods import decode_pod
from trimtab.core.model import quantities
from trimtab.core.model.autoscalers import ContainerRecommendation, policy_for
from trimtab.core.model.cap_notes import format_note
from trimtab.core.model.recommendation import Caps, caps_for
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.recommendation import estimators
from trimtab.core.sizing.capping import cap_for_pod

AMOUNTS = {
    "target": "target",
    "lowerBound": "lower_bound",
    "upperBound": "upper_bound",
    "uncappedTarget": "uncapped_target",
}


def differences(case: dict[str, Any]) -> list[str]:
    given, theirs = case["input"], case["expected"]
    if given["function"] == "forRecommender":
        return list(recommendation_differences(capped_for_recommender(given), theirs))
    autoscaler = decode_autoscaler(encode(given["vpa"]))
    items = [item for one in given["limitRanges"] for item in decode_limit_range(encode(one))]
    capped = cap_for_pod(
        autoscaler.recommendation, decode_pod(encode(given["pod"])), autoscaler.policies, items
    )
    notes = {name: list(map(format_note, found)) for name, found in capped.notes.items()}
    found = [*recommendation_differences(capped.recommendations, theirs)]
    if has_nothing_to_say(given["vpa"]) is not (theirs["recommendation"] is None):
        found.append(f"recommendation: {capped.recommendations} != {theirs['recommendation']}")
    if notes != theirs["annotations"]:
        found.append(f"annotations: {notes} != {theirs['annotations']}")
    return found


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def has_nothing_to_say(vpa: dict[str, Any]) -> bool:
    """Where the original answers null instead of a recommendation without containers."""
    recommendation = vpa.get("status", {}).get("recommendation")
    return recommendation is None and vpa["spec"].get("resourcePolicy") is None


def capped_for_recommender(given: dict[str, Any]) -> tuple[ContainerRecommendation, ...]:
    autoscaler = decode_autoscaler(
        encode(
            {
                "metadata": {"namespace": "default", "name": "web-vpa"},
                "spec": {"resourcePolicy": {"containerPolicies": given["containerPolicies"]}},
                "status": {
                    "recommendation": {
                        "containerRecommendations": given["containerRecommendations"]
                    }
                },
            }
        )
    )
    maximum = given.get("globalMaxAllowed") or {}
    global_max = {
        kind: quantities.parse_amount(kind, maximum[kind]) for kind in BOTH if kind in maximum
    }
    return tuple(
        cap_container(
            one, caps_for(policy_for(autoscaler.policies, one.container_name), global_max)
        )
        for one in autoscaler.recommendation or ()
    )


def cap_container(recommendation: ContainerRecommendation, caps: Caps) -> ContainerRecommendation:
    lower, upper = recommendation.lower_bound, recommendation.upper_bound
    return replace(
        recommendation,
        target=cap_amounts(recommendation.target, caps),
        lower_bound=None if lower is None else cap_amounts(lower, caps),
        upper_bound=None if upper is None else cap_amounts(upper, caps),
    )


def cap_amounts(amounts: Resources, caps: Caps) -> Resources:
    columns = [np.array([amounts.get(kind, 0)]) for kind in BOTH]
    capped = map(estimators.cap, columns, caps.least, caps.most)
    found = {kind: int(column[0]) for kind, column in zip(BOTH, capped, strict=True)}
    return {kind: found[kind] for kind in amounts}


def recommendation_differences(
    ours: Sequence[ContainerRecommendation], expected: dict[str, Any]
) -> Iterator[str]:
    theirs = (expected["recommendation"] or {}).get("containerRecommendations", [])
    our_names = [one.container_name for one in ours]
    their_names = [one["containerName"] for one in theirs]
    if our_names != their_names:
        yield f"recommendation: {our_names} != {their_names}"
        return
    for our, their in zip(ours, theirs, strict=True):
        for name, attribute in AMOUNTS.items():
            amounts = numbers(getattr(our, attribute))
            expected_amounts = {
                kind: quantities.parse(text) for kind, text in their.get(name, {}).items()
            }
            yield from amount_differences(f"{our.container_name}.{name}", amounts, expected_amounts)


def amount_differences(
    where: str, ours: dict[str, quantities.Quantity], theirs: dict[str, quantities.Quantity]
) -> Iterator[str]:
    for kind in sorted({*ours, *theirs}):
        if ours.get(kind) != theirs.get(kind):
            yield f"{where}.{kind}: {ours.get(kind)} != {theirs.get(kind)}"


def numbers(amounts: Resources | None) -> dict[str, quantities.Quantity]:
    given = amounts or {}
    return {
        kind.value: quantities.parse(quantities.format_amount(kind, amount))
        for kind, amount in given.items()
    }
