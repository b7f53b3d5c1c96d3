"""Changes of pods that cannot wait for the next tick.

A pod that turns Ready, changes a label or ends a resize may be due for another act at once. A new
pod shows whether an expectation for its workload came true. Any change of a boosted pod may bring
the end of its boost nearer.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from trimtab.cluster.ports import Clock, Store
from trimtab.core.changes.outcomes import Hold, Outcome
from trimtab.core.model.pods import PUT_OFF, Pod
from trimtab.core.sizing import startup_boost
from trimtab.updater.observe import Observer
from trimtab.updater.pod_owners import OwnerKey, owner_key


class PodWatch:
    """Follows the store of pods, and gathers the owners of those that changed."""

    def __init__(self, observer: Observer, note: Callable[[Pod], None]) -> None:
        self._observer = observer
        self._note = note
        self._seen: dict[str, Pod] = {}
        self._changed: set[OwnerKey] = set()
        self._marked = asyncio.Event()

    async def follow(self, pods: Store[Pod]) -> None:
        """Look at every pod once, and at every change, for ever."""
        changes = pods.changes()
        for pod in pods:
            self._note(pod)
        async for pod in changes:
            before = self._seen.get(pod.uid)
            self._seen[pod.uid] = pod
            self._note(pod)
            if self._cannot_wait(pod, before):
                self.mark(pod)

    def mark(self, pod: Pod) -> None:
        """Have the pod's workload planned soon."""
        if (key := owner_key(pod)) is not None:
            self._changed.add(key)
            self._marked.set()

    def remember(self, pods: Iterable[Pod]) -> None:
        """Compare with these pods from now on; forget all others."""
        self._seen = {pod.uid: pod for pod in pods}

    async def changed(self) -> None:
        """Return when there is something to plan."""
        await self._marked.wait()

    def take_changed(self) -> frozenset[OwnerKey]:
        """Return the owners of pods that changed since the last call."""
        changed, self._changed = self._changed, set()
        self._marked.clear()
        return frozenset(changed)

    def _cannot_wait(self, pod: Pod, before: Pod | None) -> bool:
        boosted = startup_boost.boosted_containers(pod)
        if before is None:
            return bool(boosted) or self._observer.is_watched(pod)
        turned_ready = pod.ready_since is not None and before.ready_since is None
        has_moved = pod.resize is not before.resize
        moved_on = has_moved and (before.resize is not None or pod.resize in PUT_OFF)
        changed = turned_ready or moved_on or pod.labels != before.labels
        return changed or (bool(boosted) and _stage(pod) != _stage(before))


def _stage(pod: Pod) -> tuple[object, ...]:
    """Return the facts that determine the end of a boost, except time."""
    return (
        startup_boost.boosted_containers(pod),
        pod.ready_since,
        pod.phase,
        pod.node_name,
        pod.unschedulable_since,
        tuple((each.spec, each.status) for each in pod.containers),
    )


class Alarms:
    """Alarms for pods that a plan holds until a certain moment."""

    def __init__(self, clock: Clock, ring: Callable[[Pod], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._set: dict[OwnerKey, tuple[datetime, Pod]] = {}
        """The next alarm of each owner: a plan of one of its pods covers them all."""
        self._new: asyncio.Queue[tuple[Pod, datetime]] = asyncio.Queue()

    async def run(self) -> None:
        """Ring in time, for ever."""
        self._set.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                pod, moment = await self._new.get()
                group.create_task(self._wait(pod, moment))

    def set_for(self, outcomes: Iterable[Outcome]) -> None:
        """Set alarms for the holds among the outcomes that have an end."""
        for each in outcomes:
            if isinstance(each, Hold) and each.until is not None:
                self.set_one(each.pod, each.until)

    def set_one(self, pod: Pod, moment: datetime) -> None:
        """Ring for the pod at the moment, unless its owner has an earlier alarm."""
        owner = owner_key(pod)
        known = None if owner is None else self._set.get(owner)
        # An alarm that rings too early costs a look, after which it is set again.
        if owner is not None and (known is None or moment < known[0]):
            self._set[owner] = moment, pod
            self._new.put_nowait((pod, moment))

    def ring_early(self, namespace: str) -> None:
        """Ring at once for the pods of a namespace, whose wait is over."""
        for owner in [each for each in self._set if each.namespace == namespace]:
            _, pod = self._set.pop(owner)
            self._ring(pod)

    async def _wait(self, pod: Pod, moment: datetime) -> None:
        await self._clock.sleep(max(moment - self._clock.now(), timedelta()))
        owner = owner_key(pod)
        # Another one may have been set for an earlier moment since.
        if owner is not None and self._set.get(owner, (None, pod))[0] == moment:
            del self._set[owner]
            self._ring(pod)
