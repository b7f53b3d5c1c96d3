"""Which cases decision 0004 concerns (no invented amounts, no invalid pods), by their input."""

from collections.abc import Iterator
from typing import Any

from trimtab.core.model import quantities

RESOURCES = ("cpu", "memory")
ZERO = quantities.parse("0")

CAPPED_LINES = r"[^.]+\.(target|lowerBound|upperBound)\.(cpu|memory): (None|0) != |annotations: "
"""In a capped recommendation: an amount that the original made up, and the notes about it."""

LIMITED_LINES = r"[^.]+\.(target|lowerBound|upperBound)\.(cpu|memory): \d"
"""In a capped recommendation: amounts that another limit bounds."""

MINUS_ONE_LINES = (
    r"[^.]+\.(target|lowerBound|upperBound)\.memory: 0 != -1$"
    r"|patches\./spec/containers/\d+/resources/requests/memory: "
    r"\('add', Quantity\(mantissa=0, .* != \('add', Quantity\(mantissa=-1, "
    r"|containers\.[^.]+\.requests\.memory: 0 != -1$"
)
"""The original rounds a share of memory that comes to nothing down to minus one byte."""

MINIMUM_LINES = r"[^.]+\.(target|lowerBound|upperBound)\.(cpu|memory): |annotations: "
"""Amounts that reach the minimum of a pod, and the notes about later bounds on them."""

AMOUNT_LINES = (
    r"(patches\./metadata/annotations/|annotations\.)vpaUpdates: "
    r"|patches\./spec/containers/\d+/resources(/(requests|limits)(/(cpu|memory))?)?: "
    r"|containers\.[^.]+\.(requests|limits)\.(cpu|memory): "
)
"""In the answer to a pod: amounts, the maps that hold them, and the words about them."""

SCALED_LINES = r"[^.]+\.(target|lowerBound|upperBound)\.(cpu|memory): |annotations: "
"""Amounts of a pod that is scaled to the maximum of a pod-type limit range, and their notes."""

LIMIT_LINES = (
    r"(patches\./metadata/annotations/|annotations\.)vpaUpdates: "
    r"|patches\./spec/containers/\d+/resources/limits: None != "
    r"|patches\./spec/containers/\d+/resources/limits/(cpu|memory): "
    r"|containers\.[^.]+\.limits\.(cpu|memory): "
)

REMOVED_LIMIT_LINES = (
    r"patches\./spec/containers/\d+/resources/limits/(cpu|memory): \('remove', None\) != "
    r"|containers\.[^.]+\.limits\.(cpu|memory): None != 0$"
)

OTHER_RESOURCE_LINES = (
    r"(patches\./metadata/annotations/|annotations\.)vpaUpdates: "
    r"|patches\./spec/containers/\d+/resources/requests/(?!(cpu|memory): )[^:]+: None != "
    r"|[^.]+\.target\.(?!(cpu|memory): )[^:]+: None != |recommendation: \["
)


def has_gaps_in_a_pod_range(case: dict[str, Any]) -> bool:
    """A pod-type limit range meets an amount that is missing or zero."""
    entries = recommendations(case) or []
    known = {entry["containerName"] for entry in entries}
    amounts = [
        entry[name]
        for entry in entries
        for name in ("target", "lowerBound", "upperBound")
        if name in entry
    ]
    requests = [
        resources.get("requests") or {}
        for name, resources in allocations(case)
        if name not in known
    ]
    return has_pod_range(case) and any(
        is_nothing(given.get(kind)) for given in [*amounts, *requests] for kind in RESOURCES
    )


def has_maxima_of_both_types(case: dict[str, Any]) -> bool:
    """Limit ranges bound containers and whole pods from above, in the same resource."""
    maxima = [
        {kind for item in items(case) if item["type"] == type_ for kind in item.get("max") or {}}
        for type_ in ("Container", "Pod")
    ]
    return bool(maxima[0] & maxima[1])


def has_a_policy_but_no_recommendation(case: dict[str, Any]) -> bool:
    policy = case["input"].get("vpa", {}).get("spec", {}).get("resourcePolicy")
    return has_pod_range(case) and policy is not None and recommendations(case) is None


