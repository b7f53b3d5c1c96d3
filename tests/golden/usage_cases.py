"""Which recorded recommendations our decisions about usage change, judged by their input."""

from typing import Any, Final

from trimtab.core import quantities
from trimtab.core.resources import Resource

_POD_FLOORS: Final = {Resource.CPU: 25, Resource.MEMORY: 250 * 1024 * 1024}


def has_container_without_samples(case: dict[str, Any]) -> bool:
    """Whether any container name of the selected pods has neither samples nor OOM kills."""
    pods = {pod["name"]: pod for pod in case["input"]["pods"]}
    wanted = case["input"]["selector"]["matchLabels"].items()
    selected = {
        (pod["name"], container)
        for pod in pods.values()
        if wanted <= pod["labels"].items()
        for container in pod["containers"]
    }
    fed = {(step["pod"], step["container"]) for step in case["input"]["steps"] if _feeds(step)}
    names = {container for _, container in selected}
    return names != {container for _, container in selected & fed}


def _feeds(step: dict[str, Any]) -> bool:
    usage = [*(step.get("cpuMillicores") or ()), *(step.get("memoryBytes") or ())]
    return step["type"] == "oom" or (step["count"] > 0 and any(amount >= 0 for amount in usage))


def allows_less_than_the_floor(case: dict[str, Any]) -> bool:
    policy = case["input"]["vpa"]["spec"].get("resourcePolicy") or {}
    return any(
        0 < quantities.parse_amount(resource, entry["minAllowed"][resource]) < floor
        for entry in policy.get("containerPolicies") or []
        for resource, floor in _POD_FLOORS.items()
        if resource in (entry.get("minAllowed") or {})
    )


def has_reading_of_zero_bytes(case: dict[str, Any]) -> bool:
    return any(0 in (step.get("memoryBytes") or ()) for step in case["input"]["steps"])
