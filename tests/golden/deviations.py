"""The one table of answers that differ from the original's on purpose, each with its decision.

`D1` … `D16` are the project's founding decisions, `0002` … the pages of `docs/decisions/`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from golden import amount_cases, patch_cases
from golden.boost_cases import (
    BOOST_LINES,
    adds_to_a_limit,
    boosts_a_container_in_mode_off,
    boosts_in_vain,
    boosts_over_a_recommendation,
    limits_a_boost_under_a_maximum,
)
from golden.disruption_cases import (
    boosts_in_a_small_group,
    has_pending_pods,
    has_pods_of_jobs,
    has_pods_of_other_kinds,
    requests_finely,
    requirements_look_at_several,
)
from golden.usage_cases import (
    allows_less_than_the_floor,
    has_container_without_samples,
    has_reading_of_zero_bytes,
    has_resource_without_samples,
)


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


_NEWLY_REFUSED: Final = (
    r"allowed: False != True$|message: |patches: \[\] != "
    r"|errors: ['\"]spec\.{field}.* != absent$"
)
"""Of the webhook's answer: the error of a field, and what follows from there being an error."""


def _has_odd_requirements(spec: dict[str, Any]) -> bool:
    listed = (spec.get("updatePolicy") or {}).get("evictionRequirements") or []
    resources = [set(entry.get("resources") or []) for entry in listed]
    named: list[str] = [name for entry in resources for name in entry]
    repeated = len(named) != len(set(named))
    return repeated or not all(resources) or not {"cpu", "memory"}.issuperset(named)


def _boosts(spec: dict[str, Any]) -> list[dict[str, Any]]:
    policies = (spec.get("resourcePolicy") or {}).get("containerPolicies") or []
    holders = [spec, *policies]
    return [(holder.get("startupBoost") or {}).get("cpu") or {} for holder in holders]


def _is_contradictory(boost: dict[str, Any]) -> bool:
    foreign = {"Factor": "quantity", "Quantity": "factor"}.get(boost.get("type", ""), "")
    is_negative = amount_cases.is_negative(boost.get("quantity"))
    return boost.get(foreign) is not None or is_negative or (boost.get("durationSeconds") or 0) < 0


