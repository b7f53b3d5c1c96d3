"""A small cluster in memory for the role keeper: one StatefulSet, its pods, and their lease.

What is done shows at once, unless a test freezes the view.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from support.fakes.clocks import StillClock
from support.makers.records import NOW, a_pod, minutes

from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.lists import Unreadable
from trimtab.api.wire.status_errors import Status
from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.cluster.errors import ClusterError, ConflictError
from trimtab.cluster.ports import Store, SummedStore
from trimtab.cluster.watch.store import Writer, open_store
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.model.workloads import Workload
from trimtab.core.roles import Role
from trimtab.simulation.api_server.json_patch import PatchError, apply_patch

ROLE = Role()
LEASE = "db-leader"
OWNER = OwnerReference("StatefulSet", "db", "apps/v1", "uid-db")
GONE = Status(code=409, reason="Conflict")


class SmallCluster:
    """The cluster; tests change its attributes to let things go wrong."""

    pods: SummedStore[Pod]
    leases: Store[Lease]

    def __init__(self, replicas: int = 3) -> None:
        self.clock = StillClock()
        self._pod_writer: Writer[Pod]
        self._lease_writer: Writer[Lease]
        self._pod_writer, self.pods = open_store(self.clock)
        self._lease_writer, self.leases = open_store(self.clock)
        self._lease_writer.replace(())
        name = WorkloadName("default", "StatefulSet", "db")
        self.known = [Workload(name, uid="uid-db", role_lease=LEASE)]
        self.truth: dict[str, Pod] = {}
        """All pods, whatever the view shows."""
        self.lease: Lease | None = None
        """The lease, whatever the view shows."""
        self.is_frozen = False
        self.view_age: timedelta | None = timedelta()
        self.refusals: list[ClusterError] = []
        """Errors of the next patches."""
        self.patched: list[tuple[str, str]] = []
        """What was done, in order: give or take, and the pod."""
        for number in range(replicas):
            self._put(
                a_pod(name=f"db-{number}", owner=OWNER, created_at=NOW - minutes(10)), is_seen=True
            )

    def hold(self, holder: str, *, is_seen: bool = True, **fields: object) -> None:
        """Let somebody hold the lease, renewed just now."""
        usual = {"holder": holder, "duration": timedelta(seconds=15), "renewed_at": self._now()}
        self.lease = Lease("default", LEASE, **(usual | fields))  # type: ignore[arg-type]
        if is_seen:
            self._lease_writer.put(StoredObject(ObjectName("default", LEASE), self.lease))

    def spoil_lease(self, unreadable: Unreadable) -> None:
        """Let the lease be one that nobody can read."""
        self._lease_writer.spoil(unreadable)

    def label(self, name: str, *, is_seen: bool = True) -> None:
        """Let somebody else write the label on a pod."""
        pod = self.truth[name]
        self._put(replace(pod, labels={**pod.labels, ROLE.label: ROLE.value}), is_seen=is_seen)

    def catch_up(self) -> None:
        """Let the view show everything again."""
        self.is_frozen = False
        for pod in self.truth.values():
            self._put(pod, is_seen=True)

    def leaders(self) -> list[str]:
        """Who has the role in truth."""
        return [name for name, pod in self.truth.items() if ROLE.is_worn_by(pod)]

    # The port.

    def workloads(self) -> Iterable[Workload]:
        return self.known

    def age(self) -> timedelta | None:
        return self.view_age

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        assert (namespace, name) == ("default", LEASE)
        return self.lease

    async def list_labelled(self, namespace: str, label: str, value: str) -> Sequence[Pod]:
        pods = self.truth.values()
        return [pod for pod in pods if (pod.namespace, pod.labels.get(label)) == (namespace, value)]

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        try:
            changed = apply_patch(self.truth[pod.name], patch)
        except PatchError as error:
            raise ConflictError("patch", GONE) from error
        self.patched.append(("give" if ROLE.is_worn_by(changed) else "take", pod.name))
        self._put(changed, is_seen=not self.is_frozen)

    def _put(self, pod: Pod, *, is_seen: bool) -> None:
        self.truth[pod.name] = pod
        if is_seen:
            self._pod_writer.put(StoredObject(ObjectName(pod.namespace, pod.name), pod))

    def _now(self) -> object:
        return self.clock.now()