def reports_a_larger_limit(case: dict[str, Any]) -> bool:
    """The status of a container has a larger limit than its spec (decision 0068)."""
    pod = case["input"].get("pod") or {}
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    reported = {each["name"]: (each.get("resources") or {}).get("limits") for each in statuses}
    return any(
        quantities.parse(amount) > quantities.parse(asked[kind])
        for container in (pod.get("spec") or {}).get("containers") or []
        if (asked := (container.get("resources") or {}).get("limits"))
        for kind, amount in (reported.get(container["name"]) or {}).items()
        if kind in asked
    )


def has_other_resources_in_a_pod_range(case: dict[str, Any]) -> bool:
    """A container with other resources than CPU and memory has no recommendation of its own."""
    known = {entry["containerName"] for entry in recommendations(case) or []}
    return has_pod_range(case) and any(
        set(resources.get("requests") or {}) - set(RESOURCES)
        for name, resources in allocations(case)
        if name not in known
    )


def has_a_limit_below_its_request(case: dict[str, Any]) -> bool:
    return any(
        ZERO < limit < quantities.parse(request)
        for _, resources in allocations(case)
        for kind, request in (resources.get("requests") or {}).items()
        for limit in limits(case, resources, kind)
    )


def has_a_limit_of_zero(case: dict[str, Any]) -> bool:
    """A container names a limit, and the limit is nothing."""
    return any(
        quantities.parse(limit) == ZERO
        for _, resources in allocations(case)
        for limit in (resources.get("limits") or {}).values()
    )


def boosts_over_a_default_limit(case: dict[str, Any]) -> bool:
    """A boosted container has no CPU limit of its own, but its namespace has one for it."""
    gates = case["input"]["featureGates"]
    defaults = [item["default"] for item in items(case) if (item.get("default") or {}).get("cpu")]
    own = [(resources.get("limits") or {}).get("cpu") for _, resources in allocations(case)]
    return bool(gates.get("CPUStartupBoost") and defaults and any(map(is_nothing, own)))


def has_a_container_in_mode_off(case: dict[str, Any]) -> bool:
    """A container is not to be scaled, and the gate that makes the original heed that is off."""
    given = case["input"]
    policy = given["vpa"]["spec"].get("resourcePolicy") or {}
    modes = {entry.get("mode") for entry in policy.get("containerPolicies") or []}
    return "Off" in modes and not given["featureGates"].get("CPUStartupBoost")


def has_a_status(case: dict[str, Any]) -> bool:
    """A pod that is being created brings the resources of a status along."""
    statuses = case["input"]["pod"].get("status", {}).get("containerStatuses", [])
    return any(status.get("resources") is not None for status in statuses)


def recommendations(case: dict[str, Any]) -> list[dict[str, Any]] | None:
    recommendation = case["input"].get("vpa", {}).get("status", {}).get("recommendation")
    if recommendation is None:
        return None
    entries: list[dict[str, Any]] = recommendation.get("containerRecommendations") or []
    return entries


def has_a_mistaken_target(case: dict[str, Any]) -> bool:
    """A target of memory is less than a mebibyte."""
    targets = [entry.get("target") or {} for entry in recommendations(case) or []]
    return any(
        "memory" in each and quantities.parse(str(each["memory"])).whole() < 2**20
        for each in targets
    )


def items(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for limit_range in case["input"].get("limitRanges") or []:
        yield from limit_range["spec"].get("limits") or []


def has_pod_range(case: dict[str, Any]) -> bool:
    return any(item["type"] == "Pod" for item in items(case))


def has_pod_minimum(case: dict[str, Any]) -> bool:
    return any(item["type"] == "Pod" and item.get("min") for item in items(case))


def allocations(case: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The resources of each container: of its spec, and of its status if there is one."""
    pod = case["input"].get("pod", {"spec": {}})
    statuses = pod.get("status", {}).get("containerStatuses", [])
    for container in [*pod["spec"].get("containers", []), *statuses]:
        yield container["name"], container.get("resources") or {}


def limits(
    case: dict[str, Any], resources: dict[str, Any], kind: str
) -> Iterator[quantities.Quantity]:
    found = [resources.get("limits"), *(item.get("default") for item in items(case))]
    yield from (quantities.parse(given[kind]) for given in found if given and kind in given)


def is_nothing(text: str | None) -> bool:
    return text is None or quantities.parse(text) == ZERO
