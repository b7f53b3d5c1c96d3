"""The kubelet, one for all nodes: it notices pods, and measures all of them in one turn.

`pod_lifecycle.py` handles one pod, and `containers.py` measures all containers. The kubelet listens
to the tables but acts a moment later, so that all listeners see a change before its consequences.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Final

import numpy as np

from trimtab.core.model.pods import Allocation, Pod, PodPhase, ResizeState
from trimtab.core.model.resources import Resource
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.load.demand import ContainerDemand
from trimtab.simulation.nodes import memory_pressure, pod_lifecycle, resizes
from trimtab.simulation.nodes.containers import MeasuredUsage, Running
from trimtab.simulation.nodes.pod_lifecycle import Means, PodWorker, ReadinessBlock
from trimtab.simulation.world.facts import PodPressedOut
from trimtab.simulation.world.loads import Load
from trimtab.simulation.world.objects import NodeObject
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.virtual_time import Timer
from trimtab.simulation.world.world import World

_NOTICES: Final = timedelta(seconds=0.05), timedelta(seconds=0.5)


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """Settings of the kubelet that differ between clusters."""

    period: timedelta = timedelta(minutes=1)
    """Interval at which all containers are measured."""
    unreachable_after: timedelta = timedelta(minutes=5)
    """Time after which pods of an unready node are deleted; the default of Kubernetes."""


@dataclass(slots=True)
class _Machine:
    """A node, and the workers of its pods, by their uid."""

    number: int
    node: NodeObject
    workers: dict[str, PodWorker] = field(default_factory=dict)
    unready: Timer = field(default_factory=Timer)


class Kubelet:
    """The kubelets of all nodes."""

    def __init__(self, world: World, serving: Serving, settings: KubeletSettings) -> None:
        self.world = world
        self._serving = serving
        self._settings = settings
        chance = np.random.Generator(np.random.PCG64(world.random.getrandbits(64)))
        self.running = Running(ContainerDemand(chance))
        self.memory_factor = 1.0
        """Factor on the memory that every container's load uses."""
        self._means = Means(world, self.running, Random(world.random.getrandbits(64)))
        self.resize_faults: dict[str, ResizeState] = {}
        """Outcome of all resizes of some pods, by their uid, regardless of room."""
        self.node_resize_faults: dict[str, ResizeState] = {}
        """Outcome of all resizes on some nodes, by the name of the node."""
        self._machines: dict[str, _Machine] = {}
        self._workers: dict[str, PodWorker] = {}
        self._unsettled: dict[str, PodWorker] = {}
        """Pods whose resize waits for something, by their uid."""
        self._next_turn = 0.0

    def start(self) -> None:
        """Run the pods of all nodes from now on."""
        for node in self.world.nodes:
            self._know(node)
        for pod in self.world.pods:
            self._consider(pod)
        self.world.nodes.subscribe(self._notice_node)
        self.world.pods.subscribe(self._notice_pod)
        self._next_turn = asyncio.get_running_loop().time()
        self._schedule_turn()

    def set_ready(self, pod: Pod, *, is_ready: bool) -> None:
        """Make the pod's probe fail, or succeed again."""
        worker = self._workers.get(pod.uid)
        if worker is not None and not worker.is_closed:
            worker.block(ReadinessBlock.PROBE, is_blocked=not is_ready)

    def set_load(self, pod: Pod, container_name: str, load: Load) -> None:
        """Replace the load of a running container."""
        self._workers[pod.uid].set_load(container_name, load)

    def hold_loads(self) -> None:
        """Freeze every load at its present value, without random parts."""
        self.running.demand.held_at = self.world.now()

    def readings(self) -> MeasuredUsage | None:
        """Return the measurements of the last turn; None before the first."""
        return self.running.readings

    # Turns

    def _schedule_turn(self) -> None:
        # Counted from the last turn and not from now, so that periods do not drift.
        self._next_turn += self._settings.period.total_seconds()
        asyncio.get_running_loop().call_at(self._next_turn, self._turn)

    def _turn(self) -> None:
        self._schedule_turn()
        machines = list(self._machines.values())
        if not machines:
            return
        excesses = self.running.measure(
            self.world.now(),
            self._settings.period,
            is_reachable=np.array([machine.node.is_ready for machine in machines]),
            memory_factor=self.memory_factor,
        )
        for excess in excesses:
            # An earlier kill in this turn may have ended the pod.
            worker = self._workers[excess.container.uid]
            if not worker.is_closed:
                worker.kill(excess.container.container, excess.memory_bytes)
        self._relieve(machines)
        for worker in list(self._unsettled.values()):
            self._look_at_resize(worker)

    def _relieve(self, machines: list[_Machine]) -> None:
        capacities = [machine.node.capacity.get(Resource.MEMORY, 0) for machine in machines]
        # After the kills of this turn: a container that has just ended frees its memory.
        used = self.running.memory_by_node(len(machines))
        for number in np.nonzero(used > np.array(capacities))[0]:
            machine = machines[number]
            living = [worker for worker in machine.workers.values() if not worker.is_closed]
            for worker in memory_pressure.choose(
                memory_pressure.measure(living), capacities[number]
            ):
                self._press_out(worker)

    def _press_out(self, worker: PodWorker) -> None:
        now = self.world.now()
        blamed = memory_pressure.blame(worker, now)
        pod = worker.end(PodPhase.FAILED, pod_lifecycle.ERROR)
        self.world.record(PodPressedOut(now, pod, tuple(blamed)))
        for eviction in blamed:
            self.world.evictions.append(eviction)

    # Pods

    def _notice_pod(self, change: TableChange[Pod]) -> None:
        before, after = change.before, change.after
        if before is not None and (after is None or after.uid != before.uid):
            self._forget(before)
        if after is None:
            return
        worker = self._workers.get(after.uid)
        if worker is None:
            self._consider(after)
        elif not worker.is_closed:
            worker.follow(after)
            if before is not None and _specs(before) != _specs(after):
                self._soon(partial(self._look_at_resize, worker))

    def _consider(self, pod: Pod) -> None:
        if (
            pod.node_name in self._machines
            and not pod_lifecycle.is_over(pod)
            and not pod.is_deleting
        ):
            self._soon(partial(self._accept, pod))

    def _accept(self, seen: Pod) -> None:
        # The notice was delayed: meanwhile the pod may have been deleted, or replaced by its name.
        pod = self.world.pods.find(seen.namespace, seen.name)
        if pod is None or pod.uid != seen.uid or pod.is_deleting or pod.uid in self._workers:
            return
        machine = self._machines[pod.node_name]
        if not machine.node.is_ready:
            # A lost node starts no pod; the pod is considered again when the node is back.
            return
        worker = PodWorker(self._means, pod, node=machine.number)
        self._workers[pod.uid] = machine.workers[pod.uid] = worker
        worker.accept()

    def _forget(self, pod: Pod) -> None:
        worker = self._workers.pop(pod.uid, None)
        if worker is None:
            return
        if not worker.is_closed:
            worker.close()
        self._unsettled.pop(pod.uid, None)
        machine = self._machines[pod.node_name]
        del machine.workers[pod.uid]
        # Room has become free, so deferred resizes of neighbours may fit now.
        for uid in [uid for uid in self._unsettled if uid in machine.workers]:
            self._soon(partial(self._look_at_resize, self._unsettled[uid]))

    def _look_at_resize(self, worker: PodWorker) -> None:
        self._unsettled.pop(worker.pod.uid, None)
        if worker.is_closed:
            return
        machine = self._machines[worker.pod.node_name]
        if not machine.node.is_ready:
            self._unsettled[worker.pod.uid] = worker
            return
        neighbours = (each for each in machine.workers.values() if each is not worker)
        state = resizes.decide(worker, machine.node, neighbours)
        if state is not None:
            # A fault of the pod wins over one of its node.
            state = self.node_resize_faults.get(machine.node.name, state)
            state = self.resize_faults.get(worker.pod.uid, state)
        resizes.resize(self._means, worker, state)
        if state not in (None, ResizeState.IN_PROGRESS):
            self._unsettled[worker.pod.uid] = worker

    # Nodes

    def _notice_node(self, change: TableChange[NodeObject]) -> None:
        if change.after is not None:
            self._know(change.after)
        elif change.before is not None:
            # A deleted node keeps its pods for a while, as one that is unreachable does.
            self._know(replace(change.before, is_ready=False))

    def _know(self, node: NodeObject) -> None:
        machine = self._machines.get(node.name)
        if machine is None:
            self._machines[node.name] = _Machine(len(self._machines), node)
            self._consider_all(node)
            return
        was_ready, machine.node = machine.node.is_ready, node
        if was_ready and not node.is_ready:
            self._soon(partial(self._block_pods, machine))
            machine.unready.set(
                self._settings.unreachable_after, partial(self._delete_pods, machine)
            )
        elif node.is_ready and not was_ready:
            machine.unready.cancel()
            self._soon(partial(self._block_pods, machine))
            self._consider_all(node)

    def _consider_all(self, node: NodeObject) -> None:
        for pod in self.world.pods:
            if pod.node_name == node.name and pod.uid not in self._workers:
                self._consider(pod)

    def _block_pods(self, machine: _Machine) -> None:
        for worker in list(machine.workers.values()):
            if not worker.is_closed:
                worker.block(ReadinessBlock.NODE, is_blocked=not machine.node.is_ready)

    def _delete_pods(self, machine: _Machine) -> None:
        for worker in list(machine.workers.values()):
            # DaemonSet pods tolerate an unready node, so they stay.
            if worker.pod.owner is None or worker.pod.owner.kind != "DaemonSet":
                self._serving.delete_pod(worker.pod)

    def _soon(self, act: Callable[[], None]) -> None:
        # A watch takes a moment, and not the same for every notice: races show only that way.
        span = self._means.draw(_NOTICES)
        asyncio.get_running_loop().call_later(span.total_seconds(), act)


def _specs(pod: Pod) -> list[Allocation]:
    return [container.spec for container in pod.containers]
