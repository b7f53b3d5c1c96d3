"""Autoscalers as users write them, with any mix of mistakes, for the webhook and the schema."""

from oracle.draws import amounts
from oracle.draws.dice import Dice, Json
from oracle.draws.policies import a_boost, an_autoscaler

GATES = ["CPUStartupBoost", "InPlace", "PerVPAConfig"]
MODES = ["Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace"]


def a_review(dice: Dice) -> Json:
    """A create or an update, with each gate on or off."""
    question = {
        "featureGates": {gate: True for gate in GATES if dice.happens(0.45)},
        "object": _autoscaler(dice),
        "operation": "CREATE",
    }
    if dice.happens(0.4):
        question["operation"] = "UPDATE"
        question["oldObject"] = _before(dice, question["object"])
    return question


def _autoscaler(dice: Dice) -> Json:
    autoscaler = an_autoscaler(
        update_policy=_update_policy(dice) if dice.happens(0.75) else None,
        policies=[_policy(dice) for _ in range(dice.between(0, 3))] if dice.happens(0.7) else None,
        startup_boost=_boost(dice) if dice.happens(0.3) else None,
    )
    spec = autoscaler["spec"]
    if dice.happens(0.05):
        del spec["targetRef"]
    elif dice.happens(0.05):
        spec["targetRef"].pop(dice.one_of(["name", "kind", "apiVersion"]))
    if dice.happens(0.2):
        spec["recommenders"] = [
            {"name": "alternative"} if dice.happens(0.9) else {} for _ in range(dice.between(0, 2))
        ]
    return autoscaler


def _before(dice: Dice, new: Json) -> Json:
    if dice.happens(0.5):
        return _autoscaler(dice)
    kept = {name: held for name, held in new["spec"].items() if dice.happens(0.7)}
    return {**new, "spec": kept}


def _update_policy(dice: Dice) -> Json:
    wrong = ["", "recreate", "Sometimes"]
    return dice.fields(
        {
            "updateMode": (0.92, lambda: dice.one_of(MODES if dice.happens(0.9) else wrong)),
            "minReplicas": (0.25, lambda: dice.one_of([-1, 0, 1, 2, 5])),
            "evictAfterOOMSeconds": (0.25, lambda: dice.one_of([-5, 0, 1, 600])),
            "evictionRequirements": (
                0.25,
                lambda: [_requirement(dice) for _ in range(dice.between(0, 2))],
            ),
        }
    )


def _requirement(dice: Dice) -> Json:
    directions = ["TargetHigherThanRequests", "TargetLowerThanRequests"]
    if dice.happens(0.1):
        directions = ["TargetEqual"]
    return dice.fields(
        {
            "resources": (0.95, lambda: dice.some_of(["cpu", "memory"], at_least=1)),
            "changeRequirement": (0.95, lambda: dice.one_of(directions)),
        }
    )


def _policy(dice: Dice) -> Json:
    return dice.fields(
        {
            "containerName": (0.95, lambda: dice.one_of(["app", "side", "*", "app", ""])),
            "mode": (0.3, lambda: dice.one_of(["Auto", "Off", "Off", "Maybe"])),
            "minAllowed": (0.4, lambda: amounts.some_resources(dice, finer=0.08)),
            "maxAllowed": (0.4, lambda: amounts.some_resources(dice, finer=0.08)),
            "controlledValues": (
                0.3,
                lambda: dice.one_of(
                    ["RequestsOnly", "RequestsAndLimits", "RequestsAndLimits", "Limits"]
                ),
            ),
            "controlledResources": (0.3, lambda: _controlled(dice)),
            "oomBumpUpRatio": (
                0.2,
                lambda: dice.one_of(["0.9", "1", "1.2", "2", "1500m", "999m", 2]),
            ),
            "oomMinBumpUp": (0.2, lambda: dice.one_of(["-1", "0", "100Mi", "1", "-500m", 1048576])),
            "memoryAggregationIntervalSeconds": (0.15, lambda: dice.one_of([-1, 0, 1, 3600])),
            "memoryAggregationIntervalCount": (0.15, lambda: dice.one_of([-1, 0, 1, 8])),
            "startupBoost": (0.2, lambda: _boost(dice)),
        }
    )


def _controlled(dice: Dice) -> list[str]:
    names = ["cpu", "memory", "example.com/gpu", "storage"]
    return dice.some_of(names[: 2 if dice.happens(0.7) else 4])


def _boost(dice: Dice) -> Json:
    boost = a_boost(dice)
    if dice.happens(0.08):
        return {}
    if dice.happens(0.08):
        boost["cpu"]["type"] = dice.one_of(["Double", "", "factor"])
    if dice.happens(0.05):
        boost["cpu"]["durationSeconds"] = -1
    return boost
