"""Checks of what bounds autoscalers: each finding seen, and not seen."""

from dataclasses import replace
from typing import Any

import pytest
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler

from trimtab.core.diagnosis.autoscalers import Governed
from trimtab.core.diagnosis.bounds import Bounds, check_bounds, check_horizontal
from trimtab.core.diagnosis.findings import Severity
from trimtab.core.model.autoscalers import (
    Condition,
    ContainerMode,
    ContainerPolicy,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.hpa import Horizontal
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side

NOTE, WARNING, PROBLEM = Severity.NOTE, Severity.WARNING, Severity.PROBLEM

CPU = frozenset({Resource.CPU})
ON_CPU = Horizontal("default", "web", "Deployment", "web", CPU)
HELD = Condition("HorizontallyScaled", "True", "ResourceHeld")
ONLY_MEMORY = ContainerPolicy("*", controlled_resources=(Resource.MEMORY,))


@pytest.mark.parametrize(
    ("fields", "horizontal", "expected"),
    [
        pytest.param({}, ON_CPU, [WARNING], id="the same resource"),
        pytest.param({"conditions": (HELD,)}, ON_CPU, [NOTE], id="what is shared is held"),
        pytest.param({"mode": UpdateMode.OFF}, ON_CPU, [NOTE], id="it only recommends"),
        pytest.param({"policies": (ONLY_MEMORY,)}, ON_CPU, [], id="another resource"),
        pytest.param(
            {"policies": (ContainerPolicy("*", ContainerMode.OFF),)}, ON_CPU, [], id="all are off"
        ),
        pytest.param(
            {"policies": (ContainerPolicy("side", ContainerMode.OFF),)},
            ON_CPU,
            [WARNING],
            id="one container is off",
        ),
        pytest.param(
            {}, Horizontal("default", "web", "Deployment", "web"), [], id="on another metric"
        ),
        pytest.param(
            {}, Horizontal("default", "x", "Deployment", "other", CPU), [], id="another workload"
        ),
        pytest.param(
            {}, Horizontal("shop", "web", "Deployment", "web", CPU), [], id="another namespace"
        ),
    ],
)
def test_two_autoscalers_of_one_resource_are_told(
    fields: dict[str, Any], horizontal: Horizontal, expected: list[Severity]
) -> None:
    found = list(check_horizontal([Governed(replace(an_autoscaler(), **fields))], [horizontal]))

    assert [one.severity for one in found] == expected
    assert all(one.subject == "default/web" for one in found)


def test_who_scales_a_workload_that_the_target_owns_is_told_too() -> None:
    target = TargetReference("App", "shop")
    owned = frozenset({ON_CPU.target})
    found = list(check_horizontal([Governed(an_autoscaler(target=target), owned=owned)], [ON_CPU]))

    assert [one.severity for one in found] == [WARNING]
    assert "scales Deployment web" in found[0].text


def bounds(*items: LimitRangeItem, left: int | None = None) -> Bounds:
    claim = QuotaClaim(Side.REQUESTS, Resource.MEMORY)
    quotas = () if left is None else (Quota("default", "all", {claim: left}),)
    return Bounds({"default": items}, {"default": quotas})


def item(**fields: object) -> LimitRangeItem:
    return LimitRangeItem(LimitRangeType.CONTAINER, **fields)  # type: ignore[arg-type]


POD = a_pod(a_container(requests=amounts(100, 100 * MIB)))
ADVICE = a_recommendation(target=amounts(200, 300 * MIB))
WANTING = Governed(an_autoscaler(ADVICE), pods=(POD, POD))


@pytest.mark.parametrize(
    ("governed", "given", "expected"),
    [
        pytest.param(WANTING, bounds(), [], id="nothing bounds it"),
        pytest.param(WANTING, bounds(item(max=amounts(200, 300 * MIB))), [], id="it just fits"),
        pytest.param(WANTING, bounds(item(max=amounts(100))), [WARNING], id="it is cut off"),
        pytest.param(
            WANTING, bounds(item(max=amounts(100, MIB))), [WARNING, WARNING], id="both are cut off"
        ),
        pytest.param(
            Governed(an_autoscaler(policies=(ContainerPolicy("*", min_allowed=amounts(500)),))),
            bounds(item(max=amounts(400))),
            [PROBLEM],
            id="the least is more than the most",
        ),
        pytest.param(
            Governed(an_autoscaler(policies=(ContainerPolicy("*", max_allowed=amounts(50)),))),
            bounds(item(min=amounts(60))),
            [PROBLEM],
            id="the most is less than the least",
        ),
        pytest.param(
            Governed(an_autoscaler(policies=(ContainerPolicy("*", max_allowed=amounts(60)),))),
            bounds(item(min=amounts(60))),
            [],
            id="both agree on one amount",
        ),
        pytest.param(WANTING, bounds(left=400 * MIB), [], id="a quota with just enough room"),
        pytest.param(WANTING, bounds(left=399 * MIB), [WARNING], id="a quota with too little"),
        pytest.param(WANTING, bounds(left=-MIB), [WARNING], id="a quota that is overdrawn"),
        pytest.param(
            Governed(an_autoscaler(a_recommendation(target=amounts(50, MIB))), pods=(POD,)),
            bounds(left=0),
            [],
            id="what shrinks needs no room",
        ),
        pytest.param(
            Governed(an_autoscaler(ADVICE)), bounds(left=0), [], id="without pods nothing grows"
        ),
    ],
)
def test_what_cannot_become_true_is_told(
    governed: Governed, given: Bounds, expected: list[Severity]
) -> None:
    found = list(check_bounds([governed], given))

    assert [one.severity for one in found] == expected
    assert all(one.subject == "default/web" and one.remedy for one in found)


def test_bounds_of_other_namespaces_do_not_matter() -> None:
    elsewhere = Bounds({"shop": (item(max=amounts(1)),)}, {"shop": (Quota("shop", "all"),)})

    assert list(check_bounds([WANTING], elsewhere)) == []
