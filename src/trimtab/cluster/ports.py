"""What components see of the world: stores to read, a few acts, usage, and a clock.

Shaped by what a component needs to decide and do, not by REST. Two worlds stand behind it: a real
Kubernetes API server, and a simulated cluster in virtual time. Acts raise errors of `errors.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    # Only types stand here, and some of them would bring numpy to who does not need it.
    from collections.abc import (
        AsyncIterator,
        Callable,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from trimtab.api.kinds.checkpoints import Checkpoint
    from trimtab.api.kinds.events import Event
    from trimtab.api.kinds.evictions import MemoryEviction
    from trimtab.api.kinds.leases import Lease
    from trimtab.api.kinds.secrets import Secret
    from trimtab.api.usage.external_metrics import PodGroup
    from trimtab.api.usage.pod_metrics import UsageColumns
    from trimtab.api.wire.lists import Unreadable
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
    from trimtab.core.model.pods import Pod, PodHead, WorkloadName
    from trimtab.core.model.resources import Resource, Resources
    from trimtab.core.model.workloads import (
        Lookup,
        Namespace,
        PeekedOwner,
        PeekedWorkload,
        Workload,
    )
    from trimtab.core.sizing.quotas import Quota
    from trimtab.core.usage.history_samples import PastUsage, PodTrace, Shard
    from trimtab.core.webhook.registration import Registration

RecordT_co = TypeVar("RecordT_co", covariant=True)


class Clock(Protocol):
    """The time, real or virtual."""

    def now(self) -> datetime:
        """The present moment in UTC."""

    async def sleep(self, span: timedelta) -> None:
        """Return when the span has passed."""


class Span(Protocol):
    """Something that takes a while, as others will see it."""

    def note(self, name: str, value: str | int) -> None:
        """Tell what has come to light about it."""


class Tracer(Protocol):
    """Who watches how long things take, and which are part of which."""

    def span(
        self, name: str, about: Mapping[str, str | int] | None = None, /
    ) -> AbstractContextManager[Span]:
        """A span that lasts as long as the block; those that begin within are parts of it."""


class _Unseen:
    """A span that nobody looks at."""

    def note(self, name: str, value: str | int) -> None:
        """Nobody wants to know."""


class _NoTracer:
    """Nobody watches."""

    _unseen: Final = nullcontext(_Unseen())

    def span(
        self, _name: str, _about: Mapping[str, str | int] | None = None, /
    ) -> AbstractContextManager[Span]:
        """The same for everything: it costs nothing."""
        return self._unseen


NO_TRACES: Final[Tracer] = _NoTracer()


class Store(Protocol[RecordT_co]):
    """A local copy of all objects of one kind, kept up to date by a watch; only read."""

    def __iter__(self) -> Iterator[RecordT_co]:
        """All objects of this moment."""

    def find(self, namespace: str, name: str) -> RecordT_co | None:
        """The object of that name, if there is one."""

    def age(self) -> timedelta | None:
        """How long ago the view was last known to be current; None before the first list."""

    def changes(self) -> AsyncIterator[RecordT_co]:
        """Objects as they appear or change from now on; one that changes twice may come once."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Objects that are there but cannot be read; nobody may take them for deleted."""


class Index(Protocol[RecordT_co]):
    """The objects of a store by a key of theirs, always as the store holds them."""

    def under(self, key: Hashable) -> Sequence[RecordT_co]:
        """The objects with this key, in the order in which they came to it."""

    def has(self, key: Hashable) -> bool:
        """Return True if any object has this key."""


class IndexedStore(Store[RecordT_co], Protocol[RecordT_co]):
    """A store in which some objects are found without a look at all of them."""

    def index(self, key: Callable[[RecordT_co], Hashable]) -> Index[RecordT_co]:
        """The objects by a key that follows from each of them; to be asked for once."""


class Totals(Protocol):
    """Sums of what the objects of a store take, by a key of theirs."""

    def by_key(self) -> Mapping[str, Resources]:
        """Return the sums as they are now; they never change later."""

    def counts(self) -> Mapping[str, int]:
        """Return the numbers of objects that have the keys now; they never change later."""


class SummedStore(IndexedStore[RecordT_co], Protocol[RecordT_co]):
    """A store that keeps sums of what its objects take."""

    def totals(
        self, key: Callable[[RecordT_co], str | None], amounts: Callable[[RecordT_co], Resources]
    ) -> Totals:
        """Sums by a key, which is None for objects that do not count; to be asked for once."""


class Owners(Protocol):
    """Who owns whom, as far as it is known."""

    async def topmost(self, owned: Pod | Workload) -> WorkloadName | None:
        """The topmost well-known or scalable workload above it, or a workload that has none."""

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        """The workload itself: its owner, its pods' selector, how many it wants."""

    def known(self, name: WorkloadName) -> Workload | None:
        """The same of well-known kinds, without waiting; None of others, or if there is none."""

    async def look_up(self, lookup: Lookup) -> None:
        """Renew what is remembered of a workload that is not watched, if it is due."""

    def peek(self, owned: Pod | PodHead | Workload) -> PeekedOwner:
        """The same as `topmost`, from memory alone: old answers count, and nothing is asked."""

    def peek_workload(self, name: WorkloadName, api_version: str = "") -> PeekedWorkload:
        """The same as `workload`, from memory alone."""


