"""Which recorded recommendations our decisions about usage change, judged by their input."""

import json
from typing import Any, Final

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.core.model import quantities
from trimtab.core.model.autoscalers import policy_for
from trimtab.core.model.resources import BOTH, Resource

_POD_FLOORS: Final = {Resource.CPU: 25, Resource.MEMORY: 250 * 1024 * 1024}


def has_container_without_samples(case: dict[str, Any]) -> bool:
    """Whether any container name of the selected pods has neither samples nor OOM kills."""
    return any(not sampled for sampled in _sampled_resources(case).values())


def has_resource_without_samples(case: dict[str, Any]) -> bool:
    """Whether a resource that is controlled of any selected container was never sampled."""
    autoscaler = decode_autoscaler(json.dumps(case["input"]["vpa"]).encode())
    return any(
        not sampled.issuperset(BOTH if policy is None else policy.controlled_resources)
        for name, sampled in _sampled_resources(case).items()
        for policy in [policy_for(autoscaler.policies, name)]
    )


def _sampled_resources(case: dict[str, Any]) -> dict[str, set[Resource]]:
    """What was sampled of each container name of the selected pods."""
    wanted = case["input"]["selector"]["matchLabels"].items()
    pods = [pod for pod in case["input"]["pods"] if wanted <= pod["labels"].items()]
    sampled: dict[str, set[Resource]] = {name: set() for pod in pods for name in pod["containers"]}
    fed = {(pod["name"], name) for pod in pods for name in pod["containers"]}
    for step in case["input"]["steps"]:
        if (step["pod"], step["container"]) in fed:
            sampled[step["container"]] |= _resources_of(step)
    return sampled


def _resources_of(step: dict[str, Any]) -> set[Resource]:
    if step["type"] == "oom":
        return {Resource.MEMORY}
    readings = {
        Resource.CPU: step.get("cpuMillicores") or (),
        Resource.MEMORY: step.get("memoryBytes") or (),
    }
    # A short series does not reach the later readings.
    return {
        resource
        for resource, amounts in readings.items()
        if any(amount >= 0 for amount in amounts[: step["count"]])
    }


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
