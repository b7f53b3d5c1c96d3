"""The life of one pod on its node: the kubelet starts it, keeps it running and ends it.

Sidecars start one after the other before the rest. A killed container restarts after a back-off.
`resizes.py` decides on resizes; here they only take effect.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from random import Random
from typing import Final, TypeAlias

from msgspec import structs

from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    Pod,
    PodPhase,
    ResizeState,
    Termination,
)
from trimtab.core.model.resources import Resource
from trimtab.simulation.nodes.containers import ContainerName, Running, Start, limit_of
from trimtab.simulation.world import loads, objects
from trimtab.simulation.world.facts import ContainerKilled
from trimtab.simulation.world.loads import Load
from trimtab.simulation.world.objects import ContainerTemplate, PodTemplate, RestartPolicy
from trimtab.simulation.world.virtual_time import Timer
from trimtab.simulation.world.world import World

# The kubelet's own constants.
FIRST_BACK_OFF: Final = timedelta(seconds=10)
LONGEST_BACK_OFF: Final = timedelta(minutes=5)
_DOUBLINGS: Final = 5
BACK_OFF_FORGOTTEN_AFTER: Final = timedelta(minutes=10)

Between: TypeAlias = tuple[timedelta, timedelta]
"""The shortest and the longest duration of something."""

_PULL: Final = timedelta(seconds=1), timedelta(seconds=8)
_TERMINATED_SHOWN: Final = timedelta(seconds=0.5), timedelta(seconds=2)
_RESTART: Final = timedelta(seconds=0.5), timedelta(seconds=2)


class ReadinessBlock(StrEnum):
    """A reason for which a pod is not ready although all its containers are."""

    PROBE = "probe"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Means:
    """Dependencies that all workers share."""

    world: World
    running: Running
    random: Random

    def draw(self, between: Between) -> timedelta:
        """Draw a random duration."""
        shortest, longest = between
        return shortest + (longest - shortest) * self.random.random()


@dataclass(slots=True)
class _Slot:
    """State of one container of the pod that is not in its status."""

    template: ContainerTemplate
    row: int
    allocated: Allocation
    timer: Timer = field(default_factory=Timer)
    """The next scheduled step of this container."""
    started_at: datetime | None = None
    start: Start | None = None
    is_ready: bool = False
    is_starved: bool = False
    """True for a container that started with less than it needs, and never gets ready."""
    kills: int = 0
    """Number of kills in a row."""


class PodWorker:
    """The kubelet's worker for one pod."""

    def __init__(self, means: Means, pod: Pod, *, node: int) -> None:
        self.pod = pod
        """The pod as last seen or stored."""
        self.resizing = Timer()
        """The resize that is under way."""
        self.is_closed = False
        self._means = means
        self._template = means.world.templates.get(pod.uid) or PodTemplate(pod.labels, ())
        self._blocks = set[ReadinessBlock]()
        self._pulling = Timer()
        self._ending = Timer()
        self._slots = {
            container.name: self._open_slot(container, node) for container in pod.containers
        }
        self.reserved = objects.total_requests(self.allocated.values())
        """Total requests that the node has reserved for all containers."""
        self._stages = _stages(pod)
        """Containers that start together; each stage waits for the one before."""
        self._begun = 0

    # Its life

    def accept(self) -> None:
        """Begin with the pod: pull its images, then start it."""
        self._store(structs.replace(self.pod, started_at=self._means.world.now()))
        self._pulling.set(self._means.draw(_PULL), self._begin_stage)

    def close(self) -> None:
        """Stop all work on the pod."""
        self.is_closed = True
        for timer in (self._pulling, self._ending, self.resizing):
            timer.cancel()
        for slot in self._slots.values():
            slot.timer.cancel()
            self._means.running.remove(slot.row)
        self._slots.clear()
        self.reserved = objects.total_requests(())

    def end(self, phase: PodPhase, reason: str) -> Pod:
        """End the pod and all its containers."""
        now = self._means.world.now()
        ended = self.pod
        for container in self.pod.containers:
            if container.termination is None:
                started_at = self._slots[container.name].started_at
                change = partial(terminate, reason=reason, started_at=started_at, now=now)
                ended = change_containers(ended, {container.name}, change)
        self.close()
        return self._store(structs.replace(ended, phase=phase, resize=None))

    def follow(self, pod: Pod) -> None:
        """Take over changes by others; containers follow the load of the pod's role."""
        if pod.labels != self.pod.labels:
            for slot in self._slots.values():
                load = loads.load_of_role(slot.template.load, slot.template.role_loads, pod.labels)
                self._means.running.demand.replace(slot.row, load)
        self.pod = pod

    def block(self, block: ReadinessBlock, *, is_blocked: bool) -> None:
        """Set or remove one reason for which the pod is not ready."""
        if is_blocked:
            self._blocks.add(block)
        else:
            self._blocks.discard(block)
        if self._is_ready(self.pod) != (self.pod.ready_since is not None):
            self._store(self.pod)

    def kill(self, name: str, memory_bytes: int) -> None:
        """OOM-kill a container; it restarts after a back-off, if its restart policy allows it."""
        slot, now = self._slots[name], self._means.world.now()
        # As the kubelet does: a container that ran for ten minutes starts its back-off from
        # scratch.
        if slot.started_at is None or now - slot.started_at >= BACK_OFF_FORGOTTEN_AFTER:
            slot.kills = 0
        back_off = min(FIRST_BACK_OFF * 2 ** min(slot.kills, _DOUBLINGS), LONGEST_BACK_OFF)
        slot.kills += 1
        self._stop(name, OOM_KILLED)
        limit = limit_of(slot.allocated, Resource.MEMORY) or 0
        self._means.world.record(ContainerKilled(now, self.pod, name, memory_bytes, limit))
        if self._restarts(slot):
            # `terminated` shows for a moment before `waiting`; components must count the kill once.
            shown = self._means.draw(_TERMINATED_SHOWN)
            # A back-off alone would end exactly when the next turn is due.
            down = back_off + self._means.draw(_RESTART)
            slot.timer.set(shown, partial(self._wait, name, down - shown))
        elif self._is_all_over():
            self.end(PodPhase.FAILED, COMPLETED)

    # Resizes

    @property
    def allocated(self) -> Mapping[str, Allocation]:
        """Resources that the node has reserved for each container."""
        return {name: slot.allocated for name, slot in self._slots.items()}

    def memory_of(self, name: str) -> int:
        """Return the last measured memory of a container in this run."""
        return self._means.running.memory_of(self._slots[name].row)

    def set_load(self, name: str, load: Load) -> None:
        """Replace the load of a container."""
        self._means.running.demand.replace(self._slots[name].row, load)

    def allocate(self) -> None:
        """Reserve the resources that the spec requests."""
        for container in self.pod.containers:
            self._slots[container.name].allocated = container.spec
        self.reserved = objects.total_requests(self.allocated.values())

    def show_resize(self, state: ResizeState | None) -> None:
        """Publish the state of a resize in the pod's status."""
        if state is not self.pod.resize:
            self._store(structs.replace(self.pod, resize=state))

    def apply(self) -> None:
        """Give the containers their reserved resources; some of them restart for that."""
        changed = [
            container
            for container in self.pod.containers
            # None: not started yet, so it will start with the new size anyway.
            if container.status not in (None, self._slots[container.name].allocated)
        ]
        names = {container.name for container in changed}
        self._store(structs.replace(change_containers(self.pod, names, self._give), resize=None))
        for container in changed:
            self._allow(container.name)
            if container.restarts_on_resize and container.is_running:
                self._restart(container.name)

    def _give(self, container: Container) -> Container:
        return structs.replace(container, status=self._slots[container.name].allocated)

    # Its containers

    def _open_slot(self, container: Container, node: int) -> _Slot:
        templates = {template.name: template for template in self._template.containers}
        template = templates.get(container.name) or ContainerTemplate(container.name)
        name = ContainerName(self.pod.namespace, self.pod.name, self.pod.uid, container.name)
        load = loads.load_of_role(template.load, template.role_loads, self.pod.labels)
        row = self._means.running.add(name, load, node=node, now=self._means.world.now())
        return _Slot(template, row, container.spec)

    def _begin_stage(self) -> None:
        names = self._stages[self._begun]
        self._begun += 1
        self._run(names)

    def _run(self, names: Collection[str]) -> None:
        now = self._means.world.now()
        running = self.pod
        for name in names:
            slot = self._slots[name]
            change = partial(run, allocation=slot.allocated)
            running = change_containers(running, {name}, change)
            slot.started_at = now
            slot.is_starved = _lacks(slot.template, slot.allocated)
            self._means.running.start(slot.row, now)
            self._means.running.allow(slot.row, slot.allocated)
            slot.start = Start.begin(slot.template.startup, now, slot.allocated)
            self._means.running.burn(slot.row, slot.start.burnt_millicores)
        is_begun = self._begun == len(self._stages)
        self._store(structs.replace(running, phase=PodPhase.RUNNING if is_begun else running.phase))
        for name in names:
            self._await_readiness(name)
        if self._template.runs_for is not None and set(names) & set(self._stages[-1]):
            self._ending.set(self._template.runs_for, self._finish)

    def _finish(self) -> None:
        regular = _regular(self.pod)
        if all(container.is_running for container in regular):
            self.end(PodPhase.SUCCEEDED, COMPLETED)
        elif self._template.restart_policy is RestartPolicy.NEVER:
            self.end(PodPhase.FAILED, COMPLETED)
        # Otherwise the container repeats its work when it runs again.

    def _await_readiness(self, name: str) -> None:
        slot = self._slots[name]
        assert slot.start is not None
        if slot.is_starved:
            return
        span = slot.start.ready_at - self._means.world.now()
        slot.timer.set(max(span, timedelta()), partial(self._be_ready, name))

    def _be_ready(self, name: str) -> None:
        slot = self._slots[name]
        slot.start, slot.is_ready = None, True
        self._means.running.burn(slot.row, 0)
        if self._begun < len(self._stages):
            if name in self._stages[self._begun - 1]:
                self._begin_stage()
        elif self._is_ready(self.pod):
            self._store(self.pod)

    def _allow(self, name: str) -> None:
        slot = self._slots[name]
        self._means.running.allow(slot.row, slot.allocated)
        if slot.start is not None:
            # A container that fails at its start retries, so a resize may help it.
            slot.is_starved = _lacks(slot.template, slot.allocated)
            slot.start = slot.start.resized(self._means.world.now(), slot.allocated)
            self._await_readiness(name)

    def _stop(self, name: str, reason: str) -> None:
        slot, now = self._slots[name], self._means.world.now()
        slot.timer.cancel()
        slot.start, slot.is_ready = None, False
        self._means.running.stop(slot.row)
        change = partial(terminate, reason=reason, started_at=slot.started_at, now=now)
        self._store(change_containers(self.pod, {name}, change))

    def _wait(self, name: str, span: timedelta) -> None:
        self._store(change_containers(self.pod, {name}, wait))
        self._slots[name].timer.set(span, partial(self._run, (name,)))

    def _restart(self, name: str) -> None:
        self._stop(name, ERROR)
        self._slots[name].timer.set(self._means.draw(_RESTART), partial(self._run, (name,)))

    def _restarts(self, slot: _Slot) -> bool:
        is_sidecar = slot.template.kind is ContainerKind.SIDECAR
        return is_sidecar or self._template.restart_policy is not RestartPolicy.NEVER

    def _is_all_over(self) -> bool:
        return all(container.termination is not None for container in _regular(self.pod))

    # Its status

    def _is_ready(self, pod: Pod) -> bool:
        return (
            pod.phase is PodPhase.RUNNING
            and not self._blocks
            and all(slot.is_ready for slot in self._slots.values())
        )

    def _store(self, pod: Pod) -> Pod:
        since = pod.ready_since or self._means.world.now()
        ready_since = since if self._is_ready(pod) else None
        self.pod = self._means.world.pods.put(structs.replace(pod, ready_since=ready_since))
        return self.pod


