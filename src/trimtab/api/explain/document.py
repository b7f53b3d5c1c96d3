"""An explanation as a whole: an autoscaler, how its numbers came about, and what of its pods.

The keys are an interface.
"""

from collections.abc import Sequence

import msgspec

from trimtab.api.explain.pods import PodsPage
from trimtab.api.explain.recommendation import NumbersPage
from trimtab.api.wire.codec import Written
from trimtab.core.model.autoscalers import Autoscaler


class ShownCondition(Written, frozen=True, kw_only=True):
    """What an autoscaler says of itself."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class ShownAutoscaler(Written, frozen=True, kw_only=True):
    """The autoscaler that is explained."""

    namespace: str
    name: str
    mode: str
    target: str | None = None
    conditions: Sequence[ShownCondition] = ()


class Explanation(Written, frozen=True, kw_only=True):
    """Why these numbers, and why this action or none."""

    autoscaler: ShownAutoscaler
    numbers: NumbersPage | None = None
    """None where only a pod was asked for, or nobody knows."""
    plan: PodsPage


def show_autoscaler(autoscaler: Autoscaler) -> ShownAutoscaler:
    """What is told of the autoscaler itself."""
    target = autoscaler.target
    return ShownAutoscaler(
        namespace=autoscaler.namespace,
        name=autoscaler.name,
        mode=autoscaler.mode.value,
        target=None if target is None else f"{target.kind}/{target.name}",
        conditions=[
            ShownCondition(
                type=each.type, status=each.status, reason=each.reason, message=each.message
            )
            for each in autoscaler.conditions
        ],
    )


def only_container(explanation: Explanation, name: str) -> Explanation:
    """The same of one container alone; of none if there is no such container."""
    numbers, plan = explanation.numbers, explanation.plan
    pods = [
        msgspec.structs.replace(
            pod, containers=[each for each in pod.containers if each.name == name]
        )
        for pod in plan.pods
    ]
    if numbers is not None:
        kept = [each for each in numbers.containers if each.name == name]
        numbers = msgspec.structs.replace(numbers, containers=kept)
    plan = msgspec.structs.replace(plan, pods=pods)
    return msgspec.structs.replace(explanation, numbers=numbers, plan=plan)


def container_names(explanation: Explanation) -> frozenset[str]:
    """All containers that anything is said about."""
    numbers = explanation.numbers
    learned = () if numbers is None else (each.name for each in numbers.containers)
    running = (each.name for pod in explanation.plan.pods for each in pod.containers)
    return frozenset([*learned, *running])
