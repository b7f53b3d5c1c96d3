"""Roles: from leases, pods and the time to changes of one label.

1. The pods of a workload are a group, and at most one of them has the role's label: the pod that
   the holder of the workload's lease names. While a lease is not held, no pod has it.
2. The label is removed from all pods that should not have it before another pod gets it.
3. Durations are measured on a clock of our own. The times in a lease come from other clocks, so
   they count only at the first look, when nothing else is known.
4. Getting the role costs a token of the group's own pace, losing it is free. In a group whose lease
   flaps no pod has the role for a while, and the number of label writes stays bounded.

The component reads leases, writes labels and keeps the state.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from trimtab.core.guards import rate_limit
from trimtab.core.guards.rate_limit import Pace, PaceSettings
from trimtab.core.model import json_patch
from trimtab.core.model.json_patch import Add, Patch, Remove
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.model.workloads import Workload

_NOBODY: Final = ""
_SEPARATOR: Final = "_"
"""The separator of client-go between the hostname, which is the pod's name, and a random part."""
_MAX_HOSTNAME: Final = 63
"""The kubelet cuts a hostname to this length, and then removes any of `_BAD_ENDS` at its end."""
_BAD_ENDS: Final = "-."
_OVER: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_REPLICA_SET: Final = "ReplicaSet"


@dataclass(frozen=True, slots=True)
class Role:
    """A role, as a label of a pod shows it."""

    label: str = "trimtab.dev/role"
    value: str = "leader"

    def is_worn_by(self, pod: Pod) -> bool:
        """Return True if the pod has the role, by its label."""
        return pod.labels.get(self.label) == self.value

    def give(self, pod: Pod) -> Patch:
        """Return the patch that gives the pod the role."""
        if not pod.labels:
            # A JSON patch cannot add a member to a map that is missing (RFC 6902, section 4.1).
            return (Add(json_patch.pointer("metadata", "labels"), {self.label: self.value}),)
        return (Add(json_patch.pointer("metadata", "labels", self.label), self.value),)

    def take(self) -> Patch:
        """Return the patch that takes the role from a pod that has it."""
        return (Remove(json_patch.pointer("metadata", "labels", self.label)),)


@dataclass(frozen=True, slots=True)
class Post:
    """A workload one of whose pods has the role, and the lease that names the pod."""

    workload: WorkloadName
    lease: str
    """Its name, in the workload's namespace."""
    owners: frozenset[str]
    """The uids of the direct owners of the workload's pods."""

    def employs(self, pod: Pod) -> bool:
        """Return True if the pod belongs to the workload."""
        return pod.owner is not None and pod.owner.uid in self.owners


@dataclass(frozen=True, slots=True)
class Tenure:
    """The contents of a lease: its holder, and its duration after the last renewal."""

    holder: str = _NOBODY
    duration: timedelta | None = None
    """None if it never ends by itself."""
    renewed_at: datetime | None = None
    """By the holder's clock."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lease as observed, and since when it is unchanged, on a clock of our own."""

    tenure: Tenure
    unchanged_since: timedelta

    def is_over(self, now: timedelta) -> bool:
        """Return True if the holder has not renewed the lease in time."""
        duration = self.tenure.duration
        return duration is not None and now >= self.unchanged_since + duration


class Standing(StrEnum):
    """The state of a group: the role is held, or the reason why it is not."""

    HELD = "Held"
    NO_LEASE = "NoLease"
    RELEASED = "Released"
    EXPIRED = "Expired"
    UNKNOWN_HOLDER = "UnknownHolder"
    """The holder names no pod of the workload that was there when the lease was renewed."""
    FLAPPING = "Flapping"
    """The lease is held, but has changed hands too often: its holder has to wait for the role."""


@dataclass(frozen=True, slots=True)
class RolePlan:
    """The changes for a group: take the role from some pods, then give it to one."""

    post: Post
    standing: Standing
    holder: Pod | None = None
    """The pod that should have the role."""
    takes: tuple[Pod, ...] = ()
    gives_to: Pod | None = None

    @property
    def is_idle(self) -> bool:
        """True if no label needs to change."""
        return not self.takes and self.gives_to is None