def _stages(pod: Pod) -> list[tuple[str, ...]]:
    sidecars = [each for each in pod.containers if each.kind is ContainerKind.SIDECAR]
    return [(each.name,) for each in sidecars] + [tuple(each.name for each in _regular(pod))]


def _regular(pod: Pod) -> list[Container]:
    return [each for each in pod.containers if each.kind is ContainerKind.REGULAR]


def _lacks(template: ContainerTemplate, allocated: Allocation) -> bool:
    requests = allocated.requests or {}
    return any(requests.get(kind, 0) < least for kind, least in template.needs.items())


OOM_KILLED: Final = "OOMKilled"
COMPLETED: Final = "Completed"
ERROR: Final = "Error"


def change_containers(
    pod: Pod, names: Collection[str], change: Callable[[Container], Container]
) -> Pod:
    """Return the pod with some of its containers changed."""
    return structs.replace(
        pod,
        containers=tuple(
            change(container) if container.name in names else container
            for container in pod.containers
        ),
    )


def run(container: Container, allocation: Allocation) -> Container:
    """Return the container as running with these resources, for the first time or again."""
    ended = container.termination or container.last_termination
    return structs.replace(
        container,
        status=allocation,
        is_running=True,
        termination=None,
        last_termination=ended,
        restart_count=container.restart_count + (ended is not None),
    )


def terminate(
    container: Container, reason: str, started_at: datetime | None, now: datetime
) -> Container:
    """Return the container as terminated."""
    return structs.replace(
        container,
        is_running=False,
        # The previous termination stays its last one until the container restarts or waits.
        termination=Termination(reason, started_at, now),
    )


def wait(container: Container) -> Container:
    """Return the container as waiting for its next run."""
    return structs.replace(
        container,
        is_running=False,
        termination=None,
        last_termination=container.termination or container.last_termination,
    )


def is_over(pod: Pod) -> bool:
    """Return True if a pod has ended for good."""
    return pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
