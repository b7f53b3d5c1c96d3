"""Running pods for the updater: whom it would update, and how many of a group at once."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from oracle.draws import amounts
from oracle.draws.dice import Dice, Json, stamp
from oracle.draws.pods import a_pod, a_status, some_containers, some_policies
from oracle.draws.policies import an_autoscaler, some_recommendations

NOW: Final = datetime(2024, 3, 10, 12, tzinfo=UTC)
MINUTE: Final = 60
HOUR: Final = 3600
KINDS: Final = [
    "ReplicaSet",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "ReplicationController",
    "Job",
]
STORED_KINDS: Final = {"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"}


def some_priorities(dice: Dice) -> Json:
    """Pods of one autoscaler at one moment."""
    containers = some_containers(dice)
    with_config = dice.happens(0.15)
    pods = [_running_pod(dice, f"p{number}", containers) for number in range(dice.between(1, 8))]
    update_policy: Json = {
        "updateMode": dice.one_of(["Recreate", "Recreate", "Auto", "InPlaceOrRecreate"])
    }
    if dice.happens(0.45):
        update_policy["evictionRequirements"] = _requirements(dice)
    if with_config:
        update_policy["evictAfterOOMSeconds"] = dice.one_of([60, 300, 600, 3600])
    return {
        "featureGates": {"PerVPAConfig": True} if with_config and dice.happens(0.8) else {},
        "now": stamp(NOW),
        "pods": pods,
        "vpa": an_autoscaler(
            update_policy=update_policy if dice.happens(0.95) else None,
            policies=some_policies(dice, containers),
            recommendations=_recommendations(dice, containers, pods),
        ),
    }


def _recommendations(dice: Dice, containers: Sequence[str], pods: list[Json]) -> list[Json] | None:
    if dice.happens(0.04):
        return None
    recommendations = some_recommendations(dice, containers, finer=0.02)
    # Often near what a pod requests, else nearly every pod would lie outside its bounds.
    for recommendation in recommendations:
        if dice.happens(0.6):
            _surround(dice, recommendation, dice.one_of(pods))
    return recommendations


def _surround(dice: Dice, recommendation: Json, pod: Json) -> None:
    for container in pod["spec"]["containers"]:
        requests = container.get("resources", {}).get("requests", {})
        if container["name"] == recommendation["containerName"]:
            wanted = {
                name: amount for name, amount in requests.items() if name in amounts.RESOURCES
            }
            recommendation["target"] = {name: _near(dice, wanted[name]) for name in wanted}
            recommendation["lowerBound"] = {
                name: dice.one_of(["1", wanted[name]]) for name in wanted
            }
            recommendation["upperBound"] = {
                name: dice.one_of(["1P", wanted[name]]) for name in wanted
            }


def _near(dice: Dice, amount: str) -> str:
    digits = amount.rstrip("mkMGiKePu")
    if dice.happens(0.2) or not digits.isdigit():
        return amount
    nearby = max(0, round(int(digits) * dice.one_of([0.5, 0.9, 0.95, 1.05, 1.1, 1.2, 2.0])))
    return f"{nearby}{amount[len(digits) :]}"


def _requirements(dice: Dice) -> list[Json]:
    return [
        {
            "resources": dice.some_of(["cpu", "memory"], at_least=1),
            "changeRequirement": dice.one_of(
                ["TargetHigherThanRequests", "TargetLowerThanRequests"]
            ),
        }
        for _ in range(dice.between(0, 2))
    ]


def _running_pod(dice: Dice, name: str, containers: Sequence[str]) -> Json:
    pod = a_pod(dice, name, containers)
    if dice.happens(0.2):
        pod["metadata"]["annotations"] = {"vpaObservedContainers": _observed(dice, containers)}
    pod["status"] = {"phase": dice.one_of(["Running", "Running", "Running", "Pending"])}
    if dice.happens(0.95):
        age = dice.one_of(
            [HOUR, 11 * HOUR, 12 * HOUR - 1, 12 * HOUR, 12 * HOUR + 1, 13 * HOUR, 240 * HOUR]
        )
        pod["status"]["startTime"] = stamp(NOW, -age)
    if dice.happens(0.3):
        reported = [container for container in containers if dice.happens(0.8)]
        pod["status"]["containerStatuses"] = [_status(dice, container) for container in reported]
    return pod


def _observed(dice: Dice, containers: Sequence[str]) -> str:
    names = ", ".join(dice.some_of(containers))
    return dice.one_of(
        [names, ", ".join(containers), names, ",".join(containers), "App", "app, ", " app"]
    )


def _status(dice: Dice, name: str) -> Json:
    status = a_status(dice, name)
    if dice.happens(0.7):
        status.pop("resources", None)
    if dice.happens(0.6):
        lasted, ago = (dice.one_of([5, 599, 600, 601, 59, HOUR, 7 * MINUTE]) for _ in range(2))
        status["lastState"] = {
            "terminated": {
                "exitCode": 137,
                "reason": dice.one_of(["OOMKilled", "OOMKilled", "OOMKilled", "Error"]),
                "startedAt": stamp(NOW, -ago - lasted),
                "finishedAt": stamp(NOW, -ago),
            }
        }
    return status


def some_evictions(dice: Dice) -> Json:
    """Groups of replicas with the updater's flags, and perhaps the order of attempts."""
    groups = [_group(dice, number) for number in range(dice.one_of([1, 1, 1, 2, 3]))]
    # Up to twelve elements the original's sort keeps the order of equal ones.
    pods = [pod for _, members in groups for pod in members][:12]
    if dice.happens(0.3):
        pods = dice.shuffled(pods)
    for number, pod in enumerate(pods):
        _request(dice, pod, number)
    question = {
        "controllers": [controller for controller, _ in groups if controller is not None],
        "evictionTolerance": dice.one_of(
            [0, 0.1, 0.25, 0.5, 0.5, 0.7, 0.99, 1, round(dice.fraction(), 2)]
        ),
        "inPlaceSkipDisruptionBudget": dice.happens(0.15),
        "minReplicas": dice.one_of([0, 1, 2, 2, 2, 3, 5]),
        "pods": pods,
        "vpa": _evicting_autoscaler(dice),
    }
    if dice.happens(0.4):
        names = [pod["metadata"]["name"] for pod in pods]
        question["attempts"] = [dice.one_of(names) for _ in range(dice.between(1, 8))]
    return question


