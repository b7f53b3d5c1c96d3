"""Which admission cases the decisions on the startup boost concern, judged by their input."""

import json
from collections.abc import Iterator
from typing import Any

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.limits import decode_limit_range
from trimtab.api.kinds.pods import decode_pod
from trimtab.core.model import quantities
from trimtab.core.model.autoscalers import Autoscaler, BoostType, CpuBoost, effective_boost
from trimtab.core.model.pods import Container, Pod
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.container_resources import controls_limits, is_off, recommended_for_pod
from trimtab.core.sizing.startup_boost import BoostError, boosted_millicores

BOOST_LINES = (
    r"(patches\./metadata/annotations/|annotations\.)(vpaCpuStartupBoost(~1|/)|vpaUpdates: )"
    r"|patches\./spec/containers/\d+/resources(/(requests|limits)(/cpu)?)?: "
    r"|containers\.[^.]+\.(requests|limits)\.cpu: "
)
"""What a boost more or less changes in an answer: its mark, CPU, and the words about it."""


def boosts_a_container_in_mode_off(case: dict[str, Any]) -> bool:
    pod, autoscaler = read(case)
    return any(is_off(autoscaler, container) for container, _ in boosted(case, pod, autoscaler))


def boosts_in_vain(case: dict[str, Any]) -> bool:
    """Whether some boost comes to less than the pod spec asks for, or to no more than advised."""
    pod, autoscaler = read(case)
    items = [
        item
        for one in case["input"]["limitRanges"]
        for item in decode_limit_range(json.dumps(one).encode())
    ]
    advice = recommended_for_pod(pod, autoscaler, items)
    for container, boost in boosted(case, pod, autoscaler):
        own = (container.spec.requests or {}).get(Resource.CPU, 0)
        requests = advice[container.name].requests if container.name in advice else {}
        advised = requests.get(Resource.CPU, own)
        try:
            amount = boosted_millicores(boost, advised or own)
        except BoostError:
            continue
        amount = original_amount(case, amount, container, autoscaler)
        if amount < own or amount <= advised:
            return True
    return False


def boosts_over_a_recommendation(case: dict[str, Any]) -> bool:
    """Return True if a boosted container has a recommendation for its CPU."""
    pod, autoscaler = read(case)
    known = {
        entry.container_name
        for entry in autoscaler.recommendation or ()
        if Resource.CPU in entry.target
    }
    return any(container.name in known for container, _ in boosted(case, pod, autoscaler))


def adds_to_a_limit(case: dict[str, Any]) -> bool:
    """Return True if a container with a limit gets a quantity more."""
    pod, autoscaler = read(case)
    return any(
        boost.type == BoostType.QUANTITY and Resource.CPU in (container.spec.limits or {})
        for container, boost in boosted(case, pod, autoscaler)
    )


def limits_a_boost_under_a_maximum(case: dict[str, Any]) -> bool:
    """Return True if a container with a limit is boosted, and a flag caps the boost."""
    pod, autoscaler = read(case)
    return bool(case["input"].get("maxAllowedCPUBoost")) and any(
        Resource.CPU in (container.spec.limits or {})
        for container, _ in boosted(case, pod, autoscaler)
    )


def read(case: dict[str, Any]) -> tuple[Pod, Autoscaler]:
    given = case["input"]
    return (
        decode_pod(json.dumps(given["pod"]).encode()),
        decode_autoscaler(json.dumps(given["vpa"]).encode()),
    )


def boosted(
    case: dict[str, Any], pod: Pod, autoscaler: Autoscaler
) -> Iterator[tuple[Container, CpuBoost]]:
    if not case["input"]["featureGates"].get("CPUStartupBoost"):
        return
    for container in pod.containers:
        boost = effective_boost(autoscaler, container.name)
        if boost is not None:
            yield container, boost


def original_amount(
    case: dict[str, Any], amount: int, container: Container, autoscaler: Autoscaler
) -> int:
    """The CPU that the original makes of a boost: under the flag's maximum, below the limit."""
    if maximum := case["input"].get("maxAllowedCPUBoost"):
        amount = min(amount, quantities.parse_amount(Resource.CPU, maximum) or amount)
    limit = (container.spec.limits or {}).get(Resource.CPU)
    if limit is None or amount <= limit or controls_limits(autoscaler, container):
        return amount
    return limit - 1 if limit > 1 else limit
