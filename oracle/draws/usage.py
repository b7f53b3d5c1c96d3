"""Histogram operations and the usage of pods over days."""

from datetime import UTC, datetime
from typing import Final

from oracle.draws import amounts
from oracle.draws.dice import Dice, Json, stamp
from oracle.draws.policies import a_container_policy, an_autoscaler

START: Final = datetime(2024, 3, 1, tzinfo=UTC)
HOUR: Final = 3600
DAY: Final = 24 * HOUR
MEBIBYTE: Final = 1024 * 1024


def a_histogram(dice: Dice) -> Json:
    """Operations on one histogram over a few days, seldom over years."""
    resource = dice.one_of(amounts.RESOURCES)
    span = dice.one_of([HOUR, DAY, 3 * DAY, 9 * DAY, 40 * DAY, 250 * DAY, 2000 * DAY])
    ops = [_operation(dice, resource, span) for _ in range(dice.between(0, 40))]
    if dice.happens(0.7):
        ops.sort(key=lambda op: str(op.get("time", "")))
    return {"resource": resource, "ops": ops}


def _operation(dice: Dice, resource: str, span: int, *, nested: bool = False) -> Json:
    kind = dice.fraction()
    if kind < 0.75 or nested:
        return _sample(dice, "add", resource, span)
    if kind < 0.85:
        return _sample(dice, "subtract", resource, span)
    if kind < 0.91:
        count = dice.between(0, 6)
        others = [_operation(dice, resource, span, nested=True) for _ in range(count)]
        return {"op": "merge", "other": others}
    if kind < 0.96:
        return {"op": "roundTrip"}
    return {"op": "load", "checkpoint": _checkpoint(dice)}


def _sample(dice: Dice, op: str, resource: str, span: int) -> Json:
    unit = 1.0 if resource == "cpu" else 1e9
    # Few different values, so that subtracting meets what was added.
    value = dice.one_of(
        [0.0, 0.01, 0.1, 0.25, 1.0, round(dice.magnitude(1e-3, 2e3), 4), dice.magnitude(1e-3, 100)]
    )
    weight = dice.one_of([0.1, 1.0, round(dice.fraction(), 3), 1e-5, 0.0, dice.magnitude(1e-4, 10)])
    return {
        "op": op,
        "value": value * unit,
        "weight": weight,
        "time": stamp(START, dice.between(-span // 10, span)),
    }


def _checkpoint(dice: Dice) -> Json:
    buckets = {str(dice.between(0, 175)): dice.between(0, 10000) for _ in range(dice.between(0, 8))}
    if dice.happens(0.1):
        buckets = {str(dice.one_of([-1, 176, 500])): 10}
    weight = dice.one_of([0, 1, -1, round(dice.magnitude(0.001, 1e6), 4), 12.5])
    moment = stamp(START, dice.between(-10, 20) * DAY)
    return {"bucketWeights": buckets, "referenceTimestamp": moment, "totalWeight": weight}


def a_recommendation(dice: Dice) -> Json:
    """A few pods of an autoscaler and what they used."""
    containers = dice.some_of(["app", "side", "proxy", "log"], at_least=1)[: dice.between(1, 4)]
    # More than two histograms merge in an order that the original leaves to chance.
    revisions = dice.one_of([["1"], ["1"], ["1", "2"]])
    pods = [_pod(dice, f"web-{n}", containers, revisions) for n in range(dice.between(1, 4))]
    steps = [
        _step(dice, pod, container)
        for pod in pods
        for container in pod["containers"]
        for _ in range(dice.one_of([0, 1, 1, 1, 2, 3]))
    ]
    if dice.happens(0.8):
        steps.sort(key=lambda step: str(step.get("start", step.get("time"))))
    policies = [a_container_policy(dice, [*containers, "*"]) for _ in range(dice.between(0, 2))]
    return {
        "pods": pods,
        "selector": {"matchLabels": {"app": "web"}},
        "steps": steps,
        "vpa": an_autoscaler(policies=policies if dice.happens(0.6) else None),
    }


def _pod(dice: Dice, name: str, containers: list[str], revisions: list[str]) -> Json:
    own = containers if dice.happens(0.8) else containers[:1]
    pod_labels = {"app": "web" if dice.happens(0.93) else "db", "rev": dice.one_of(revisions)}
    requests = {container: amounts.some_resources(dice) for container in own}
    return {"name": name, "labels": pod_labels, "containers": requests}


def _step(dice: Dice, pod: Json, container: str) -> Json:
    target = {"pod": pod["name"], "container": container}
    if dice.happens(0.03):
        target = {"pod": "gone", "container": "app"}
    begin = dice.between(0, 6 * 24) * HOUR + dice.one_of([0, 0, dice.between(0, HOUR)])
    if dice.happens(0.2):
        memory = round(dice.magnitude(16 * MEBIBYTE, 4096 * MEBIBYTE))
        moment = stamp(START, begin)
        return {"type": "oom", **target, "time": moment, "requestedMemoryBytes": memory}
    return {"type": "series", **target, "start": stamp(START, begin), **_series(dice)}


def _series(dice: Dice) -> Json:
    cpu, memory = dice.magnitude(1, 4000), dice.magnitude(MEBIBYTE, 8192 * MEBIBYTE)
    length = dice.one_of([1, 1, 5, 17])
    usage = {
        "cpuMillicores": [round(cpu * dice.fraction(0.2, 1.5)) for _ in range(length)],
        "memoryBytes": [round(memory * dice.fraction(0.7, 1.2)) for _ in range(length)],
    }
    if dice.happens(0.1):
        usage.pop(dice.one_of(list(usage)))
    if dice.happens(0.05):
        usage = {name: [0] for name in usage}
    return {
        "stepSeconds": dice.one_of([15, 60, 60, 300, HOUR, DAY]),
        "count": dice.one_of([1, 2, 10, 100, 300]),
        **usage,
    }
