"""The scheduler: gives each pending pod a node that has room for its requests.

A pod that fits nowhere stays pending. The scheduler retries it when a pod has gone or shrunk, or a
node was added or changed.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from msgspec import structs

from trimtab.api.wire.watch_events import ObjectName
from trimtab.core.model.pods import Pod
from trimtab.core.model.resources import BOTH, Resources
from trimtab.simulation.world import objects
from trimtab.simulation.world.objects import ENDED, NodeObject
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World

DELAY: Final = timedelta(milliseconds=50)
"""Delay after a change until the scheduler looks at it."""


@dataclass(frozen=True, slots=True)
class _Hold:
    """Resources that one pod takes of one node."""

    node_name: str
    amounts: Resources


class Scheduler:
    """Places pods on nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._holds: dict[str, _Hold] = {}
        self._taken: dict[str, dict[str, int]] = {}
        self._waiting: dict[ObjectName, None] = {}
        self._stuck: dict[ObjectName, None] = {}
        self._due: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Place pods from now on."""
        for pod in self._world.pods:
            self._look_at(pod)
        self._world.pods.subscribe(self._notice_pod)
        self._world.nodes.subscribe(self._notice_node)

    def free(self, node: NodeObject) -> Resources:
        """Return what a node has left; negative if its pods request more than it has."""
        taken = self._taken.get(node.name, {})
        return {kind: node.capacity.get(kind, 0) - taken.get(kind, 0) for kind in BOTH}

    # Noticing

    def _notice_node(self, change: TableChange[NodeObject]) -> None:
        if change.after is not None and change.after.is_ready:
            self._retry()

    def _notice_pod(self, change: TableChange[Pod]) -> None:
        before, after = change.before, change.after
        if before is not None and (after is None or after.uid != before.uid):
            self._forget(before)
        if after is not None and (before is None or _may_matter(before, after)):
            self._look_at(after)

    def _look_at(self, pod: Pod) -> None:
        name = ObjectName(pod.namespace, pod.name)
        if pod.node_name or pod.phase in ENDED or pod.is_deleting:
            self._waiting.pop(name, None)
            self._stuck.pop(name, None)
        else:
            self._stuck.pop(name, None)
            self._waiting[name] = None
            self._wake()
        self._hold(pod.uid, _held_by(pod))

    def _forget(self, pod: Pod) -> None:
        name = ObjectName(pod.namespace, pod.name)
        self._waiting.pop(name, None)
        self._stuck.pop(name, None)
        self._hold(pod.uid, None)

    def _hold(self, uid: str, hold: _Hold | None) -> None:
        before = self._holds.pop(uid, None)
        if hold is not None:
            self._holds[uid] = hold
            self._take(hold, 1)
        if before is not None:
            self._take(before, -1)
            # Room became free, by an end or by a resize; a growth frees none.
            if hold is None or any(hold.amounts[kind] < before.amounts[kind] for kind in BOTH):
                self._retry()

    def _take(self, hold: _Hold, sign: int) -> None:
        taken = self._taken.setdefault(hold.node_name, {"pods": 0})
        taken["pods"] += sign
        for kind in BOTH:
            taken[kind] = taken.get(kind, 0) + sign * hold.amounts[kind]

    def _retry(self) -> None:
        """Retry the pods that found no room."""
        if self._stuck:
            # The ones that waited longer come first.
            self._waiting = {**self._stuck, **self._waiting}
            self._stuck = {}
            self._wake()

    def _wake(self) -> None:
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(DELAY.total_seconds(), self._place_all)

    # Acting

    def _place_all(self) -> None:
        self._due = None
        waiting, self._waiting = self._waiting, {}
        for name in waiting:
            pod = self._world.pods.find(name.namespace, name.name)
            assert pod is not None
            node = self._choose(pod)
            if node is not None:
                placed = structs.replace(pod, node_name=node.name, unschedulable_since=None)
                self._world.pods.put(placed)
                continue
            self._stuck[name] = None
            if pod.unschedulable_since is None and self._is_responsible(pod):
                # Timestamps on the wire have whole seconds.
                since = self._world.now().replace(microsecond=0)
                self._world.pods.put(structs.replace(pod, unschedulable_since=since))

    def _is_responsible(self, pod: Pod) -> bool:
        """Return True if the pod waits for room, and not for a missing node."""
        template = self._world.templates.get(pod.uid)
        only = "" if template is None else template.node_name
        return not only or self._world.nodes.find("", only) is not None

    def _choose(self, pod: Pod) -> NodeObject | None:
        """Return the node with the most resources left, of those that have room."""
        wanted = {kind: objects.reserved_total(pod, kind) for kind in BOTH}
        template = self._world.templates.get(pod.uid)
        only = "" if template is None else template.node_name
        possible = [
            node
            for node in self._world.nodes
            if (node.name == only if only else node.is_open) and self._has_room(node, wanted)
        ]
        # `min` takes the first of equals, and nodes keep their order: the same in every run.
        return min(possible, key=self._fullness, default=None)

    def _has_room(self, node: NodeObject, wanted: Resources) -> bool:
        free = self.free(node)
        pods = self._taken.get(node.name, {}).get("pods", 0)
        return (
            node.is_ready
            and pods < node.max_pods
            and all(wanted[kind] <= free[kind] or not wanted[kind] for kind in BOTH)
        )

    def _fullness(self, node: NodeObject) -> tuple[float, str]:
        free = self.free(node)
        return -sum(free[kind] / max(1, node.capacity.get(kind, 0)) for kind in BOTH), node.name


def _held_by(pod: Pod) -> _Hold | None:
    if not pod.node_name or pod.phase in ENDED:
        return None
    return _Hold(pod.node_name, {kind: objects.reserved_total(pod, kind) for kind in BOTH})


def _may_matter(before: Pod, after: Pod) -> bool:
    return (
        before.containers is not after.containers
        or before.node_name != after.node_name
        or before.phase is not after.phase
        or before.resize is not after.resize
        or before.is_deleting is not after.is_deleting
        or before.uid != after.uid
    )
