"""Autoscalers with their policies and recommendations."""

from collections.abc import Sequence

from oracle.draws import amounts
from oracle.draws.dice import Dice, Json


def an_autoscaler(
    *,
    update_policy: Json = None,
    policies: list[Json] | None = None,
    recommendations: list[Json] | None = None,
    startup_boost: Json = None,
) -> Json:
    """An autoscaler of the Deployment `web`; what is None is left out."""
    spec: Json = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    if update_policy is not None:
        spec["updatePolicy"] = update_policy
    if policies is not None:
        spec["resourcePolicy"] = {"containerPolicies": policies}
    if startup_boost is not None:
        spec["startupBoost"] = startup_boost
    autoscaler = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web-vpa", "namespace": "default"},
        "spec": spec,
    }
    if recommendations is not None:
        autoscaler["status"] = {"recommendation": {"containerRecommendations": recommendations}}
    return autoscaler


def a_container_policy(dice: Dice, names: Sequence[str]) -> Json:
    """The policy of one container, or of all."""
    return {
        "containerName": dice.one_of(names),
        **dice.fields(
            {
                "minAllowed": (0.35, lambda: amounts.some_resources(dice, each=0.7, zero=0.08)),
                "maxAllowed": (0.35, lambda: amounts.some_resources(dice, each=0.7, zero=0.08)),
                "controlledValues": (
                    0.4,
                    lambda: dice.one_of(["RequestsOnly", "RequestsOnly", "RequestsAndLimits"]),
                ),
                "mode": (0.25, lambda: dice.one_of(["Auto", "Auto", "Off"])),
                "controlledResources": (0.2, lambda: dice.some_of(amounts.RESOURCES, at_least=1)),
            }
        ),
    }


def some_recommendations(
    dice: Dice, containers: Sequence[str], *, finer: float = 0.0
) -> list[Json]:
    """Recommendations for most of the containers, seldom for one that is not there."""
    names = [name for name in containers if dice.happens(0.88)]
    if dice.happens(0.07):
        names.insert(dice.between(0, len(names)), "ghost")
    if dice.happens(0.1):
        names = dice.shuffled(names)
    return [a_recommendation_for(dice, name, finer=finer) for name in names]


def a_recommendation_for(dice: Dice, name: str, *, finer: float = 0.0) -> Json:
    """Target and bounds of one container; the bounds may be missing or lie anywhere."""
    each = dice.one_of([1.0, 1.0, 1.0, 0.6])
    target = amounts.some_resources(dice, each=each, zero=0.02)
    recommendation: Json = {"containerName": name, "target": target}
    if dice.happens(0.9):
        recommendation["uncappedTarget"] = dict(target)
    for bound in ("lowerBound", "upperBound"):
        if dice.happens(0.93):
            drawn = {key: amounts.an_amount(dice, key, zero=0.02, finer=finer) for key in target}
            recommendation[bound] = dict(target) if dice.happens(0.2) else drawn
    return recommendation


def a_boost(dice: Dice) -> Json:
    """A startup boost of CPU, seldom one that the original cannot apply."""
    kind = dice.one_of(["Factor", "Factor", "Quantity", None if dice.happens(0.2) else "Factor"])
    cpu: Json = {} if kind is None else {"type": kind}
    if (kind != "Quantity") != dice.happens(0.04):
        cpu["factor"] = dice.one_of([1, 2, 2, 3, 5, 10, 0 if dice.happens(0.2) else 4])
    if (kind == "Quantity") != dice.happens(0.04):
        cpu["quantity"] = amounts.an_amount(dice, "cpu", finer=0.05)
    if dice.happens(0.3):
        cpu["durationSeconds"] = dice.between(0, 600)
    return {"cpu": cpu}
