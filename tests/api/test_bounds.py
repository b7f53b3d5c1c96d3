"""Bounds on autoscalers: new ones beyond them are refused, stored ones can still be edited."""

from typing import Any

import pytest
from msgspec.structs import replace
from support.makers.wire_autoscalers import judged, told, written

from trimtab.api.validation.autoscaler import validate
from trimtab.api.wire.metadata import NO_METADATA
from trimtab.core.model import size_bounds

POLICIES = "spec.resourcePolicy.containerPolicies"


def policies(count: int, **fields: Any) -> dict[str, Any]:
    named = [{"containerName": f"c{number}", **fields} for number in range(count)]
    return {"resourcePolicy": {"containerPolicies": named}}


def expressions(count: int, values: int = 1) -> dict[str, Any]:
    chosen = [f"v{number}" for number in range(values)]
    listed = [{"key": f"k{number}", "operator": "In", "values": chosen} for number in range(count)]
    return {"selector": {"matchExpressions": listed}}


def labels(count: int) -> dict[str, Any]:
    return {"selector": {"matchLabels": {f"k{number}": "v" for number in range(count)}}}


def requirements(count: int, resources: int = 1) -> dict[str, Any]:
    one = {"resources": ["cpu"] * resources, "changeRequirement": "TargetHigherThanRequests"}
    return {"updatePolicy": {"updateMode": "Recreate", "evictionRequirements": [one] * count}}


def resources(count: int, field: str) -> dict[str, Any]:
    names = [f"example.com/r{number}" for number in range(count)]
    is_list = field == "controlledResources"
    return policies(1, **{field: names if is_list else dict.fromkeys(names, "1")})


BEYOND = [
    pytest.param(
        policies(301), f"{POLICIES}: Too many: 301: must have at most 300 items", id="policies"
    ),
    pytest.param(
        expressions(51),
        "spec.selector.matchExpressions: Too many: 51: must have at most 50 items",
        id="expressions",
    ),
    pytest.param(
        expressions(1, values=501),
        "spec.selector.matchExpressions[0].values: Too many: 501: must have at most 500 items",
        id="values",
    ),
    pytest.param(
        labels(51),
        "spec.selector.matchLabels: Too many: 51: must have at most 50 items",
        id="labels",
    ),
    pytest.param(
        requirements(21),
        "spec.updatePolicy.evictionRequirements: Too many: 21: must have at most 20 items",
        id="requirements",
    ),
    pytest.param(
        requirements(1, resources=21),
        "spec.updatePolicy.evictionRequirements[0].resources: Too many: 21:"
        " must have at most 20 items",
        id="resources of a requirement",
    ),
    *(
        pytest.param(
            resources(51, field),
            f"{POLICIES}[0].{field}: Too many: 51: must have at most 50 items",
            id=field,
        )
        for field in ("controlledResources", "minAllowed", "maxAllowed")
    ),
]


@pytest.mark.parametrize(("spec", "error"), BEYOND)
def test_a_new_object_beyond_a_bound_is_refused_with_one_error(
    spec: dict[str, Any], error: str
) -> None:
    assert told(judged(spec)) == [error]


@pytest.mark.parametrize(("spec", "error"), BEYOND)
def test_a_stored_object_beyond_a_bound_can_still_be_edited(
    spec: dict[str, Any], error: str
) -> None:
    stored = written(**spec)
    edited = written(**spec, recommenders=[{"name": "mine"}])

    assert error not in told(validate(edited, stored))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(policies(size_bounds.MAX_POLICIES), id="policies"),
        pytest.param(expressions(size_bounds.MAX_EXPRESSIONS), id="expressions"),
        pytest.param(expressions(1, values=size_bounds.MAX_VALUES), id="values"),
        pytest.param(labels(size_bounds.MAX_EXPRESSIONS), id="labels"),
    ],
)
def test_an_object_at_a_bound_is_allowed(spec: dict[str, Any]) -> None:
    assert judged(spec).allowed


def test_a_large_stored_selector_still_keeps_apart_from_new_siblings() -> None:
    """The target changes and the selector stays, beyond its bound: overlaps still count."""
    large = expressions(1, values=size_bounds.MAX_VALUES + 1)
    former = written(**large)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    moved = written(**{**large, "targetRef": target})
    other = written(targetRef=target)
    sibling = replace(other, metadata=replace(other.metadata or NO_METADATA, name="sibling"))

    assert not validate(moved, former, siblings=[sibling]).allowed
