"""The real cluster behind the ports: watch-fed stores, owners, and acts, combined."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from trimtab.api.kinds import autoscalers, evictions, hpa, leases, limits, nodes
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.kinds.leases import Lease
from trimtab.api.kinds.workloads import WELL_KNOWN_KINDS
from trimtab.cluster.errors import ForbiddenError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.capabilities import Abilities
from trimtab.cluster.live.checkpoint_wire import decode_checkpoint
from trimtab.cluster.live.owners import WatchedOwners
from trimtab.cluster.live.scales import Scales
from trimtab.cluster.live.writes import LEASES, Acts
from trimtab.cluster.ports import Clock, IndexedStore, Owners, Store, SummedStore
from trimtab.cluster.watch import interning, store
from trimtab.cluster.watch.optional_watches import Fed, PermittedFeed
from trimtab.cluster.watch.poll import Poll
from trimtab.cluster.watch.reflector import Feed, WatchedKind
from trimtab.cluster.watch.store import Reader, Writer
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.hpa import Horizontal
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import Pod
from trimtab.core.model.workloads import Namespace, Workload
from trimtab.core.sizing.node_capacity import DAEMON_SET
from trimtab.core.sizing.quotas import Quota


class MemoryEvictions(AsyncIterator[MemoryEviction]):
    """Evictions that the store holds, then new ones; it follows the store from when it is made."""

    def __init__(self, events: Reader[tuple[MemoryEviction, ...]]) -> None:
        self._changes = events.changes()
        self._waiting = deque(eviction for batch in events for eviction in batch)

    async def __anext__(self) -> MemoryEviction:
        while not self._waiting:
            self._waiting.extend(await anext(self._changes))
        return self._waiting.popleft()


if TYPE_CHECKING:
    from trimtab.api.kinds.checkpoints import Checkpoint

RecordT = TypeVar("RecordT")

_AUTOSCALING: Final = "autoscaling.k8s.io/v1"
_WORKLOADS: Final = {
    "CronJob": ("batch/v1", "cronjobs"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Deployment": ("apps/v1", "deployments"),
    "Job": ("batch/v1", "jobs"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "ReplicationController": ("v1", "replicationcontrollers"),
    "StatefulSet": ("apps/v1", "statefulsets"),
}
"""API version and resource of each well-known kind."""
_QUOTAS: Final = ("v1", "resourcequotas")
_HORIZONTALS: Final = ("autoscaling/v2", "horizontalpodautoscalers")
_MOMENT: Final = timedelta(milliseconds=50)
_BUT_FOR_NODES: Final = {"fieldSelector": "metadata.namespace!=kube-node-lease"}
"""Every node renews a lease of its own all the time, and no component needs those."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Parts of the cluster that a component watches; the stores of all else stay empty."""

    namespace: str = ""
    """Empty for all namespaces."""
    pods: bool = True
    autoscalers: bool = True
    kinds: tuple[str, ...] = WELL_KNOWN_KINDS
    """Well-known kinds that are watched; pods under one that is left out have no known owner."""
    leases: bool = False
    pending_pods: bool = True
    """True if pods count that do not run yet."""
    checkpoints: bool = True
    limit_ranges: bool = True
    nodes: bool = False
    """True to watch nodes, where that is permitted."""
    quotas: bool = False
    optional_quotas: bool = False
    """True to watch quotas where permitted, if nothing depends on them."""
    namespaces: bool = False
    """True to watch namespaces themselves; with `namespace` set, only that one."""
    horizontals: bool = False
    """True to watch horizontal autoscalers, where that is permitted."""
    memory_evictions: bool = False
    """True to watch memory evictions; only a component that counts them should ask for it."""


@dataclass(frozen=True, slots=True)
class RequiredRead:
    """The last read of a kind that a component cannot work without."""

    path: str
    current_at: datetime | None
    """When the view was last known to be current; None before the first list."""
    problem: Exception | None
    """Reason why the view does not get newer."""


class _View(Protocol):
    """A store of any kind."""

    @property
    def current_at(self) -> datetime | None: ...

    def age(self) -> timedelta | None: ...

    async def synced(self) -> None: ...


