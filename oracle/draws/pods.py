"""Pods with limit ranges and an autoscaler, for capping and for the pod webhook."""

from collections.abc import Sequence
from typing import Final

from oracle.draws import amounts
from oracle.draws.dice import Dice, Json
from oracle.draws.policies import (
    a_boost,
    a_container_policy,
    a_recommendation_for,
    an_autoscaler,
    some_recommendations,
)

CONTAINERS: Final = ["app", "side", "proxy", "log"]
MODES: Final = [
    "Recreate",
    "Recreate",
    "Recreate",
    "Initial",
    "Auto",
    "InPlaceOrRecreate",
    "Off",
    "InPlace",
]


def an_admission(dice: Dice) -> Json:
    """A pod that reaches the webhook."""
    containers = some_containers(dice)
    boosted = dice.happens(0.45)
    policies = some_policies(dice, containers, boosted=boosted)
    autoscaler = an_autoscaler(
        update_policy={"updateMode": dice.one_of(MODES)} if dice.happens(0.9) else None,
        policies=policies,
        recommendations=some_recommendations(dice, containers) if dice.happens(0.92) else None,
        startup_boost=a_boost(dice) if boosted and dice.happens(0.7) else None,
    )
    question = {
        "featureGates": {"CPUStartupBoost": True} if boosted and dice.happens(0.9) else {},
        "limitRanges": some_limit_ranges(dice),
        "pod": _new_pod(dice, containers),
        "vpa": autoscaler,
    }
    if boosted and dice.happens(0.3):
        question["maxAllowedCPUBoost"] = amounts.an_amount(dice, "cpu")
    return question


def a_capping(dice: Dice) -> Json:
    """A recommendation to bring inside policies and limit ranges."""
    containers = some_containers(dice)
    if dice.happens(0.2):
        return _for_recommender(dice, containers)
    autoscaler = an_autoscaler(
        update_policy={"updateMode": "Recreate"},
        policies=some_policies(dice, containers),
        recommendations=some_recommendations(dice, containers) if dice.happens(0.95) else None,
    )
    return {
        "function": "forPod",
        "limitRanges": some_limit_ranges(dice),
        "pod": a_pod(dice, "web-0", containers, statuses=0.15),
        "vpa": autoscaler,
    }


def _for_recommender(dice: Dice, containers: Sequence[str]) -> Json:
    question: Json = {
        "function": "forRecommender",
        "containerPolicies": some_policies(dice, containers),
        "containerRecommendations": [a_recommendation_for(dice, name) for name in containers],
    }
    if dice.happens(0.6):
        question["globalMaxAllowed"] = amounts.some_resources(dice, zero=0.0)
    return question


def some_containers(dice: Dice) -> list[str]:
    """Names of one to four containers, mostly one or two."""
    return CONTAINERS[: dice.one_of([1, 1, 2, 2, 3, 4])]


def some_policies(
    dice: Dice, containers: Sequence[str], *, boosted: bool = False
) -> list[Json] | None:
    """Policies for some containers, by name or wildcard, some of them for nobody."""
    if dice.happens(0.35):
        return None
    policies = [
        a_container_policy(dice, [*containers, "*", "*", "other"])
        for _ in range(dice.between(0, 3))
    ]
    for policy in policies:
        if boosted and dice.happens(0.4):
            policy["startupBoost"] = a_boost(dice)
    return policies


def a_pod(dice: Dice, name: str, containers: Sequence[str], *, statuses: float = 0.0) -> Json:
    """A pod whose containers have any mix of requests and limits."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [a_container(dice, container) for container in containers]},
    }
    if dice.happens(statuses):
        reported = [container for container in containers if dice.happens(0.8)]
        pod["status"] = {"containerStatuses": [a_status(dice, container) for container in reported]}
    return pod


def a_container(dice: Dice, name: str) -> Json:
    """A container as it stands in a pod's spec."""
    container: Json = {"name": name, "image": "registry.example/app:1"}
    resources = container_resources(dice)
    if resources or dice.happens(0.2):
        container["resources"] = resources
    return container


def container_resources(dice: Dice) -> Json:
    """Requests and limits: absent, equal, in some ratio, or only one of the two."""
    if dice.happens(0.1):
        return {}
    requests, limits = {}, {}
    for resource in amounts.RESOURCES:
        # The API server refuses a limit below its request.
        request, limit = amounts.ascending(dice, resource, count=2)
        shape = dice.fraction()
        if shape < 0.85:
            requests[resource] = request
        if shape < 0.2:
            limits[resource] = request
        elif shape < 0.6 or shape > 0.93:
            limits[resource] = limit
    if dice.happens(0.04):
        requests["example.com/gpu"] = limits["example.com/gpu"] = "1"
    present = {"requests": requests, "limits": limits}
    return {name: held for name, held in present.items() if held or dice.happens(0.02)}


def a_status(dice: Dice, name: str) -> Json:
    """A container status, mostly with the resources that the kubelet applied."""
    status: Json = {"name": name, "ready": True, "restartCount": 0, "image": "", "imageID": ""}
    if dice.happens(0.8):
        status["resources"] = container_resources(dice)
    return status


def some_limit_ranges(dice: Dice) -> list[Json]:
    """Up to three objects; the original leaves to chance which of several defaults wins."""
    if dice.happens(0.5):
        return []
    with_default = dice.between(0, 2)
    return [
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": f"limits-{number}", "namespace": "default"},
            "spec": {
                "limits": [
                    _limits(dice, default=number == with_default) for _ in range(dice.between(1, 2))
                ]
            },
        }
        for number in range(dice.between(1, 3))
    ]


def _limits(dice: Dice, *, default: bool) -> Json:
    kind = dice.one_of(
        ["Container", "Container", "Container", "Pod", "Pod", "PersistentVolumeClaim"]
    )
    return {
        "type": kind,
        **dice.fields(
            {
                "max": (0.6, lambda: amounts.some_resources(dice, zero=0.02)),
                "min": (0.35, lambda: amounts.some_resources(dice, zero=0.02)),
                "default": (0.4 if default else 0.0, lambda: amounts.some_resources(dice)),
                "defaultRequest": (0.1, lambda: amounts.some_resources(dice)),
            }
        ),
    }


def _new_pod(dice: Dice, containers: Sequence[str]) -> Json:
    pod = a_pod(dice, "p", containers)
    if dice.happens(0.2):
        del pod["metadata"]["name"]
        pod["metadata"]["generateName"] = "web-"
    if dice.happens(0.25):
        pod["metadata"]["annotations"] = dice.one_of(
            [{}, {"team/owner": "a~b"}, {"vpaUpdates": "old"}]
        )
    return pod
