"""The simulated cluster as one copy of a component sees it: the `Cluster` port."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import chain
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar

from trimtab.api.kinds import autoscalers
from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.events import Event
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.lists import Unreadable
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.live.missing_permissions import MissingRights
from trimtab.cluster.live.owners import WatchedOwners
from trimtab.cluster.live.scales import (
    ABSENT_LIFE,
    FAILURE_LIFE,
    SCALE_LIFE,
    CachedScale,
    Missing,
    Unknown,
)
from trimtab.cluster.ports import Clock, Index, IndexedStore, Owners, Store, SummedStore
from trimtab.cluster.watch.store import Reader
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
)
from trimtab.core.model.hpa import Horizontal
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.workloads import Namespace, Workload
from trimtab.core.sizing.node_capacity import DAEMON_SET
from trimtab.core.sizing.quotas import Quota
from trimtab.simulation.api_server.connection import SimulatedConnection
from trimtab.simulation.api_server.quotas import count_quota
from trimtab.simulation.api_server.requests import (
    AUTOSCALERS,
    CHECKPOINTS,
    EVENTS,
    EVICTIONS,
    HORIZONTALS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    RESIZES,
    STATUSES,
    Act,
    ObjectKind,
    Request,
    workloads,
)
from trimtab.simulation.api_server.views import View
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.world.objects import ENDED, HorizontalScaler, WorkloadObject
from trimtab.simulation.world.tables import Named, Table
from trimtab.simulation.world.world import WELL_KNOWN, World

P = ParamSpec("P")
_T = TypeVar("_T")
RecordT = TypeVar("RecordT", bound=Named)
_TIMEOUT: Final = timedelta(minutes=5)
"""Longest time that a request for a scale may take."""
KnownT_co = TypeVar("KnownT_co", covariant=True)


class _KnownWorkloads:
    """A store of workloads of one kind, as far as components know them."""

    def __init__(self, reader: Reader[WorkloadObject], count: Callable[[str], int]) -> None:
        self._reader = reader
        self._count = count
        self._known: dict[tuple[str, str], tuple[WorkloadObject, Workload]] = {}

    def age(self) -> timedelta | None:
        return self._reader.age()

    async def changes(self) -> AsyncIterator[Workload]:
        async for each in self._reader.changes():
            yield each.known

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        return self._reader.unreadable

    def __iter__(self) -> Iterator[Workload]:
        found = [self.find(each.namespace, each.name) for each in self._reader]
        return (each for each in found if each is not None)

    def find(self, namespace: str, name: str) -> Workload | None:
        place = namespace, name
        found = self._reader.find(namespace, name)
        if found is None:
            self._known.pop(place, None)
            return None
        known, existing = self._known.get(place), self._count(found.uid)
        if known is None or known[0] is not found or known[1].existing != existing:
            known = self._known[place] = found, replace(found.known, existing=existing)
        return known[1]


class _Described(Protocol[KnownT_co]):
    """An object of which components know only a part."""

    @property
    def known(self) -> KnownT_co: ...


class _KnownObjects(Generic[KnownT_co]):
    """A store of objects, as far as components know them."""

    def __init__(self, reader: Store[_Described[KnownT_co]]) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[KnownT_co]:
        return (each.known for each in self._reader)

    def find(self, namespace: str, name: str) -> KnownT_co | None:
        found = self._reader.find(namespace, name)
        return None if found is None else found.known

    def age(self) -> timedelta | None:
        return self._reader.age()

    async def changes(self) -> AsyncIterator[KnownT_co]:
        async for each in self._reader.changes():
            yield each.known

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        return self._reader.unreadable


class _KnownHorizontals(_KnownObjects[Horizontal]):
    """A store of horizontal autoscalers, as far as components know them."""

    def __init__(self, reader: Reader[HorizontalScaler]) -> None:
        super().__init__(reader)
        self._scalers = reader

    def index(self, key: Callable[[Horizontal], Hashable]) -> Index[Horizontal]:
        return _KnownIndex(self._scalers.index(lambda scaler: key(scaler.known)))


class _KnownIndex:
    """An index of horizontal autoscalers, as far as components know them."""

    def __init__(self, index: Index[HorizontalScaler]) -> None:
        self._index = index

    def under(self, key: Hashable) -> Sequence[Horizontal]:
        return [each.known for each in self._index.under(key)]

    def has(self, key: Hashable) -> bool:
        return self._index.has(key)


class _Scales:
    """Workloads of all other kinds, fetched one by one and cached for a while."""

    def __init__(self, world: World, line: SimulatedConnection) -> None:
        self._world = world
        self._line = line
        self._answers: dict[WorkloadName, Workload | Unknown | None] = {}
        self._fresh_until: dict[WorkloadName, datetime] = {}

    def peek(self, name: WorkloadName, api_version: str, uid: str = "") -> CachedScale | None:
        del api_version, uid
        if name not in self._answers:
            return None
        is_fresh = self._world.now() < self._fresh_until[name]
        return CachedScale(self._answers[name] or Missing.OBJECT, is_fresh)

    async def workload(
        self, name: WorkloadName, api_version: str, uid: str = ""
    ) -> Workload | Unknown | None:
        del uid
        now = self._world.now()
        if name in self._answers and now < self._fresh_until[name]:
            return self._answers[name]
        try:
            answer = await self._ask(name, api_version.partition("/")[0])
        except ClusterError as error:
            answer = self._answers.get(name) or Unknown(error)
            self._fresh_until[name] = now + FAILURE_LIFE
        else:
            self._fresh_until[name] = now + (ABSENT_LIFE if answer is None else SCALE_LIFE)
        self._answers[name] = answer
        return answer

    async def _ask(self, name: WorkloadName, group: str) -> Workload | Unknown | None:
        kind = ObjectKind(f"{name.kind.lower()}s/scale", group)
        request = Request(Act.FETCH_SCALE, kind.right("get", name.namespace), name.name)
        # The real client has this timeout too, so it must run in a task.
        async with asyncio.timeout(_TIMEOUT.total_seconds()):
            await self._line.send(request)
            found = self._world.find_workload(name)
            await self._line.receive(request)
        return None if found is None or not found.has_scale else found.known


class SimulatedCluster:
    """The cluster, with the effects of its connection on requests and watches."""

    pods: SummedStore[Pod]
    autoscalers: IndexedStore[Autoscaler]
    checkpoints: Store[Checkpoint]
    nodes: Store[Node]
    daemon_sets: Store[Workload]
    horizontals: IndexedStore[Horizontal]
    namespaces: Store[Namespace]
    owners: Owners

    def __init__(
        self, world: World, serving: Serving, line: SimulatedConnection, *, clock: Clock
    ) -> None:
        self._world = world
        self._serving = serving
        self._line = line
        self._rights = MissingRights()
        self._views: list[View[Any]] = []
        self._clock = clock
        watch = partial(self._watch, clock)
        self.pods = watch(world.pods, PODS)
        self.autoscalers = watch(world.autoscalers, AUTOSCALERS)
        self.checkpoints = watch(world.checkpoints, CHECKPOINTS)
        self._limit_ranges = watch(world.limit_ranges, LIMIT_RANGES)
        self._quotas = watch(world.quotas, QUOTAS)
        self.namespaces = _KnownObjects(watch(world.namespaces, NAMESPACES))
        self.horizontals = _KnownHorizontals(watch(world.scalers, HORIZONTALS))
        self._evictions = watch(world.evictions, EVENTS)
        self._known = {
            kind: _KnownWorkloads(watch(world.workloads[kind], workloads(kind)), self._count_pods)
            for kind in WELL_KNOWN
        }
        self.daemon_sets = self._known[DAEMON_SET]
        self.owners = WatchedOwners(self._known, _Scales(world, line))
        # No component waits for nodes, so neither their age nor their problems count.
        nodes = View(world.nodes, line, NODES, clock=clock, versions=world.versions)
        self.nodes = _KnownObjects(nodes.reader)

    def _watch(self, clock: Clock, table: Table[RecordT], kind: ObjectKind) -> Reader[RecordT]:
        view = View(table, self._line, kind, clock=clock, versions=self._world.versions)
        self._views.append(view)
        return view.reader

    def _count_pods(self, owner_uid: str) -> int:
        """Count the pods of an owner that have not ended and are not being deleted."""
        found = self._world.pods_by_owner.under(owner_uid)
        return sum(not pod.is_deleting and pod.phase not in ENDED for pod in found)

    # Seeing

    @cached_property
    def leases(self) -> Store[Lease]:
        """All leases; the watch starts at the first access."""
        return self._watch(self._clock, self._world.leases, LEASES)

    def workloads(self) -> Iterable[Workload]:
        """Return all workloads of the well-known kinds."""
        return chain.from_iterable(self._known.values())

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeItem]:
        """Return the items of all limit ranges of the namespace."""
        found = self._limit_ranges.in_namespace(namespace)
        return [item for each in found for item in each.items]

    def quotas(self, namespace: str) -> Sequence[Quota]:
        """Return all resource quotas of the namespace, with the amounts that are left now."""
        found = self._quotas.in_namespace(namespace)
        return [count_quota(self._world, quota) for quota in found]

    async def can_resize(self) -> bool:
        """Return True if pods can be resized in place here."""
        return True

    async def memory_evictions(self) -> AsyncIterator[MemoryEviction]:
        """Yield memory evictions of containers, each once: the known ones, then new ones."""
        changes = self._evictions.changes()
        await self._evictions.synced()
        told = set()
        for notice in self._evictions:
            told.add(notice.name)
            yield notice.eviction
        async for notice in changes:
            if notice.name not in told:
                told.add(notice.name)
                yield notice.eviction

    def age(self) -> timedelta | None:
        """Return the age of the oldest view; None before everything has been listed once."""
        oldest = timedelta()
        for view in self._views:
            age = view.reader.age()
            if age is None:
                return None
            oldest = max(oldest, age)
        return oldest

    def problems(self) -> Mapping[str, Exception]:
        """Return the errors of watches and of missing rights, by the place where they occur."""
        problems = [(f"watch {view.resource}", view.problem) for view in self._views]
        seeing = {where: problem for where, problem in problems if problem is not None}
        return {**seeing, **self._rights.refusals()}

    async def synced(self) -> None:
        """Return once every store has had its first list."""
        for view in self._views:
            await view.reader.synced()

    # Acting

    async def publish_status(
        self,
        autoscaler: Autoscaler,
        recommendation: Sequence[ContainerRecommendation],
        conditions: Sequence[Condition],
    ) -> None:
        """Write an autoscaler's status, if it differs from the present one."""
        if _differs(autoscaler, recommendation, conditions):
            status = autoscaler, tuple(recommendation), tuple(conditions)
            request = _about_status(autoscaler)
            await self._ask(request, self._serving.publish_status, *status)

    async def publish_conditions(
        self, autoscaler: Autoscaler, conditions: Sequence[Condition]
    ) -> None:
        """Write only the conditions; raise ConflictError if the autoscaler has changed."""
        wanted = autoscalers.encode_conditions_patch(autoscaler, conditions)
        if wanted != autoscalers.encode_conditions_patch(autoscaler, autoscaler.conditions):
            request = _about_status(autoscaler)
            await self._ask(
                request, self._serving.publish_conditions, autoscaler, tuple(conditions)
            )

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, creating the object if there is none."""
        place = checkpoint.namespace, checkpoint.written_name
        verb = "create" if self.checkpoints.find(*place) is None else "patch"
        right = CHECKPOINTS.right(verb, checkpoint.namespace)
        request = Request(Act.SAVE_CHECKPOINT, right, checkpoint.written_name)
        await self._ask(request, self._serving.save_checkpoint, checkpoint)

    async def has_autoscaler(self, name: AutoscalerName) -> bool:
        """Return True if the autoscaler exists now on the API server."""
        request = Request(Act.LIST, AUTOSCALERS.right("list", name.namespace))
        return await self._ask(request, self._serving.has_autoscaler, name)

    async def delete_checkpoint(
        self, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        """Delete a checkpoint; one that is gone already is no error."""
        request = Request(Act.DELETE_CHECKPOINT, CHECKPOINTS.right("delete", namespace), name)
        await self._ask(request, self._serving.delete_checkpoint, namespace, name, resource_version)

    async def evict(self, pod: Pod) -> None:
        """Evict the pod, if it is unchanged and its budgets allow it."""
        request = Request(Act.EVICT, EVICTIONS.right("create", pod.namespace), pod.name)
        await self._ask(request, self._serving.evict, pod)

    async def try_eviction(self, pod: Pod) -> None:
        """Raise the error that `evict` would raise, without evicting the pod."""
        request = Request(Act.EVICT, EVICTIONS.right("create", pod.namespace), pod.name)
        await self._ask(request, self._serving.try_eviction, pod)

    async def resize(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's resources in place, if its spec still has the resources seen."""
        request = Request(Act.RESIZE, RESIZES.right("patch", pod.namespace), pod.name)
        await self._ask(request, self._serving.resize, pod, patch)

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's metadata, if it is still the same pod."""
        request = Request(Act.PATCH_POD, PODS.right("patch", pod.namespace), pod.name)
        await self._ask(request, self._serving.patch_pod, pod, patch)

    async def list_labelled(self, namespace: str, label: str, value: str) -> Sequence[Pod]:
        """List the pods with that label from the server."""
        request = Request(Act.LIST, PODS.right("list", namespace))
        return await self._ask(request, self._serving.list_labelled, namespace, label, value)

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """Fetch the lease from the server; None if there is none."""
        request = Request(Act.FETCH_LEASE, LEASES.right("get", namespace), name)
        return await self._ask(request, self._serving.find_lease, namespace, name)

    async def write_lease(self, lease: Lease) -> Lease:
        """Create the lease or replace its version; raise ConflictError if it has changed."""
        verb = "update" if lease.resource_version else "create"
        request = Request(Act.WRITE_LEASE, LEASES.right(verb, lease.namespace), lease.name)
        return await self._ask(request, self._serving.write_lease, lease)

    async def emit(self, event: Event) -> None:
        """Emit an event; errors are ignored."""
        right = EVENTS.right("create", event.about.namespace)
        with suppress(ClusterError):
            await self._ask(Request(Act.EMIT, right, event.about.name), self._serving.emit, event)

    async def _ask(
        self,
        request: Request,
        act: Callable[Concatenate[str, P], _T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> _T:
        with self._rights.noted(request.act):
            await self._line.send(request)
        answer = act(self._line.actor, *args, **kwargs)
        await self._line.receive(request)
        return answer


def _about_status(autoscaler: Autoscaler) -> Request:
    right = STATUSES.right("patch", autoscaler.namespace)
    return Request(Act.PUBLISH_STATUS, right, autoscaler.name)


def _differs(
    autoscaler: Autoscaler,
    recommendation: Sequence[ContainerRecommendation],
    conditions: Sequence[Condition],
) -> bool:
    """Return True if the encoded status differs from the encoded present one."""
    wanted = autoscalers.encode_status_patch(
        recommendation, conditions, observed_generation=autoscaler.generation or None
    )
    return wanted != autoscalers.encode_status_patch(
        autoscaler.recommendation,
        autoscaler.conditions,
        observed_generation=autoscaler.observed_generation,
    )
