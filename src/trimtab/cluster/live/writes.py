"""Writes to a real cluster: the acts of the `Cluster` port, by requests to its API server."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

from trimtab.api.kinds import autoscalers, events, evictions, leases, pods
from trimtab.api.kinds.events import Event
from trimtab.api.kinds.leases import Lease
from trimtab.api.wire import codec, lists
from trimtab.api.wire.lists import Listing
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import (
    ApiError,
    ClusterError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import MERGE_PATCH, Client
from trimtab.cluster.live import checkpoint_wire
from trimtab.cluster.live.missing_permissions import MissingRights
from trimtab.core.model import pods as core_pods
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
)
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.pods import Pod

_MAX_SERIES: Final = 4096
"""Maximum number of different events that are remembered; the same as in client-go."""
_COUNT_EVERY: Final = timedelta(minutes=5)
"""Interval between writes of a count; client-go too lets a busy object through every 5 minutes."""

_Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class _Series:
    """Equal events: the object that stands for them, and their number."""

    path: str
    written_at: datetime
    count: int = 1


class EventLog:
    """Writes events; equal events are written once and then as a count."""

    def __init__(self, client: Client, rights: MissingRights) -> None:
        self._client = client
        self._rights = rights
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self.failures = 0
        """Number of events that the server did not take."""

    async def emit(self, event: Event) -> None:
        """Write the event, or count it if an equal one was written before."""
        try:
            with self._rights.noted("emit"):
                await self._write(event)
        except ClusterError:
            self.failures += 1

    async def _write(self, event: Event) -> None:
        series = self._series.get(_key(event))
        if series is None:
            await self._begin(event)
            return
        self._series.move_to_end(_key(event))
        series.count += 1
        if event.at - series.written_at >= _COUNT_EVERY:
            await self._count(event, series)

    async def _begin(self, event: Event) -> None:
        path = paths.collection("v1", "events", event.about.namespace or "default")
        # Remembered first: equal events that come meanwhile are counted, not written again.
        self._series[_key(event)] = _Series(paths.item(path, events.event_name(event)), event.at)
        if len(self._series) > _MAX_SERIES:
            self._series.popitem(last=False)
        try:
            await self._client.post(path, events.encode_event(event))
        except ClusterError:
            self._series.pop(_key(event), None)
            raise

    async def _count(self, event: Event, series: _Series) -> None:
        # Before the request: equal events that come while it runs must not write the count again.
        series.written_at = event.at
        body = events.encode_event_count(series.count, event.at)
        try:
            await self._client.patch(series.path, body, MERGE_PATCH)
        except NotFoundError:
            # The server forgets events after an hour.
            await self._begin(event)


def _key(event: Event) -> _Key:
    about = event.about
    named = (about.kind, about.namespace, about.name, about.uid)
    return (*named, event.reason, event.message, event.component, event.type)


if TYPE_CHECKING:
    from trimtab.api.kinds.checkpoints import Checkpoint
    from trimtab.cluster.ports import Store

LEASES: Final = "coordination.k8s.io/v1"
_RESIZE_ATTEMPTS: Final = 3
"""Maximum number of attempts at a resize while only other parts of the pod change."""
_CHANGES_TOO_OFTEN: Final = Status(
    code=HTTPStatus.CONFLICT, reason="Conflict", message="the pod changes too often"
)


class Acts:
    """The acts of a real cluster; the store of checkpoints shows which ones exist."""

    def __init__(self, client: Client, checkpoints: "Store[Checkpoint]") -> None:
        self._client = client
        self._checkpoints = checkpoints
        self._rights = MissingRights()
        self._events = EventLog(client, self._rights)

    def problems(self) -> Mapping[str, Exception]:
        """Return the missing right of each act that failed last time, by act."""
        return self._rights.refusals()

    @property
    def lost_events(self) -> int:
        """Number of events that the server did not take."""
        return self._events.failures

    async def publish_status(
        self,
        autoscaler: Autoscaler,
        recommendation: Sequence[ContainerRecommendation],
        conditions: Sequence[Condition],
    ) -> None:
        """Write an autoscaler's status, if it differs from what is there."""
        generation = autoscaler.generation or None
        patch = autoscalers.encode_status_patch(
            recommendation, conditions, observed_generation=generation
        )
        # The encoded patches are compared, since times and amounts are coarser on the wire.
        if patch != _stored_status(autoscaler):
            path = paths.item(paths.autoscalers(autoscaler.namespace), autoscaler.name, "status")
            # Pods start without a recommendation until this is there (decision 0015).
            is_first = bool(recommendation) and not autoscaler.recommendation
            with self._rights.noted("publish status"):
                await self._client.patch(path, patch, is_exempt=is_first)

    async def publish_conditions(
        self, autoscaler: Autoscaler, conditions: Sequence[Condition]
    ) -> None:
        """Write all conditions and nothing else, if they differ from what is there.

        The patch replaces the whole list, so it applies only to the version that was seen
        (ConflictError).
        """
        patch = autoscalers.encode_conditions_patch(autoscaler, conditions)
        if patch != autoscalers.encode_conditions_patch(autoscaler, autoscaler.conditions):
            path = paths.item(paths.autoscalers(autoscaler.namespace), autoscaler.name, "status")
            with self._rights.noted("publish status"):
                await self._patch_if_it_applies(path, patch)

    async def save_checkpoint(self, checkpoint: "Checkpoint") -> None:
        """Write a checkpoint, creating the object if there is none."""
        stored = self._checkpoints.find(checkpoint.namespace, checkpoint.written_name)
        with self._rights.noted("save checkpoint"):
            if stored is None:
                await self._create_checkpoint(checkpoint)
            else:
                await self._overwrite_checkpoint(checkpoint, stored)

    async def has_autoscaler(self, name: AutoscalerName) -> bool:
        """Return True if the autoscaler exists now, as the API server says rather than a store."""
        listing = await self._list_autoscaler(name)
        return bool(listing.items or listing.unreadable)

    async def fetch_autoscaler(self, name: AutoscalerName) -> Autoscaler | None:
        """Return the autoscaler as it is on the API server; None if there is none.

        Raises a DecodeError for one that cannot be read.
        """
        listing = await self._list_autoscaler(name)
        if listing.unreadable:
            raise listing.unreadable[0].error
        return next(iter(listing.items), None)

    async def _list_autoscaler(self, name: AutoscalerName) -> Listing[Autoscaler]:
        """List one name, instead of a `get`: a 404 also means that the kind is not served."""
        only = {"fieldSelector": f"metadata.name={name.name}"}
        with self._rights.noted("find autoscaler"):
            found = await self._client.fetch(paths.autoscalers(name.namespace), only)
        return lists.decode_list(found, autoscalers.decode_autoscaler)

    async def delete_checkpoint(
        self, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        """Delete a checkpoint; one that is gone already is no error.

        ConflictError if it is no longer in the version that was named.
        """
        path = paths.item(paths.checkpoints(namespace), name)
        body = _delete_options(resource_version) if resource_version else None
        with self._rights.noted("delete checkpoint"), suppress(NotFoundError):
            await self._client.delete(path, body)

    async def evict(self, pod: Pod) -> None:
        """Evict the pod, if it is in the version that was seen and its budgets allow it.

        A needless disruption cannot be undone by a retry, so any change since the decision stops
        the eviction (ConflictError). A PodDisruptionBudget does too (BudgetError).
        """
        path = paths.item(paths.pods(pod.namespace), pod.name, "eviction")
        with self._rights.noted("evict"):
            await self._client.post(path, evictions.encode_eviction(pod))

    async def try_eviction(self, pod: Pod) -> None:
        """Raise the errors that `evict` would, without evicting the pod."""
        path = paths.item(paths.pods(pod.namespace), pod.name, "eviction")
        with self._rights.noted("evict"):
            # The server checks the budget and the version, and does nothing.
            await self._client.post(f"{path}?dryRun=All", evictions.encode_eviction(pod))

    async def resize(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's resources in place, if it still asks for what was seen.

        ConflictError if another manager has set a size since: it may have newer information. Other
        changes do not matter, or a label that changes often would keep a pod from its size.
        """
        with self._rights.noted("resize"):
            for _ in range(_RESIZE_ATTEMPTS):
                try:
                    await self._patch_seen(pod, patch, "resize", version=pod.resource_version)
                except ConflictError as error:
                    # The patch tests the version, so a change of any field refuses it; sizes alone
                    # matter here.
                    pod = await self._in_present_version(pod, error)
                else:
                    return
            raise ConflictError(f"resize pods {pod.namespace}/{pod.name}", _CHANGES_TOO_OFTEN)

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        """Patch the pod's metadata, if it is still the one that was seen."""
        with self._rights.noted("patch pod"):
            await self._patch_seen(pod, patch)

    async def list_labelled(self, namespace: str, label: str, value: str) -> Sequence[Pod]:
        """List the pods with that label from the server."""
        selector = {"labelSelector": f"{label}={value}"}
        with self._rights.noted("list pods"):
            found = await self._client.fetch(paths.pods(namespace), selector)
        return lists.decode_list(found, pods.decode_pod).items

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """Fetch the lease from the server, if there is one."""
        path = paths.item(paths.collection(LEASES, "leases", namespace), name)
        with self._rights.noted("fetch lease"), suppress(NotFoundError):
            return leases.decode_lease(await self._client.fetch(path, is_urgent=True))
        return None

    async def write_lease(self, lease: Lease) -> Lease:
        """Create the lease or replace the version that it names; ConflictError if another did."""
        path = paths.collection(LEASES, "leases", lease.namespace)
        body = leases.encode_lease(lease)
        with self._rights.noted("write lease"):
            # A POST fails if the lease exists, a PUT if it is another version: both are the
            # election's lock.
            if not lease.resource_version:
                return leases.decode_lease(await self._client.post(path, body, is_urgent=True))
            named = paths.item(path, lease.name)
            return leases.decode_lease(await self._client.put(named, body, is_urgent=True))

    async def emit(self, event: Event) -> None:
        """Write an event; equal events are counted, and a failure is not raised."""
        await self._events.emit(event)

    async def _create_checkpoint(self, checkpoint: "Checkpoint") -> None:
        path = paths.checkpoints(checkpoint.namespace)
        try:
            await self._client.post(path, checkpoint_wire.encode_checkpoint(checkpoint))
        except ConflictError:
            # It exists, and the store does not know it yet, or cannot read it.
            found = await self._client.fetch(paths.item(path, checkpoint.written_name))
            if checkpoint_wire.is_of_another(found, checkpoint):
                raise
            await self._patch_checkpoint(
                checkpoint, checkpoint_wire.decode_checkpoint_annotations(found)
            )

    async def _overwrite_checkpoint(self, checkpoint: "Checkpoint", stored: "Checkpoint") -> None:
        try:
            await self._patch_checkpoint(checkpoint, stored.annotations)
        except NotFoundError:
            # The store does not know yet that another client has deleted it.
            path = paths.checkpoints(checkpoint.namespace)
            await self._client.post(path, checkpoint_wire.encode_checkpoint(checkpoint))

    async def _patch_checkpoint(
        self, checkpoint: "Checkpoint", annotations: Mapping[str, str]
    ) -> None:
        path = paths.item(paths.checkpoints(checkpoint.namespace), checkpoint.written_name)
        body = checkpoint_wire.encode_checkpoint_patch(checkpoint, stored=annotations)
        await self._client.patch(path, body)

    async def _in_present_version(self, seen: Pod, error: ConflictError) -> Pod:
        """Return the pod as it is on the server; raise the error if its size is another one."""
        only = {"fieldSelector": f"metadata.name={seen.name}"}
        try:
            found = await self._client.fetch(paths.pods(seen.namespace), only)
        except ApiError:
            # Nothing was changed, while an error of this request would leave that open.
            raise error from None
        pod = next(iter(lists.decode_list(found, pods.decode_pod).items), None)
        if pod is None or pod.uid != seen.uid or not core_pods.asks_for_same(pod, seen):
            raise error
        if pod.resource_version == seen.resource_version:
            # The pod is what was seen, so the server has refused the patch itself.
            raise error.__cause__ or error
        return pod

    async def _patch_seen(
        self, pod: Pod, patch: Patch, subresource: str = "", *, version: str = ""
    ) -> None:
        # The list of containers of one pod never changes, so its uid is enough to go by index.
        seen = {"/metadata/uid": pod.uid}
        if version:
            # A JSON patch `test` of the version makes the write conditional, as a PUT would be.
            seen["/metadata/resourceVersion"] = version
        tests = [{"op": "test", "path": each, "value": value} for each, value in seen.items()]
        path = paths.item(paths.pods(pod.namespace), pod.name, subresource)
        await self._patch_if_it_applies(path, codec.encode([*tests, *patch]))

    async def _patch_if_it_applies(self, path: str, patch: bytes) -> None:
        try:
            await self._client.patch(path, patch)
        except InvalidError as error:
            if error.causes:
                raise
            # Without causes the patch did not apply at all: the object is not what was seen.
            raise ConflictError(error.request, error.status) from error


def _delete_options(resource_version: str) -> bytes:
    preconditions = {"resourceVersion": resource_version}
    return codec.encode(
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    )


def _stored_status(autoscaler: Autoscaler) -> bytes:
    return autoscalers.encode_status_patch(
        autoscaler.recommendation,
        autoscaler.conditions,
        observed_generation=autoscaler.observed_generation,
    )
