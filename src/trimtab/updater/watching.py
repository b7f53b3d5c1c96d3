"""Which pods changed in a way that cannot wait for the next tick.

A pod that turns Ready, changes a label or ends a resize may be due for something else at once; a
new pod of a workload of which something is expected shows whether it came true. Whatever happens
to a boosted pod may bring the end of its boost nearer.
"""

import asyncio
from collections.abc import Callable, Iterable

from trimtab.cluster.ports import Store
from trimtab.core.boost import boosted_containers
from trimtab.core.pods import PUT_OFF, Pod
from trimtab.updater.observing import Observer
from trimtab.updater.owning import OwnerKey, owner_key


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
        """Let the pod's workload be planned soon."""
        if (key := owner_key(pod)) is not None:
            self._changed.add(key)
            self._marked.set()

    def remember(self, pods: Iterable[Pod]) -> None:
        """Compare with these pods from now on; all others are forgotten."""
        self._seen = {pod.uid: pod for pod in pods}

    async def changed(self) -> None:
        """Return when there is something to plan."""
        await self._marked.wait()

    def take_changed(self) -> frozenset[OwnerKey]:
        """The owners of pods that changed since this was last asked."""
        changed, self._changed = self._changed, set()
        self._marked.clear()
        return frozenset(changed)

    def _cannot_wait(self, pod: Pod, before: Pod | None) -> bool:
        boosted = boosted_containers(pod)
        if before is None:
            return bool(boosted) or self._observer.is_watched(pod)
        turned_ready = pod.ready_since is not None and before.ready_since is None
        has_moved = pod.resize is not before.resize
        moved_on = has_moved and (before.resize is not None or pod.resize in PUT_OFF)
        changed = turned_ready or moved_on or pod.labels != before.labels
        return changed or (bool(boosted) and _stage(pod) != _stage(before))


def _stage(pod: Pod) -> tuple[object, ...]:
    """What the end of a boost depends on, but for time."""
    return (
        boosted_containers(pod),
        pod.ready_since,
        pod.phase,
        pod.node_name,
        pod.unschedulable_since,
        tuple((each.spec, each.status) for each in pod.containers),
    )
