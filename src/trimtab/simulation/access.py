"""The simulated cluster as one copy of a component sees it: the `Cluster` port, over a line."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TypeVar

from trimtab.api.autoscaler_status import encode_status_patch
from trimtab.api.checkpoints import Checkpoint
from trimtab.api.events import Event
from trimtab.api.evictions import MemoryEviction
from trimtab.api.leases import Lease
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.owners import WatchedOwners
from trimtab.cluster.ports import Clock, Owners, Store
from trimtab.cluster.rights import MissingRights
from trimtab.cluster.store import Reader
from trimtab.core.autoscalers import Autoscaler, Condition, ContainerRecommendation
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.operations import Patch
from trimtab.core.pods import Pod, WorkloadName
from trimtab.core.workloads import Workload
from trimtab.simulation.lines import Line
from trimtab.simulation.objects import WorkloadObject
from trimtab.simulation.requests import Act, Request
from trimtab.simulation.serving import Serving
from trimtab.simulation.tables import Named, Table
from trimtab.simulation.views import View
from trimtab.simulation.world import WELL_KNOWN, World

_T = TypeVar("_T")
RecordT = TypeVar("RecordT", bound=Named)


class _KnownWorkloads:
    """A store of workloads of one kind, as far as deciders know them."""

    def __init__(self, reader: Reader[WorkloadObject]) -> None:
        self._reader = reader

    def find(self, namespace: str, name: str) -> Workload | None:
        found = self._reader.find(namespace, name)
        return None if found is None else found.known


class _Scales:
    """Workloads of all other kinds, asked for one by one."""

    def __init__(self, world: World, line: Line) -> None:
        self._world = world
        self._line = line

    async def workload(self, name: WorkloadName, api_version: str) -> Workload | None:
        del api_version
        request = Request(Act.FETCH_SCALE, f"{name.namespace}/{name.name}")
        await self._line.send(request)
        found = self._world.find_workload(name)
        await self._line.receive(request)
        return None if found is None else found.known


class SimulatedCluster:
    """The cluster, with all that its line does to requests and watches."""

    pods: Store[Pod]
    autoscalers: Store[Autoscaler]
    checkpoints: Store[Checkpoint]
    owners: Owners

    def __init__(self, world: World, serving: Serving, line: Line, *, clock: Clock) -> None:
        self._world = world
        self._serving = serving
        self._line = line
        self._rights = MissingRights()
        self._problems: list[Callable[[], tuple[str, ClusterError | None]]] = []
        self._ages: list[Callable[[], timedelta | None]] = []
        self._synced: list[Callable[[], Awaitable[None]]] = []
        watch = partial(self._watch, clock)
        self.pods = watch(world.pods, Act.WATCH_PODS)
        self.autoscalers = watch(world.autoscalers, Act.WATCH_AUTOSCALERS)
        self.checkpoints = watch(world.checkpoints, Act.WATCH_CHECKPOINTS)
        self._limit_ranges = watch(world.limit_ranges, Act.WATCH_LIMIT_RANGES)
        workloads = {
            kind: _KnownWorkloads(watch(world.workloads[kind], Act.WATCH_WORKLOADS))
            for kind in WELL_KNOWN
        }
        self.owners = WatchedOwners(workloads, _Scales(world, line))

    def _watch(self, clock: Clock, table: Table[RecordT], act: Act) -> Reader[RecordT]:
        view = View(table, self._line, Request(act), clock=clock, versions=self._world.versions)
        self._problems.append(lambda: (act, view.problem))
        self._ages.append(view.reader.age)
        self._synced.append(view.reader.synced)
        return view.reader

    # Seeing

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeItem]:
        """The items of all limit ranges of the namespace."""
        found = self._limit_ranges.in_namespace(namespace)
        return [item for each in found for item in each.items]

    def memory_evictions(self) -> AsyncIterator[MemoryEviction]:
        """Containers evicted for want of memory, each once: those known, then as they come."""
        return self._world.evictions.read()

    def age(self) -> timedelta | None:
        """How old the oldest view is; None before everything has been listed once."""
        ages = [age() for age in self._ages]
        known = [age for age in ages if age is not None]
        return max(known) if len(known) == len(ages) else None

    def problems(self) -> Mapping[str, Exception]:
        """What keeps us from seeing or acting now, by where."""
        found = [look() for look in self._problems]
        seeing = {where: problem for where, problem in found if problem is not None}
        return {**seeing, **self._rights.refusals()}

    async def synced(self) -> None:
        """Return once every store has had its first list."""
        for synced in self._synced:
            await synced()

    # Acting

    async def publish_status(
        self,
        autoscaler: Autoscaler,
        recommendation: Sequence[ContainerRecommendation],
        conditions: Sequence[Condition],
    ) -> None:
        """Write an autoscaler's status, if it differs from what is there."""
        if _differs(autoscaler, recommendation, conditions):
            status = tuple(recommendation), tuple(conditions)
            act = partial(self._serving.publish_status, self._line.actor, autoscaler, *status)
            await self._ask(
                Request(Act.PUBLISH_STATUS, f"{autoscaler.namespace}/{autoscaler.name}"), act
            )

    async def publish_conditions(
        self, autoscaler: Autoscaler, conditions: Sequence[Condition]
    ) -> None:
        """Write all conditions and nothing else; ConflictError if it is not the one seen."""
        act = partial(
            self._serving.publish_conditions, self._line.actor, autoscaler, tuple(conditions)
        )
        await self._ask(
            Request(Act.PUBLISH_STATUS, f"{autoscaler.namespace}/{autoscaler.name}"), act
        )

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, making the object if there is none."""
        act = partial(self._serving.save_checkpoint, self._line.actor, checkpoint)
        await self._ask(
            Request(Act.SAVE_CHECKPOINT, f"{checkpoint.namespace}/{checkpoint.written_name}"), act
        )

    async def delete_checkpoint(self, namespace: str, name: str) -> None:
        """Delete a checkpoint; one that is gone already is no error."""
        act = partial(self._serving.delete_checkpoint, self._line.actor, namespace, name)
        await self._ask(Request(Act.DELETE_CHECKPOINT, f"{namespace}/{name}"), act)

    async def evict(self, pod: Pod) -> None:
        """Evict the pod, if it is still the one that was seen and its budgets allow it."""
        act = partial(self._serving.evict, self._line.actor, pod)
        await self._ask(Request(Act.EVICT, f"{pod.namespace}/{pod.name}"), act)

    async def resize(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's resources in place, if it is still the one that was seen."""
        act = partial(self._serving.resize, self._line.actor, pod, patch)
        await self._ask(Request(Act.RESIZE, f"{pod.namespace}/{pod.name}"), act)

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's metadata, if it is still the one that was seen."""
        act = partial(self._serving.patch_pod, self._line.actor, pod, patch)
        await self._ask(Request(Act.PATCH_POD, f"{pod.namespace}/{pod.name}"), act)

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """The lease as it is on the server, if there is one."""
        act = partial(self._world.leases.find, namespace, name)
        return await self._ask(Request(Act.FETCH_LEASE, f"{namespace}/{name}"), act)

    async def write_lease(self, lease: Lease) -> Lease:
        """Create the lease or replace the version that it names; ConflictError if another did."""
        act = partial(self._serving.write_lease, self._line.actor, lease)
        return await self._ask(Request(Act.WRITE_LEASE, f"{lease.namespace}/{lease.name}"), act)

    async def emit(self, event: Event) -> None:
        """Tell what happened; a failure is nobody's problem."""
        act = partial(self._serving.emit, self._line.actor, event)
        with suppress(ClusterError):
            await self._ask(Request(Act.EMIT, f"{event.about.namespace}/{event.about.name}"), act)

    async def _ask(self, request: Request, act: Callable[[], _T]) -> _T:
        with self._rights.noted(request.act):
            await self._line.send(request)
        answer = act()
        await self._line.receive(request)
        return answer


def _differs(
    autoscaler: Autoscaler,
    recommendation: Sequence[ContainerRecommendation],
    conditions: Sequence[Condition],
) -> bool:
    """Whether what would be written is not there yet, as coarse as it is written."""
    wanted = encode_status_patch(
        recommendation, conditions, observed_generation=autoscaler.generation or None
    )
    return wanted != encode_status_patch(
        autoscaler.recommendation,
        autoscaler.conditions,
        observed_generation=autoscaler.observed_generation,
    )