def _group(dice: Dice, number: int) -> tuple[Json, list[Json]]:
    kind = dice.one_of(KINDS if dice.happens(0.95) else ["Widget", "Node"])
    name = f"g{number}"
    size = dice.between(1, 10 if number == 0 else 4)
    controller = None
    if kind in STORED_KINDS and dice.happens(0.94):
        replicas = max(0, size + dice.one_of([-2, -1, 0, 0, 0, 0, 1, 2]))
        controller = {"kind": kind, "name": name, "replicas": replicas}
    pods = [_member(dice, f"{name}-{index}", kind, name) for index in range(size)]
    return controller, pods


def _member(dice: Dice, name: str, kind: str, owner: str) -> Json:
    pod = a_pod(dice, name, ["app"])
    reference = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": owner,
        "uid": "u1",
        "controller": True,
    }
    other = {"apiVersion": "v1", "kind": "Widget", "name": "w", "uid": "u2", "controller": False}
    pod["metadata"]["ownerReferences"] = [other, reference] if dice.happens(0.05) else [reference]
    pod["status"] = {
        "phase": dice.one_of(["Running"] * 8 + ["Pending"]),
        "startTime": stamp(NOW, -dice.one_of([HOUR, 240 * HOUR])),
    }
    if dice.happens(0.06):
        pod["status"]["conditions"] = [_resize_condition(dice)]
    if dice.happens(0.02):
        pod["metadata"]["annotations"] = {"vpaCpuStartupBoost/app": '{"requests":{},"limits":{}}'}
    return pod


def _resize_condition(dice: Dice) -> Json:
    condition = {
        "type": dice.one_of(["PodResizePending", "PodResizeInProgress", "Ready"]),
        "status": dice.one_of(["True", "True", "False"]),
    }
    reason = dice.one_of(["", "Deferred", "Infeasible", "Error", "Other"])
    return {**condition, "reason": reason, "message": "text"} if reason else condition


def _request(dice: Dice, pod: Json, number: int) -> None:
    cpu = f"{100 + 10 * number}m" if dice.happens(0.8) else dice.one_of(["700m", "500m", "450m"])
    requests = {"cpu": cpu, "memory": dice.one_of(["100Mi", "100Mi", "500Mi", "900Mi"])}
    pod["spec"]["containers"][0]["resources"] = {"requests": requests}


def _evicting_autoscaler(dice: Dice) -> Json:
    update_policy: Json = {
        "updateMode": dice.one_of(["Recreate", "Recreate", "Auto", "InPlaceOrRecreate"])
    }
    if dice.happens(0.3):
        update_policy["minReplicas"] = dice.one_of([1, 1, 2, 3, 5])
    if dice.happens(0.1):
        update_policy["evictionRequirements"] = _requirements(dice)
    recommendation = {
        "containerName": "app",
        "lowerBound": {"cpu": "400m", "memory": "400Mi"},
        "target": {"cpu": "500m", "memory": "500Mi"},
        "uncappedTarget": {"cpu": "500m", "memory": "500Mi"},
        "upperBound": {"cpu": "600m", "memory": "600Mi"},
    }
    return an_autoscaler(update_policy=update_policy, recommendations=[recommendation])
