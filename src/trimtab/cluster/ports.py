"""Ports: the interfaces through which components see the world and change it.

They have stores to read, a few acts, usage, and a clock: what a component needs to decide and act,
not a copy of REST. Two implementations exist: a real Kubernetes API server, and a simulated
cluster in virtual time. Acts raise errors of `errors.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    # Only types are imported here, and some of them would import numpy where it is not needed.
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
    from trimtab.core.usage.pressure import PressureReadings
    from trimtab.core.webhook.registration import Registration

RecordT_co = TypeVar("RecordT_co", covariant=True)


class Clock(Protocol):
    """The time, real or virtual."""

    def now(self) -> datetime:
        """Return the present moment in UTC."""

    async def sleep(self, span: timedelta) -> None:
        """Return when the span has passed."""


class Span(Protocol):
    """An operation that takes time, as a trace shows it."""

    def note(self, name: str, value: str | int) -> None:
        """Add an attribute to the span."""


class Tracer(Protocol):
    """Records how long operations take, and which are part of which."""

    def span(
        self, name: str, about: Mapping[str, str | int] | None = None, /
    ) -> AbstractContextManager[Span]:
        """Return a span that lasts as long as the block; spans that begin in it are its parts."""


class _Unseen:
    """A span that is not recorded."""

    def note(self, name: str, value: str | int) -> None:
        """Ignore the attribute."""


class _NoTracer:
    """A tracer that records nothing."""

    _unseen: Final = nullcontext(_Unseen())

    def span(
        self, _name: str, _about: Mapping[str, str | int] | None = None, /
    ) -> AbstractContextManager[Span]:
        """Return the same empty span for everything, which costs nothing."""
        return self._unseen


NO_TRACES: Final[Tracer] = _NoTracer()


class Store(Protocol[RecordT_co]):
    """A local copy of all objects of one kind, kept up to date by a watch; only read."""

    def __iter__(self) -> Iterator[RecordT_co]:
        """Iterate over all present objects."""

    def find(self, namespace: str, name: str) -> RecordT_co | None:
        """Return the object of that name, if there is one."""

    def age(self) -> timedelta | None:
        """Return the time since the view was known to be current; None before the first list."""

    def changes(self) -> AsyncIterator[RecordT_co]:
        """Yield objects as they appear or change from now on; several changes may come as one."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Objects that exist but cannot be read; they must not be taken for deleted."""


class Index(Protocol[RecordT_co]):
    """The objects of a store by a key of theirs, always as the store holds them."""

    def under(self, key: Hashable) -> Sequence[RecordT_co]:
        """Return the objects with this key, in the order in which they came to it."""

    def has(self, key: Hashable) -> bool:
        """Return True if any object has this key."""


class IndexedStore(Store[RecordT_co], Protocol[RecordT_co]):
    """A store with indexes, which find some objects without a scan of all."""

    def index(self, key: Callable[[RecordT_co], Hashable]) -> Index[RecordT_co]:
        """Make an index by a key that follows from each object; call this once."""


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
        """Make sums by a key, which is None for objects that do not count; call this once."""


class Owners(Protocol):
    """Owners of pods and workloads, as far as they are known."""

    async def topmost(self, owned: Pod | Workload) -> WorkloadName | None:
        """Return the topmost well-known or scalable workload above it; itself without an owner."""

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        """Return the workload itself: its owner, its pods' selector, its number of replicas."""

    def known(self, name: WorkloadName) -> Workload | None:
        """Return a workload of a well-known kind without waiting; None for others or if missing."""

    async def look_up(self, lookup: Lookup) -> None:
        """Renew the cached answer about a workload that is not watched, if it is due."""

    def peek(self, owned: Pod | PodHead | Workload) -> PeekedOwner:
        """Return the same as `topmost` from memory alone, without requests: old answers count."""

    def peek_workload(self, name: WorkloadName, api_version: str = "") -> PeekedWorkload:
        """Return the same as `workload`, from memory alone."""


class UsageSource(Protocol):
    """A source of usage samples."""

    async def fetch(self) -> UsageColumns:
        """Return the newest reading of every container."""


class ExternalMetrics(Protocol):
    """A source that returns only the pods that it is asked for."""

    async def fetch(self, groups: Sequence[PodGroup]) -> UsageColumns:
        """Return the newest readings of these pods, with the problems of parts that are missing."""


