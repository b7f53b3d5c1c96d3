"""The updater's choice: how much pods want to change, which are accepted, in which order."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.pods import decode_pod
from trimtab.core.changes import change as requirements
from trimtab.core.changes import change as urgency
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.pods import Pod
from trimtab.core.sizing.capping import cap_for_pod


@dataclass(frozen=True)
class Wish:
    pod: Pod
    recommendation: tuple[ContainerRecommendation, ...]
    change: urgency.Change


def differences(case: dict[str, Any]) -> list[str]:
    now = datetime.fromisoformat(case["input"]["now"])
    autoscaler = decode_autoscaler(json.dumps(case["input"]["vpa"]).encode())
    pods = [decode_pod(json.dumps(pod).encode()) for pod in case["input"]["pods"]]
    wishes = [wish(pod, autoscaler) for pod in pods]
    gates = case["input"]["featureGates"]
    accepted = urgency.most_urgent_first(
        each for each in wishes if is_accepted(each, autoscaler, gates, now)
    )
    ours = {
        "priorities": {
            each.pod.name: {
                "outsideRecommendedRange": each.change.outside_bounds,
                "resourceDiff": each.change.relative_difference,
                "scaleUp": each.change.scale_up,
            }
            for each in wishes
        },
        "acceptedInOrder": [each.pod.name for each in accepted],
        "updateOrder": [
            each.pod.name
            for each in accepted
            if requirements.are_fulfilled(autoscaler.requirements, each.pod, each.recommendation)
        ],
    }
    return list(compare(ours, case["expected"]))


def wish(pod: Pod, autoscaler: Autoscaler) -> Wish:
    recommendation = cap_for_pod(
        autoscaler.recommendation, pod, autoscaler.policies
    ).recommendations
    return Wish(pod, recommendation, urgency.measure_change(pod, recommendation))


def is_accepted(
    candidate: Wish, autoscaler: Autoscaler, gates: dict[str, bool], now: datetime
) -> bool:
    thresholds = urgency.Thresholds()
    quick = urgency.quick_oom_threshold(
        autoscaler,
        thresholds.quick_oom,
        per_autoscaler=gates.get("PerVPAConfig", False),
    )
    reason = urgency.reason_to_wait(
        candidate.change,
        quick_oom=urgency.is_quick_oom(candidate.pod, autoscaler, quick, now),
        age=urgency.age_of(candidate.pod, None, now),
        thresholds=thresholds,
    )
    return reason is None


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> Any:
    for key in ("acceptedInOrder", "updateOrder"):
        if ours[key] != theirs[key]:
            yield f"{key}: {ours[key]} != {theirs[key]}"
    for name, change in theirs["priorities"].items():
        for key, value in change.items():
            mine = ours["priorities"].get(name, {}).get(key)
            if mine != pytest.approx(value, rel=1e-9, abs=0):
                yield f"priorities.{name}.{key}: {mine} != {value}"