class _Watches:
    """Opens stores, and keeps the feeds that fill them."""

    def __init__(self, client: Client, scope: Scope, *, clock: Clock, random: Random) -> None:
        self._client = client
        self._namespace = scope.namespace
        self._clock = clock
        self._random = random
        self.feeds: list[Fed] = []
        self.side_feeds: list[Fed] = []
        """Feeds of optional stores, for which `synced` does not wait."""
        self.views: list[_View] = []
        self.awaited: list[tuple[Fed, _View]] = []
        """Those of them for whose first answer `synced` waits, even if it is a refusal."""

    def watch(
        self,
        place: tuple[str, str],
        decode: Callable[[bytes], RecordT],
        *,
        is_wanted: bool = True,
        parameters: Mapping[str, str] | None = None,
        has_bookmarks: bool = True,
    ) -> Reader[RecordT]:
        """Return the store of all objects of a resource; it stays empty if it is not wanted."""
        writer: Writer[RecordT]
        writer, reader = store.open_store(self._clock)
        if is_wanted:
            path = paths.collection(*place, self._namespace)
            self.feeds.append(
                self._feed(WatchedKind(path, decode, parameters or {}, has_bookmarks), writer)
            )
            self.views.append(reader)
        return reader

    def watch_namespaces(self, *, is_wanted: bool) -> Reader[Namespace]:
        """Return the store of all namespaces, or of the only one in scope."""
        writer: Writer[Namespace]
        writer, reader = store.open_store(self._clock)
        if is_wanted:
            self.feeds.append(self._feed_namespaces(writer))
            self.views.append(reader)
        return reader

    def watch_aside(
        self,
        place: tuple[str, str],
        decode: Callable[[bytes], RecordT],
        *,
        is_wanted: bool,
        namespace: str = "",
    ) -> Reader[RecordT]:
        """Return a store of objects that are optional, and that we may not be allowed to see."""
        writer: Writer[RecordT]
        writer, reader = store.open_store(self._clock)
        if is_wanted:
            feed = self._feed(WatchedKind(paths.collection(*place, namespace), decode), writer)
            group = place[0].rpartition("/")[0]
            self.side_feeds.append(
                PermittedFeed(
                    self._client,
                    feed,
                    place[1],
                    clock=self._clock,
                    group=group,
                    namespace=namespace,
                )
            )
        return reader

    def watch_if_allowed(
        self, place: tuple[str, str], decode: Callable[[bytes], RecordT], *, is_wanted: bool
    ) -> Reader[RecordT]:
        """Return such a store, for which `synced` waits unless the objects cannot be seen.

        A component that acted before they are listed could do what they are there to prevent.
        """
        reader = self.watch_aside(place, decode, is_wanted=is_wanted, namespace=self._namespace)
        if is_wanted:
            self.awaited.append((self.side_feeds[-1], reader))
        return reader

    @property
    def is_waiting(self) -> bool:
        """True while a required watch has yet to list its objects."""
        return any(
            view.age() is None and not isinstance(feed.problem, ForbiddenError | NotFoundError)
            for feed, view in self.awaited
        )

    def _feed_namespaces(self, writer: Writer[Namespace]) -> Fed:
        path = paths.collection("v1", "namespaces")
        if not self._namespace:
            return self._feed(WatchedKind(path, nodes.decode_namespace), writer)
        only = paths.item(path, self._namespace)
        return Poll(self._client, only, nodes.decode_namespace, writer, clock=self._clock)

    def _feed(self, kind: WatchedKind[RecordT], writer: Writer[RecordT]) -> Feed[RecordT]:
        return Feed(self._client, kind, writer, clock=self._clock, random=self._random)