class PressureSource(Protocol):
    """A source of signals that containers need more than they use."""

    async def fetch(self) -> PressureReadings:
        """Return the containers that are under pressure now; a ClusterError if that is unknown."""


class HistorySource(Protocol):
    """A source of past usage; it raises a HistoryError while that cannot be read."""

    async def fetch_usage(self, resource: Resource, shard: Shard) -> PastUsage:
        """Return the samples of all containers in a shard; TooMuchHistoryError if too many."""

    async def fetch_pods(self, shard: Shard) -> Sequence[PodTrace]:
        """Return what is known of the pods that existed in that time."""

    def conventions(self) -> Mapping[str, str]:
        """Return the labels of containers and pods that were found there, for people."""


class Cluster(Protocol):
    """The cluster: its objects, and the acts on it."""

    pods: SummedStore[Pod]
    autoscalers: IndexedStore[Autoscaler]
    checkpoints: Store[Checkpoint]
    nodes: Store[Node]
    """Optional, and nothing waits for it: without the right to see nodes it stays unlisted."""
    daemon_sets: Store[Workload]
    """The DaemonSets, each with its template."""
    horizontals: IndexedStore[Horizontal]
    """Listed before the first tick where that is permitted, and else never."""
    namespaces: Store[Namespace]
    owners: Owners

    def quotas(self, namespace: str) -> Sequence[Quota]:
        """Return all resource quotas of the namespace."""

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeItem]:
        """Return the items of all limit ranges of the namespace."""

    def memory_evictions(self) -> AsyncIterator[MemoryEviction]:
        """Yield containers evicted for memory pressure, each once: the known ones, then new ones.

        Evictions before this call are known for an hour or so; `at` shows when each one happened.
        """

    def age(self) -> timedelta | None:
        """Return the age of the oldest view; None before everything has been listed once."""

    def problems(self) -> Mapping[str, Exception]:
        """Return the present errors of reads and acts, by place; a missing right is named."""

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
        """Write a checkpoint, creating the object if there is none."""

    async def has_autoscaler(self, name: AutoscalerName) -> bool:
        """Return True if the autoscaler exists now, as the API server says rather than a store."""

    async def delete_checkpoint(
        self, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        """Delete a checkpoint; one that is gone already is no error.

        ConflictError if it is no longer in the version that was named.
        """

    async def can_resize(self) -> bool:
        """Return True if pods can be resized in place here."""

    async def evict(self, pod: Pod) -> None:
        """Evict the pod, if it is still the one that was seen and its budgets allow it."""

    async def try_eviction(self, pod: Pod) -> None:
        """Raise the errors that `evict` would, without evicting the pod."""

    async def resize(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's resources in place, if it still asks for what was seen.

        ConflictError if another manager has set a size since.
        """

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's metadata, if it is still the one that was seen."""

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """Fetch the lease from the server, if there is one."""

    async def write_lease(self, lease: Lease) -> Lease:
        """Create the lease or replace the version that it names; ConflictError if another did."""

    async def emit(self, event: Event) -> None:
        """Write an event; equal events are counted, and a failure is not raised."""


class RoleCluster(Protocol):
    """The part of the cluster that the role keeper needs to find holders and label pods."""

    pods: SummedStore[Pod]

    @property
    def leases(self) -> Store[Lease]:
        """All leases, except those of nodes."""

    def workloads(self) -> Iterable[Workload]:
        """Return all workloads of the kinds that are watched."""

    def age(self) -> timedelta | None:
        """Return the age of the oldest view; None before everything has been listed once."""

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """Fetch the lease from the server, if there is one."""

    async def list_labelled(self, namespace: str, label: str, value: str) -> Sequence[Pod]:
        """List the pods with that label from the server."""

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's metadata, if it is still the one that was seen."""


class WebhookHost(Protocol):
    """The webhook's Secret and registration in the cluster, and trials of the webhook."""

    async def fetch_secret(self, namespace: str, name: str) -> Secret | None:
        """Fetch the Secret from the server, if there is one."""

    async def write_secret(self, secret: Secret) -> Secret:
        """Create the Secret or change the version that it names; ConflictError if another did."""

    async def fetch_registration(self, name: str) -> Registration | None:
        """Fetch the registration from the server, if there is one."""

    async def write_registration(self, found: Registration | None, wanted: Registration) -> None:
        """Create the registration, or patch the one that was found into the wanted one.

        ConflictError if it is not, or no longer, what was found.
        """

    async def try_pod(self, namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the annotations that a small pod with these labels would have; none is created."""