def list_posts(workloads: Iterable[Workload], named: Mapping[WorkloadName, str]) -> list[Post]:
    """Return the workloads that have a role to give, by their own annotation or by name."""
    leases: dict[WorkloadName, tuple[str, set[str]]] = {}
    below: list[Workload] = []
    for workload in workloads:
        if workload.name.kind == _REPLICA_SET and workload.owner is not None:
            # A Deployment's annotation is copied to its ReplicaSets, and all of them are one group.
            below.append(workload)
        elif lease := named.get(workload.name, workload.role_lease):
            leases[workload.name] = lease, {workload.uid}
    for workload in below:
        owner = workload.owner
        assert owner is not None
        # The uid decides: another Deployment may have had that name before.
        above = leases.get(WorkloadName(workload.name.namespace, owner.kind, owner.name))
        if above is not None and owner.uid in above[1]:
            above[1].add(workload.uid)
    return [Post(name, lease, frozenset(uids)) for name, (lease, uids) in leases.items()]


def observe(
    before: Sighting | None, tenure: Tenure, *, now: timedelta, wall_time: datetime
) -> Sighting:
    """Return the sighting of a lease now, given the one before."""
    if before is None:
        # The last renewal was not observed, so only the holder's own time of it is known.
        age = timedelta() if tenure.renewed_at is None else wall_time - tenure.renewed_at
        return Sighting(tenure, now - max(age, timedelta()))
    return before if before.tenure == tenure else Sighting(tenure, now)


def plan_role(
    post: Post, role: Role, pods: Sequence[Pod], found: Pod | Standing, *, may_give: bool
) -> RolePlan:
    """Plan the changes for a group, given its holder or the reason why there is none."""
    holder, standing = (found, Standing.HELD) if isinstance(found, Pod) else (None, found)
    takes = tuple(pod for pod in pods if role.is_worn_by(pod) and pod is not holder)
    if holder is None or role.is_worn_by(holder):
        return RolePlan(post, standing, holder, takes)
    if not may_give:
        return RolePlan(post, Standing.FLAPPING, holder, takes)
    return RolePlan(post, standing, holder, takes, holder)


def find_holder(sighting: Sighting | None, pods: Collection[Pod], now: timedelta) -> Pod | Standing:
    """Return the pod that holds the lease, or the reason why there is none."""
    if sighting is None:
        return Standing.NO_LEASE
    tenure = sighting.tenure
    if tenure.holder == _NOBODY:
        return Standing.RELEASED
    if sighting.is_over(now):
        return Standing.EXPIRED
    able = [pod for pod in pods if pod.phase not in _OVER and _was_there(pod, tenure)]
    return _find_named(tenure.holder, able) or Standing.UNKNOWN_HOLDER


def still_stands(standing: Standing, seen: Tenure | None, live: Tenure | None) -> bool:
    """Return True if a standing found by the observed lease also holds by the live one."""
    if seen is None or live is None:
        return seen is live
    if standing is Standing.EXPIRED:
        # A holder that renewed meanwhile is not over, so nothing at all may have changed.
        return live == seen
    # A holder that only renews its lease changes nothing.
    return live.holder == seen.holder


def can_give(pace: Pace, settings: PaceSettings) -> bool:
    """Return True if the role may change hands now."""
    return not settings.is_limited or not rate_limit.time_to_token(pace, settings)


def _find_named(holder: str, pods: Iterable[Pod]) -> Pod | None:
    machine, _, _ = holder.partition(_SEPARATOR)
    by_machine = []
    for pod in pods:
        if pod.name in (holder, machine):
            return pod
        if _hostname(pod) == machine:
            by_machine.append(pod)
    # Hostnames are cut to 63 characters, so two pods may share one; then neither is certain.
    return by_machine[0] if len(by_machine) == 1 else None


def _hostname(pod: Pod) -> str:
    return pod.name[:_MAX_HOSTNAME].rstrip(_BAD_ENDS)


def _was_there(pod: Pod, tenure: Tenure) -> bool:
    """Return True if the pod may have renewed the lease, and is no successor of the same name."""
    if pod.created_at is None or tenure.renewed_at is None:
        return True
    return tenure.renewed_at >= pod.created_at