class UsageSource(Protocol):
    """Where samples come from."""

    async def fetch(self) -> UsageColumns:
        """The newest reading of every container."""


class ExternalMetrics(Protocol):
    """A source that tells only of pods that it is asked for."""

    async def fetch(self, groups: Sequence[PodGroup]) -> UsageColumns:
        """The newest readings of these pods, and what kept parts of them from coming."""


class HistorySource(Protocol):
    """Where past usage comes from; it raises a HistoryError while that cannot be read."""

    async def fetch_usage(self, resource: Resource, shard: Shard) -> PastUsage:
        """The samples of all containers in a part of history; TooMuchHistoryError if too many."""

    async def fetch_pods(self, shard: Shard) -> Sequence[PodTrace]:
        """What is known of the pods that there were in that time."""

    def conventions(self) -> Mapping[str, str]:
        """How containers and pods are told there, as far as that was found out, for people."""


class Cluster(Protocol):
    """The cluster: what is in it, and what may be done to it."""

    pods: SummedStore[Pod]
    autoscalers: IndexedStore[Autoscaler]
    checkpoints: Store[Checkpoint]
    nodes: Store[Node]
    """Good to know, and nothing waits for it: without the right to see nodes it stays unlisted."""
    daemon_sets: Store[Workload]
    """The DaemonSets, each with its template."""
    horizontals: IndexedStore[Horizontal]
    """Listed with all the rest where that is allowed, and else never."""
    namespaces: Store[Namespace]
    owners: Owners

    def quotas(self, namespace: str) -> Sequence[Quota]:
        """All resource quotas of the namespace."""

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeItem]:
        """The items of all limit ranges of the namespace."""

    def memory_evictions(self) -> AsyncIterator[MemoryEviction]:
        """Containers evicted for want of memory, each once: those still known, then as they come.

        What happened before this call is known for an hour or so; `at` tells it apart.
        """

    def age(self) -> timedelta | None:
        """How old the oldest view is; None before everything has been listed once."""

    def problems(self) -> Mapping[str, Exception]:
        """What keeps us from seeing or acting now, by where: a missing right names itself."""

    async def publish_status(
        self,
        autoscaler: Autoscaler,
        recommendation: Sequence[ContainerRecommendation],
        conditions: Sequence[Condition],
    ) -> None:
        """Write an autoscaler's status, if it differs from what is there."""

    async def publish_conditions(
        self, autoscaler: Autoscaler, conditions: Sequence[Condition]
    ) -> None:
        """Write all conditions and nothing else; ConflictError if it is not the one seen."""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, making the object if there is none."""

    async def has_autoscaler(self, name: AutoscalerName) -> bool:
        """Return True if the autoscaler exists now, as the API server says rather than a store."""

    async def delete_checkpoint(
        self, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        """Delete a checkpoint; one that is gone already is no error.

        ConflictError if it is no longer in the version that was named.
        """

    async def can_resize(self) -> bool:
        """Whether pods can be resized in place here."""

    async def evict(self, pod: Pod) -> None:
        """Evict the pod, if it is still the one that was seen and its budgets allow it."""

    async def try_eviction(self, pod: Pod) -> None:
        """Raise whatever `evict` would, and evict nobody."""

    async def resize(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's resources in place, if it still asks for what was seen.

        ConflictError if another manager has set a size since.
        """

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's metadata, if it is still the one that was seen."""

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """The lease as it is on the server, if there is one."""

    async def write_lease(self, lease: Lease) -> Lease:
        """Create the lease or replace the version that it names; ConflictError if another did."""

    async def emit(self, event: Event) -> None:
        """Tell what happened; equal events are counted, and a failure is nobody's problem."""


class RoleCluster(Protocol):
    """What of the cluster is needed to know whose a role is, and to write it down."""

    pods: SummedStore[Pod]

    @property
    def leases(self) -> Store[Lease]:
        """All leases, but for those of nodes."""

    def workloads(self) -> Iterable[Workload]:
        """All workloads of the kinds that are watched."""

    def age(self) -> timedelta | None:
        """How old the oldest view is; None before everything has been listed once."""

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """The lease as it is on the server, if there is one."""

    async def list_labelled(self, namespace: str, label: str, value: str) -> Sequence[Pod]:
        """The pods with that label, as they are on the server."""

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's metadata, if it is still the one that was seen."""


class WebhookHost(Protocol):
    """What a webhook keeps in the cluster so that it is asked and believed, and a way to try it."""

    async def fetch_secret(self, namespace: str, name: str) -> Secret | None:
        """The Secret as it is on the server, if there is one."""

    async def write_secret(self, secret: Secret) -> Secret:
        """Create the Secret or change the version that it names; ConflictError if another did."""

    async def fetch_registration(self, name: str) -> Registration | None:
        """The registration as it is on the server, if there is one."""

    async def write_registration(self, found: Registration | None, wanted: Registration) -> None:
        """Create the registration, or make the wanted one of the one that was found.

        ConflictError if it is not, or no longer, what was found.
        """

    async def try_pod(self, namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """The annotations that a modest pod with these labels would have; none is made."""
