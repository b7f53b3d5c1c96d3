"""The page on which the role keeper shows the standing of every workload."""

from collections.abc import Sequence

from trimtab.api.wire import codec
from trimtab.core.model.pods import Pod
from trimtab.core.roles import RolePlan


def show_roles(plans: Sequence[RolePlan], *, is_paused: bool) -> bytes:
    """Return the standing of all workloads, as JSON."""
    return codec.encode({"isPaused": is_paused, "workloads": [_show(plan) for plan in plans]})


def _show(plan: RolePlan) -> dict[str, str | list[str] | None]:
    return {
        "namespace": plan.post.workload.namespace,
        "kind": plan.post.workload.kind,
        "name": plan.post.workload.name,
        "lease": plan.post.lease,
        "standing": plan.standing.value,
        "holder": _name(plan.holder),
        "takes": [pod.name for pod in plan.takes],
        "gives": _name(plan.gives_to),
    }


def _name(pod: Pod | None) -> str | None:
    return None if pod is None else pod.name