class LiveCluster(Acts):
    """A cluster as its API server shows it; it is current only while `run` runs."""

    pods: SummedStore[Pod]
    autoscalers: IndexedStore[Autoscaler]
    checkpoints: "Store[Checkpoint]"
    nodes: Store[Node]
    daemon_sets: Store[Workload]
    horizontals: IndexedStore[Horizontal]
    namespaces: Store[Namespace]
    owners: Owners
    leases: Store[Lease]

    def __init__(self, client: Client, scope: Scope, *, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._watches = _Watches(client, scope, clock=clock, random=random)
        watch = self._watches.watch
        running = {} if scope.pending_pods else {"fieldSelector": "status.phase!=Pending"}
        self.pods = watch(
            ("v1", "pods"), interning.decode_thrifty_pod, is_wanted=scope.pods, parameters=running
        )
        self.autoscalers = watch(
            (_AUTOSCALING, "verticalpodautoscalers"),
            autoscalers.decode_autoscaler,
            is_wanted=scope.autoscalers,
        )
        self.checkpoints = watch(
            (_AUTOSCALING, "verticalpodautoscalercheckpoints"),
            decode_checkpoint,
            is_wanted=scope.checkpoints,
        )
        self._limit_ranges = watch(
            ("v1", "limitranges"), limits.decode_limit_range, is_wanted=scope.limit_ranges
        )
        self._evictions = watch(
            ("v1", "events"),
            evictions.decode_memory_evictions,
            is_wanted=scope.memory_evictions,
            parameters={"fieldSelector": "reason=Evicted"},
            has_bookmarks=False,
        )
        watch_if_allowed = self._watches.watch_if_allowed
        self._quotas = (
            watch(_QUOTAS, limits.decode_quota)
            if scope.quotas
            else watch_if_allowed(_QUOTAS, limits.decode_quota, is_wanted=scope.optional_quotas)
        )
        self.namespaces = self._watches.watch_namespaces(is_wanted=scope.namespaces)
        self.nodes = self._watches.watch_aside(
            ("v1", "nodes"), nodes.decode_node, is_wanted=scope.nodes
        )
        self.horizontals = watch_if_allowed(
            _HORIZONTALS, hpa.decode_horizontal, is_wanted=scope.horizontals
        )
        self.leases = watch(
            (LEASES, "leases"),
            leases.decode_lease,
            is_wanted=scope.leases,
            parameters=_BUT_FOR_NODES,
        )
        self._workloads = {
            kind: watch(
                place,
                partial(interning.decode_thrifty_workload, kind),
                is_wanted=kind in scope.kinds,
            )
            for kind, place in _WORKLOADS.items()
        }
        self.daemon_sets = self._workloads[DAEMON_SET]
        self._scales = Scales(client, clock=clock, random=random)
        self.owners = WatchedOwners(self._workloads, self._scales)
        self._abilities = Abilities(client, clock)
        super().__init__(client, self.checkpoints)

    def quotas(self, namespace: str) -> Sequence[Quota]:
        """Return all resource quotas of the namespace."""
        return self._quotas.in_namespace(namespace)

    def workloads(self) -> Iterable[Workload]:
        """Return all workloads of the kinds that are watched."""
        return chain.from_iterable(self._workloads.values())

    async def can_resize(self) -> bool:
        """Return True if pods can be resized in place here."""
        return await self._abilities.can_resize()

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeItem]:
        """Return the items of all limit ranges of the namespace."""
        return [item for items in self._limit_ranges.in_namespace(namespace) for item in items]

    def memory_evictions(self) -> AsyncIterator[MemoryEviction]:
        """Yield containers evicted for memory pressure: those still known, then new ones."""
        return MemoryEvictions(self._evictions)

    async def run(self) -> None:
        """Keep all stores up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for feed in (*self._watches.feeds, *self._watches.side_feeds):
                group.create_task(feed.run())

    async def synced(self) -> None:
        """Return once every store has had its first list."""
        for view in self._watches.views:
            await view.synced()
        while self._watches.is_waiting:
            await self._clock.sleep(_MOMENT)

    def problems(self) -> Mapping[str, Exception]:
        """Return the errors of feeds, by path, and the rights that acts lack, by act."""
        return {**_problems_of(self._watches.feeds), **super().problems()}

    def unseen(self) -> Mapping[str, Exception | None]:
        """Return the paths of which nothing was listed yet, each with the error if one is known."""
        watches = self._watches
        return {
            feed.path: feed.problem
            for feed, view in zip(watches.feeds, watches.views, strict=True)
            if view.age() is None
        }

    def required_reads(self) -> list[RequiredRead]:
        """Return the last read of each kind that a component cannot work without."""
        watches = self._watches
        return [
            RequiredRead(feed.path, view.current_at, feed.problem)
            for feed, view in zip(watches.feeds, watches.views, strict=True)
        ]

    def shortcomings(self) -> Mapping[str, Exception]:
        """Return the errors of optional reads, by path."""
        return {**_problems_of(self._watches.side_feeds), **self._scales.refusals()}

    def age(self) -> timedelta | None:
        """Return the age of the oldest view; None before all stores have had their first list.

        Without changes it grows to two minutes: a new watch gets its first bookmark that late.
        """
        if self._watches.is_waiting:
            return None
        ages = [view.age() for view in self._watches.views]
        known = [age for age in ages if age is not None]
        return max(known) if len(known) == len(ages) else None


def _problems_of(feeds: Sequence[Fed]) -> Mapping[str, Exception]:
    return {feed.path: feed.problem for feed in feeds if feed.problem is not None}


def merge_scopes(scopes: Sequence[Scope]) -> Scope:
    """Return the union of the scopes, which all have the same namespace."""
    [namespace] = {scope.namespace for scope in scopes}
    seen = {
        field.name: any(getattr(scope, field.name) for scope in scopes)
        for field in fields(Scope)
        if field.type is bool
    }
    kinds = dict.fromkeys(kind for scope in scopes for kind in scope.kinds)
    return Scope(namespace, kinds=tuple(kinds), **seen)
