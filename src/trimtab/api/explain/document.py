"""A complete explanation: an autoscaler, the working of its numbers, and the plan for its pods.

The keys are an interface.
"""

from collections.abc import Sequence

import msgspec

from trimtab.api.explain.pods import PodsPage
from trimtab.api.explain.recommendation import NumbersPage
from trimtab.api.wire.codec import Written
from trimtab.core.model.autoscalers import Autoscaler


class ShownCondition(Written, frozen=True, kw_only=True):
    """A condition of an autoscaler."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class ShownAutoscaler(Written, frozen=True, kw_only=True):
    """The autoscaler that is explained."""

    namespace: str
    name: str
    mode: str
    unknown_mode: str | None = None
    """The mode of the object, if this version does not know it and so treats it as Off."""
    target: str | None = None
    conditions: Sequence[ShownCondition] = ()


class Explanation(Written, frozen=True, kw_only=True):
    """Reasons for the numbers, and for the actions on pods."""

    autoscaler: ShownAutoscaler
    numbers: NumbersPage | None = None
    """None if the request is about a pod only, or if the numbers are unknown."""
    plan: PodsPage


def show_autoscaler(autoscaler: Autoscaler) -> ShownAutoscaler:
    """Return the part of an explanation about the autoscaler itself."""
    target = autoscaler.target
    return ShownAutoscaler(
        namespace=autoscaler.namespace,
        name=autoscaler.name,
        mode=autoscaler.mode.value,
        unknown_mode=autoscaler.unknown_mode or None,
        target=None if target is None else f"{target.kind}/{target.name}",
        conditions=[
            ShownCondition(
                type=each.type, status=each.status, reason=each.reason, message=each.message
            )
            for each in autoscaler.conditions
        ],
    )


def only_container(explanation: Explanation, name: str) -> Explanation:
    """Return the explanation reduced to one container, if there is one of that name."""
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
    """Return the names of all containers in the explanation."""
    numbers = explanation.numbers
    learned = () if numbers is None else (each.name for each in numbers.containers)
    running = (each.name for pod in explanation.plan.pods for each in pod.containers)
    return frozenset([*learned, *running])