DEVIATIONS: Final[tuple[Deviation, ...]] = (
    Deviation(
        set="quantity",
        decision="D16",
        reason="numbers that wrapped round or were rounded wrongly are marked; ours are right",
        applies=lambda case: bool(case["expected"].get("quirk")),
        # Above 1000E the original runs out of suffixes and prints the number without any.
        where=r"(milliValue|value): |(canonical|string): '-?\d+000E' != '-?\d+'$",
    ),
    Deviation(
        set="vpa_validation",
        decision="D3",
        reason="eviction requirements that overlap, or name no or an unknown resource, are refused",
        applies=lambda case: _has_odd_requirements(case["input"]["object"]["spec"]),
        where=_NEWLY_REFUSED.format(field=r"updatePolicy\.evictionRequirements\[\d+\]\.resources"),
    ),
    Deviation(
        set="vpa_validation",
        decision="0003",
        reason="a boost with a member of the other type, a negative amount or time is refused",
        applies=lambda case: any(map(_is_contradictory, _boosts(case["input"]["object"]["spec"]))),
        where=_NEWLY_REFUSED.format(
            field=r"(resourcePolicy\.containerPolicies\[\d+\]\.)?startupBoost\.cpu\."
            "(factor|quantity|durationSeconds)"
        ),
    ),
    Deviation(
        set="vpa_validation",
        decision="0004",
        reason="bounds below zero are refused",
        applies=lambda case: amount_cases.has_negative_bounds(case["input"]["object"]),
        where=_NEWLY_REFUSED.format(
            field=r"resourcePolicy\.containerPolicies\[\d+\]\.(min|max)Allowed\[(cpu|memory)\]"
        ),
    ),
    Deviation(
        set="vpa_validation",
        decision="0004",
        reason="a quantity that cannot be read is an error of its field, not an internal one",
        applies=lambda case: amount_cases.has_unreadable_quantity(case["input"]["object"]),
        where=r"message: |errors: ['\"]spec\.(resourcePolicy|startupBoost)\."
        r".* quantities must match .* != absent$"
        r"|errors: absent != ['\"]\.: Internal error: quantities must match ",
    ),
    Deviation(
        set="admission",
        decision="D5",
        reason="a container in mode Off is boosted too",
        applies=boosts_a_container_in_mode_off,
        where=rf"{BOOST_LINES}|error: startupBoost\.cpu\.\w+: .* != None$",
    ),
    Deviation(
        set="admission",
        decision="0043",
        reason="the mark of a boost also has the CPU that the container gets without it",
        applies=boosts_over_a_recommendation,
        where=r"(patches\./metadata/annotations/|annotations\.)vpaCpuStartupBoost(~1|/)",
    ),
    Deviation(
        set="admission",
        decision="D7",
        reason="a boost never lowers a container, and one that does not raise it is none",
        applies=boosts_in_vain,
        where=BOOST_LINES,
    ),
    Deviation(
        set="admission",
        decision="0004",
        reason="what was once recommended for a container in mode Off is not applied to it",
        applies=patch_cases.has_a_container_in_mode_off,
        where=patch_cases.AMOUNT_LINES,
    ),
    Deviation(
        set="admission",
        decision="0046",
        reason="a quantity is added to the limit, which the original scales in proportion",
        applies=adds_to_a_limit,
        where=patch_cases.LIMIT_LINES,
    ),
    Deviation(
        set="admission",
        decision="0046",
        reason="the maximum for boosts holds for limits as well as for requests",
        applies=limits_a_boost_under_a_maximum,
        where=patch_cases.LIMIT_LINES,
    ),
    Deviation(
        set="priority",
        decision="0002",
        reason="a pod cannot have a request finer than a millicore or a byte",
        applies=requests_finely,
        where=r"acceptedInOrder: |updateOrder: |priorities\.[^.]+\.outsideRecommendedRange: ",
    ),
    Deviation(
        set="priority",
        decision="D2",
        reason="different containers may serve different requirements, a missing request grows",
        applies=requirements_look_at_several,
        where="updateOrder: ",
    ),
    Deviation(
        set="eviction_limits",
        decision="0005",
        reason="of an owner that does not say how many pods it wants, not all go down at once",
        applies=has_pods_of_other_kinds,
        where="(canEvictAtFirst|updateOrder|attempts|evicted|evictedCount|plan): ",
    ),
    Deviation(
        set="eviction_limits",
        decision="0005",
        reason="a boosted pod does not open a group that is below its minimum",
        applies=boosts_in_a_small_group,
        where="(canEvictAtFirst|updateOrder|attempts|evicted|evictedCount|plan): ",
    ),
    Deviation(
        set="eviction_limits",
        decision="0050",
        reason="a Job counts an eviction as a failure, and may fail for it",
        applies=has_pods_of_jobs,
        where="plan: ",
    ),
    Deviation(
        set="eviction_limits",
        decision="0055",
        reason="a pod that does not run yet is evicted only to shrink, and only without a node",
        applies=has_pending_pods,
        where="plan: ",
    ),
    Deviation(
        set="recommendation",
        decision="D11",
        reason="of a container without samples nothing is known, so nothing is recommended",
        applies=has_container_without_samples,
        where=r"recommendation\.[^.]+: no samples != ",
    ),
    Deviation(
        set="recommendation",
        decision="0009",
        reason="of a resource without samples nothing is known, so nothing is recommended",
        applies=has_resource_without_samples,
        where=r"recommendation\.[^.]+(\.\w+\.(cpu|memory): None|: no samples) != ",
    ),
    Deviation(
        set="capping",
        decision="0068",
        reason="requests stay below the limit of the spec, also where a larger one is reported",
        applies=patch_cases.reports_a_larger_limit,
        where=patch_cases.LIMITED_LINES,
    ),
    Deviation(
        set="capping",
        decision="0004",
        reason="a pod-type limit range makes up no amount where none is recommended",
        applies=patch_cases.has_gaps_in_a_pod_range,
        where=patch_cases.CAPPED_LINES,
    ),
    Deviation(
        set="capping",
        decision="0069",
        reason="what one container may not have is left to the others of its pod",
        applies=patch_cases.has_maxima_of_both_types,
        where=patch_cases.SCALED_LINES,
    ),
    Deviation(
        set="capping",
        decision="0004",
        reason="without a recommendation a pod-type limit range has nothing to work on",
        applies=patch_cases.has_a_policy_but_no_recommendation,
        where=r"recommendation: \[\] != |annotations: \{\} != ",
    ),
    Deviation(
        set="capping",
        decision="0004",
        reason="resources other than CPU and memory are not recommended",
        applies=patch_cases.has_other_resources_in_a_pod_range,
        where=patch_cases.OTHER_RESOURCE_LINES,
    ),
    Deviation(
        set="admission",
        decision="0004",
        reason="a pod-type limit range makes up no amount where none is recommended",
        applies=patch_cases.has_gaps_in_a_pod_range,
        where=patch_cases.AMOUNT_LINES,
    ),
    Deviation(
        set="admission",
        decision="0004",
        reason="resources other than CPU and memory are not written",
        applies=patch_cases.has_other_resources_in_a_pod_range,
        where=patch_cases.OTHER_RESOURCE_LINES,
    ),
    Deviation(
        set="admission",
        decision="0004",
        reason="a limit is never written below its request",
        applies=patch_cases.has_a_limit_below_its_request,
        where=patch_cases.LIMIT_LINES,
    ),
    Deviation(
        set="admission",
        decision="0004",
        reason="a limit of zero, above which no request is valid, is taken away",
        applies=patch_cases.has_a_limit_of_zero,
        where=patch_cases.REMOVED_LIMIT_LINES,
    ),
    Deviation(
        set="admission",
        decision="0004",
        reason="a boost lifts the limit with the request",
        applies=patch_cases.boosts_over_a_default_limit,
        where=patch_cases.LIMIT_LINES,
    ),
    Deviation(
        set="admission",
        decision="0004",
        reason="the maps that a patch needs are those that the spec lacks",
        applies=patch_cases.has_a_status,
        where=patch_cases.AMOUNT_LINES,
    ),
    Deviation(
        set="capping",
        decision="0004",
        reason="a share of memory that comes to nothing is zero, not minus one",
        applies=patch_cases.has_pod_range,
        where=patch_cases.MINUS_ONE_LINES,
    ),
    Deviation(
        set="admission",
        decision="0005",
        reason="a target with which no container starts is left out",
        applies=patch_cases.has_a_mistaken_target,
        where=patch_cases.AMOUNT_LINES,
    ),
    Deviation(
        set="admission",
        decision="0021",
        reason="a pod reaches the minimum of its limit range, by requests too and to the byte",
        applies=patch_cases.has_pod_minimum,
        where=patch_cases.AMOUNT_LINES,
    ),
    Deviation(
        set="capping",
        decision="0021",
        reason="a pod reaches the minimum of its limit range, by requests too and to the byte",
        applies=patch_cases.has_pod_minimum,
        where=patch_cases.MINIMUM_LINES,
    ),
    Deviation(
        set="capping",
        decision="0004",
        reason="amounts below zero bound nothing and are not given to pods",
        applies=amount_cases.advises_or_bounds_below_zero,
        where=amount_cases.NEGATIVE_LINES,
    ),
    Deviation(
        set="admission",
        decision="0004",
        reason="amounts below zero bound nothing and are not given to pods",
        applies=amount_cases.advises_or_bounds_below_zero,
        where=amount_cases.NEGATIVE_LINES,
    ),
    Deviation(
        set="recommendation",
        decision="D15",
        reason="a user who allows less than the pod's floor gets it",
        applies=allows_less_than_the_floor,
        where=r"recommendation\.[^.]+\.\w+\.(cpu|memory): ",
    ),
    Deviation(
        set="recommendation",
        decision="D16",
        reason="a window that begins with zero bytes is not blind to what follows",
        applies=has_reading_of_zero_bytes,
        where=r"aggregates\.[^.]+\.memoryHistogram: |recommendation\.[^.]+\.\w+\.memory: ",
    ),
)
