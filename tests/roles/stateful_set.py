"""One StatefulSet, its pods, and the lease by which they elect a leader."""

from datetime import timedelta

from msgspec import structs
from support.fakes.clocks import StillClock
from support.fakes.cluster import FakeCluster
from support.makers.records import NOW, a_pod, minutes

from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.status_errors import Status
from trimtab.core.model.pods import Pod
from trimtab.core.model.selectors import Selector
from trimtab.core.roles import Role
from trimtab.simulation.world.facts import Fact, PodPatched
from trimtab.simulation.world.objects import PodTemplate, WorkloadObject

ROLE = Role()
LEASE = "db-leader"
GONE = Status(code=409, reason="Conflict")
SET = WorkloadObject(
    "default",
    "StatefulSet",
    "db",
    PodTemplate({}, ()),
    Selector(()),
    uid="uid-db",
    role_lease=LEASE,
)


class StatefulSetCluster(FakeCluster):
    """A cluster with one StatefulSet, in a time that only tests move."""

    def __init__(self, replicas: int = 3) -> None:
        self.clock = StillClock()
        super().__init__(self.clock)
        self.put_set(SET)
        self.patched: list[tuple[str, str]] = []
        """Patches in order: give or take, and the pod."""
        self.truth.subscribe(self._notice)
        assert self.leases.find("default", LEASE) is None
        for number in range(replicas):
            self.truth.pods.put(
                a_pod(name=f"db-{number}", owner=SET.reference, created_at=NOW - minutes(10))
            )

    def put_set(self, stateful_set: WorkloadObject) -> None:
        """Store the StatefulSet."""
        self.truth.workloads_of(stateful_set.kind).put(stateful_set)

    def hold(self, holder: str, *, is_seen: bool = True, **fields: object) -> None:
        """Let a pod hold the lease, renewed just now."""
        if is_seen:
            self.resume()
        else:
            self.stall("leases")
        usual = {
            "holder": holder,
            "duration": timedelta(seconds=15),
            "renewed_at": self.clock.now(),
        }
        self.truth.leases.put(Lease("default", LEASE, **(usual | fields)))  # type: ignore[arg-type]

    @property
    def lease(self) -> Lease:
        """The lease on the API server."""
        found = self.truth.leases.find("default", LEASE)
        assert found is not None
        return found

    def label(self, name: str) -> Pod:
        """Let another client write the label on a pod."""
        pod = self.truth.pods.find("default", name)
        assert pod is not None
        return self.truth.pods.put(
            structs.replace(pod, labels={**pod.labels, ROLE.label: ROLE.value})
        )

    def leaders(self) -> list[str]:
        """Return the pods that wear the role on the API server."""
        return [pod.name for pod in self.truth.pods if ROLE.is_worn_by(pod)]

    def _notice(self, fact: Fact) -> None:
        if isinstance(fact, PodPatched):
            given = "give" if ROLE.is_worn_by(fact.after) else "take"
            self.patched.append((given, fact.after.name))
