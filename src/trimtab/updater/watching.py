"""Which pods changed in a way that cannot wait for the next tick.

A pod that turns Ready, changes a label or ends a resize may be due for something else at once; a
new pod of a workload of which something is expected shows whether it came true.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.cluster.ports import Store
from trimtab.core.pods import Pod, ResizeState
from trimtab.updater.observing import Observer
from trimtab.updater.owning import OwnerKey, owner_key


class _Facets(NamedTuple):
    """What of a pod is compared."""

    is_ready: bool
    labels: Mapping[str, str]
    resize: ResizeState | None


class PodWatch:
    """Follows the store of pods, and gathers the owners of those that changed."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._seen: dict[str, _Facets] = {}
        self._changed: set[OwnerKey] = set()
        self._marked = asyncio.Event()

    async def follow(self, pods: Store[Pod]) -> None:
        """Look at every change, for ever."""
        async for pod in pods.changes():
            facets = _facets(pod)
            before = self._seen.get(pod.uid)
            self._seen[pod.uid] = facets
            if self._cannot_wait(pod, facets, before):
                self.mark(pod)

    def mark(self, pod: Pod) -> None:
        """Let the pod's workload be planned soon."""
        if (key := owner_key(pod)) is not None:
            self._changed.add(key)
            self._marked.set()

    def remember(self, pods: Iterable[Pod]) -> None:
        """Compare with these pods from now on; all others are forgotten."""
        self._seen = {pod.uid: _facets(pod) for pod in pods}

    async def changed(self) -> None:
        """Return when there is something to plan."""
        await self._marked.wait()

    def take_changed(self) -> frozenset[OwnerKey]:
        """The owners of pods that changed since this was last asked."""
        changed, self._changed = self._changed, set()
        self._marked.clear()
        return frozenset(changed)

    def _cannot_wait(self, pod: Pod, now: _Facets, before: _Facets | None) -> bool:
        if before is None:
            return self._observer.is_watched(pod)
        turned_ready = now.is_ready and not before.is_ready
        moved_on = before.resize is not None and now.resize is not before.resize
        return turned_ready or moved_on or now.labels != before.labels


def _facets(pod: Pod) -> _Facets:
    return _Facets(pod.ready_since is not None, pod.labels, pod.resize)
