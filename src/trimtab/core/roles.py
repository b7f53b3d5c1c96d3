"""Who has a role: leases, pods and the time in, changes of one label out.

1. The pods of a workload are a group, and at most one of them wears the role's label: the pod that
   the holder of the workload's lease names. While a lease is not held, nobody wears it.
2. The label is taken from all who should not wear it before anybody gets it.
3. Spans are measured on a clock of our own. The times in a lease come from other clocks, so they
   count only at the first look, when nothing else is known.
4. Getting the role costs a token of the group's own pace, losing it is free: in a group whose lease
   flaps nobody has the role for a while, and labels are not written without end.

Reading leases, writing labels and remembering is left to the component.
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
"""What client-go puts between the name of a machine, which is the pod's, and a random part."""
_MAX_HOSTNAME: Final = 63
"""The kubelet cuts the name of a machine there, and what it must not end with."""
_BAD_ENDS: Final = "-."
_OVER: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_REPLICA_SET: Final = "ReplicaSet"


@dataclass(frozen=True, slots=True)
class Role:
    """A role, as the label of a pod tells it."""

    label: str = "trimtab.dev/role"
    value: str = "leader"

    def is_worn_by(self, pod: Pod) -> bool:
        """Whether the pod has the role, by its label."""
        return pod.labels.get(self.label) == self.value

    def give(self, pod: Pod) -> Patch:
        """What gives the pod the role."""
        if not pod.labels:
            return (Add(json_patch.pointer("metadata", "labels"), {self.label: self.value}),)
        return (Add(json_patch.pointer("metadata", "labels", self.label), self.value),)

    def take(self) -> Patch:
        """What takes the role from a pod that has it."""
        return (Remove(json_patch.pointer("metadata", "labels", self.label)),)


@dataclass(frozen=True, slots=True)
class Post:
    """A workload one of whose pods has the role, and the lease that says which."""

    workload: WorkloadName
    lease: str
    """Its name, in the workload's namespace."""
    owners: frozenset[str]
    """The uids of the direct owners of the workload's pods."""

    def employs(self, pod: Pod) -> bool:
        """Whether the pod is one of the workload's."""
        return pod.owner is not None and pod.owner.uid in self.owners


@dataclass(frozen=True, slots=True)
class Tenure:
    """What a lease says: who holds it, and for how long after the last renewal."""

    holder: str = _NOBODY
    duration: timedelta | None = None
    """None if it never ends by itself."""
    renewed_at: datetime | None = None
    """By the holder's clock."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lease as it looks, and since when it has looked like that, on a clock of our own."""

    tenure: Tenure
    unchanged_since: timedelta

    def is_over(self, now: timedelta) -> bool:
        """Whether its holder has not renewed it in time."""
        duration = self.tenure.duration
        return duration is not None and now >= self.unchanged_since + duration


class Standing(StrEnum):
    """How a group stands: who has the role, or why nobody has."""

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
    """What is to be done about a group: take the role from some, then give it to one."""

    post: Post
    standing: Standing
    holder: Pod | None = None
    """Who should have the role."""
    takes: tuple[Pod, ...] = ()
    gives_to: Pod | None = None

    @property
    def is_idle(self) -> bool:
        """Whether everything is as it should be."""
        return not self.takes and self.gives_to is None


def list_posts(workloads: Iterable[Workload], named: Mapping[WorkloadName, str]) -> list[Post]:
    """The workloads that have a role to give, by what they say themselves or by name."""
    leases: dict[WorkloadName, tuple[str, set[str]]] = {}
    below: list[Workload] = []
    for workload in workloads:
        if workload.name.kind == _REPLICA_SET and workload.owner is not None:
            # What a Deployment says is copied to its ReplicaSets, and all of them are one group.
            below.append(workload)
        elif lease := named.get(workload.name, workload.role_lease):
            leases[workload.name] = lease, {workload.uid}
    for workload in below:
        owner = workload.owner
        assert owner is not None
        above = leases.get(WorkloadName(workload.name.namespace, owner.kind, owner.name))
        if above is not None and owner.uid in above[1]:
            above[1].add(workload.uid)
    return [Post(name, lease, frozenset(uids)) for name, (lease, uids) in leases.items()]


def sight(
    before: Sighting | None, tenure: Tenure, *, now: timedelta, wall_time: datetime
) -> Sighting:
    """The lease as it is seen now, by what was seen of it before."""
    if before is None:
        # Nobody saw the last renewal, so all that is known is the holder's own word.
        age = timedelta() if tenure.renewed_at is None else wall_time - tenure.renewed_at
        return Sighting(tenure, now - max(age, timedelta()))
    return before if before.tenure == tenure else Sighting(tenure, now)


def plan_role(
    post: Post, role: Role, pods: Sequence[Pod], found: Pod | Standing, *, may_give: bool
) -> RolePlan:
    """What is to be done, after it was found out whose the role should be, or why nobody's."""
    holder, standing = (found, Standing.HELD) if isinstance(found, Pod) else (None, found)
    takes = tuple(pod for pod in pods if role.is_worn_by(pod) and pod is not holder)
    if holder is None or role.is_worn_by(holder):
        return RolePlan(post, standing, holder, takes)
    if not may_give:
        return RolePlan(post, Standing.FLAPPING, holder, takes)
    return RolePlan(post, standing, holder, takes, holder)


def find_holder(sighting: Sighting | None, pods: Collection[Pod], now: timedelta) -> Pod | Standing:
    """The pod that holds the lease, or why there is none."""
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
    """Whether what was found by a view of the lease is also true by the lease itself."""
    if seen is None or live is None:
        return seen is live
    if standing is Standing.EXPIRED:
        return live == seen
    # A holder that goes on renewing its lease is no news.
    return live.holder == seen.holder


def can_give(pace: Pace, settings: PaceSettings) -> bool:
    """Whether the role may change hands now."""
    return not settings.is_limited or not rate_limit.time_to_token(pace, settings)


def _find_named(holder: str, pods: Iterable[Pod]) -> Pod | None:
    machine, _, _ = holder.partition(_SEPARATOR)
    by_machine = []
    for pod in pods:
        if pod.name in (holder, machine):
            return pod
        if _hostname(pod) == machine:
            by_machine.append(pod)
    return by_machine[0] if len(by_machine) == 1 else None


def _hostname(pod: Pod) -> str:
    return pod.name[:_MAX_HOSTNAME].rstrip(_BAD_ENDS)


def _was_there(pod: Pod, tenure: Tenure) -> bool:
    """Whether the pod may have renewed the lease: its successor has the name, but not the lease."""
    if pod.created_at is None or tenure.renewed_at is None:
        return True
    return tenure.renewed_at >= pod.created_at
