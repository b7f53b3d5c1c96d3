"""Which cases of the updater's sets a decision changes, judged by their input."""

from collections.abc import Iterator
from typing import Any

from trimtab.core.model.pods import BOOST_PREFIX
from trimtab.core.model.quantities import is_whole_amount, parse
from trimtab.core.model.resources import BOTH

COUNTED_KINDS = {"DaemonSet", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}


def requests_finely(case: dict[str, Any]) -> bool:
    """Whether some pod asks for a part of a millicore or of a byte."""
    return any(
        not is_whole_amount(resource, parse(requests[resource]))
        for pod in case["input"]["pods"]
        for requests in requests_of(pod)
        for resource in BOTH
        if resource in requests
    )


def requirements_look_at_several(case: dict[str, Any]) -> bool:
    """Whether containers may share the requirements, or lack a request."""
    policy = case["input"]["vpa"]["spec"].get("updatePolicy") or {}
    count = len(policy.get("evictionRequirements") or ())
    return count > 0 and any(
        (count > 1 and len(pod["spec"]["containers"]) > 1)
        or any(resource not in requests for resource in BOTH)
        for pod in case["input"]["pods"]
        for requests in requests_of(pod)
    )


def has_pods_of_other_kinds(case: dict[str, Any]) -> bool:
    """Whether some pod belongs to an owner of a kind that the original does not know."""
    return any(
        owner["kind"] not in COUNTED_KINDS
        for pod in case["input"]["pods"]
        for owner in pod["metadata"].get("ownerReferences") or ({"kind": "", "controller": True},)
        if owner.get("controller")
    )


def has_pending_pods(case: dict[str, Any]) -> bool:
    return any(pod.get("status", {}).get("phase") == "Pending" for pod in case["input"]["pods"])


def has_pods_of_jobs(case: dict[str, Any]) -> bool:
    """Whether some pod belongs to a Job."""
    return any(
        owner["kind"] == "Job" and owner.get("controller")
        for pod in case["input"]["pods"]
        for owner in pod["metadata"].get("ownerReferences") or ()
    )


def boosts_in_a_small_group(case: dict[str, Any]) -> bool:
    """Whether a boosted pod belongs to a group with fewer pods than the minimum of replicas."""
    given = case["input"]
    policy = given["vpa"]["spec"].get("updatePolicy") or {}
    groups: dict[str, list[dict[str, Any]]] = {}
    for pod in given["pods"]:
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                groups.setdefault(f"{owner['kind']}/{owner['name']}", []).append(pod)
    required = policy.get("minReplicas", given["minReplicas"])
    return any(len(pods) < required and any(map(is_boosted, pods)) for pods in groups.values())


def is_boosted(pod: dict[str, Any]) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return any(name.startswith(BOOST_PREFIX) for name in annotations)


def requests_of(pod: dict[str, Any]) -> Iterator[dict[str, str]]:
    """What each container requests, by its spec and by its status."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    reported = (s["resources"] for s in statuses if s.get("resources") is not None)
    specified = (container.get("resources") or {} for container in pod["spec"]["containers"])
    for resources in (*specified, *reported):
        yield resources.get("requests") or {}
