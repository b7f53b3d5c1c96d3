"""Fault injection: starts each kind of fault in a simulation, and ends it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias

from msgspec import structs

from trimtab.cluster.errors import ClusterError, UnreachableError
from trimtab.core.model.pods import Pod, PodPhase, ResizeState, WorkloadName
from trimtab.core.model.resources import BOTH, Resource
from trimtab.simulation.api_server import requests
from trimtab.simulation.api_server.connection import (
    ConnectionTrouble,
    Disturbance,
    SimulatedConnection,
)
from trimtab.simulation.api_server.requests import VIEWS, Request
from trimtab.simulation.faults.kinds import Fault, FaultKind
from trimtab.simulation.nodes.metrics_server import MetricsFault
from trimtab.simulation.processes import Process
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world import objects
from trimtab.simulation.world.facts import FaultBegan, FaultEnded
from trimtab.simulation.world.loads import ROLE_LABEL
from trimtab.simulation.world.objects import QuotaObject
from trimtab.simulation.world.world import World

Undo: TypeAlias = Callable[[], None]

_NO_WATCHES: Final = Disturbance(
    trouble=ConnectionTrouble(
        1.0, partial(UnreachableError, problem="the watch is lost"), only=VIEWS
    )
)
_TICK: Final = timedelta(seconds=30)
"""Interval at which repeated faults act."""
_REFUSALS: Final = (ResizeState.INFEASIBLE, ResizeState.DEFERRED, ResizeState.ERROR)


def break_now(simulation: Simulation, fault: Fault) -> Undo:
    """Begin a fault, and return a function that ends it."""
    world = simulation.world
    world.record(FaultBegan(world.now(), str(fault)))
    undo = _BREAKERS[fault.kind](simulation, fault)

    def end() -> None:
        undo()
        # After `undo`: checkers count the world as disturbed until everything is as before.
        world.record(FaultEnded(world.now(), str(fault)))

    return end


# Between a component and the API server


def _disturb(simulation: Simulation, fault: Fault, *, how: Callable[[Fault], Disturbance]) -> Undo:
    return _disturb_line(simulation.processes[fault.target].line, how(fault))


def _disturb_line(line: SimulatedConnection, disturbance: Disturbance) -> Undo:
    line.disturbances.append(disturbance)
    # Connections from before the fault must break too.
    line.breaks += 1
    return partial(line.disturbances.remove, disturbance)


def _lose_watches(fault: Fault) -> Disturbance:
    del fault
    return _NO_WATCHES


def _lag_behind(fault: Fault) -> Disturbance:
    return Disturbance(watch_lag=timedelta(seconds=1 + 120 * fault.strength))


def _slow_down(fault: Fault) -> Disturbance:
    return Disturbance(latency=timedelta(seconds=0.1 + 10 * fault.strength))


def _cut_off(fault: Fault) -> Disturbance:
    del fault
    return Disturbance(is_cut=True)


def _conflicts(fault: Fault) -> Disturbance:
    return Disturbance(trouble=ConnectionTrouble(fault.strength, requests.conflict))


def _too_many_requests(fault: Fault) -> Disturbance:
    refusal = partial(requests.too_many_requests, retry_after=timedelta(seconds=2))
    return Disturbance(trouble=ConnectionTrouble(fault.strength, refusal))


def _server_errors(fault: Fault) -> Disturbance:
    refusal = partial(requests.refuse, code=HTTPStatus.INTERNAL_SERVER_ERROR)
    return Disturbance(trouble=ConnectionTrouble(fault.strength, refusal))


def _lost_answers(fault: Fault) -> Disturbance:
    refusal = partial(UnreachableError, problem="the answer got lost")
    return Disturbance(trouble=ConnectionTrouble(fault.strength, refusal, after_effect=True))


def _forget_history(simulation: Simulation, fault: Fault) -> Undo:
    """Block all watches and clear the logs, so that each watch must list all objects again."""
    del fault
    # Watches cannot go on while the log is cleared, or they would not notice.
    lines = [process.line for process in simulation.processes.values()]
    undos = [_disturb_line(line, _NO_WATCHES) for line in lines]

    def undo() -> None:
        world = simulation.world
        world.pods.compact()
        world.autoscalers.compact()
        world.checkpoints.compact()
        for each in undos:
            each()

    return undo


# The component itself


def _crash(simulation: Simulation, fault: Fault) -> Undo:
    """Crash a component at a request during the fault, before or after its effect."""
    process = simulation.processes[fault.target]
    # In the middle of its work, between a write and what should follow it.
    _crash_at_request(simulation, process, 1 + int(20 * fault.strength))
    return partial(_end_crashes, process)


def _crash_again_and_again(simulation: Simulation, fault: Fault) -> Undo:
    process = simulation.processes[fault.target]

    def crash() -> None:
        _revive(process)
        _crash_at_request(simulation, process, 1 + int(50 * fault.strength))

    stop = _repeat(crash)

    def undo() -> None:
        stop()
        _end_crashes(process)

    return undo


def _end_crashes(process: Process) -> None:
    """Cancel a crash that has not happened yet, and restart a crashed component."""
    process.line.before_request = process.line.after_request = None
    _revive(process)


def _crash_at_request(simulation: Simulation, process: Process, number: int) -> None:
    line, left = process.line, number

    def count_down(request: Request) -> None:
        nonlocal left
        left -= 1
        # A process that has restarted since has another line.
        if left == 0 and process.line is line:
            process.crash(str(request))

    # Before the request the write is lost; after it, only the knowledge of it.
    if simulation.random.choice((True, False)):
        line.before_request = count_down
    else:
        line.after_request = count_down


def _revive(process: Process) -> None:
    if not process.is_running:
        process.start()


def _steal_leases(simulation: Simulation, fault: Fault) -> Undo:
    """Write another holder into every lease that the component holds."""
    world = simulation.world
    for lease in world.leases:
        # A holder's name begins with its process name; copies have other names.
        if lease.holder.partition("_")[0] == fault.target:
            world.leases.put(replace(lease, holder="thief", renewed_at=world.now()))
    return _nothing


def _add_copy(simulation: Simulation, fault: Fault) -> Undo:
    original = simulation.processes[fault.target]
    name = f"{fault.target}-copy-{int(fault.begins.total_seconds())}"
    copy = simulation.add(name, original.component)

    def undo() -> None:
        copy.crash("its end")
        del simulation.processes[name]

    return undo


def _skew_clock(simulation: Simulation, fault: Fault) -> Undo:
    clock = simulation.processes[fault.target].clock
    # Up to two minutes in either direction.
    clock.skew = timedelta(seconds=240 * (fault.strength - 0.5))

    def undo() -> None:
        clock.skew = timedelta()

    return undo


def _switch_gate_off(simulation: Simulation, fault: Fault) -> Undo:
    """Restart one component with the gate of startup boosts off, and later with the defaults."""
    name = fault.target
    simulation.gates_off[name] += 1
    _restart(simulation, name)

    def undo() -> None:
        simulation.gates_off[name] -= 1
        # Only after `FaultEnded` is reported, which follows this call.
        asyncio.get_running_loop().call_soon(_restart, simulation, name)

    return undo


def _restart(simulation: Simulation, name: str) -> None:
    process = simulation.processes[name]
    if process.is_running:
        process.crash("a new flag")
        process.start()


# Admission


def _take_webhook_down(simulation: Simulation, fault: Fault) -> Undo:
    del fault
    admitting = simulation.admitting
    admitting.outages += 1

    def undo() -> None:
        admitting.outages -= 1

    return undo


def _undo_patches(simulation: Simulation, fault: Fault) -> Undo:
    del fault
    webhooks = simulation.admitting.later_webhooks
    webhooks.append(_as_before)
    return partial(webhooks.remove, _as_before)


def _as_before(wanted: Pod, patched: Pod) -> Pod:
    return structs.replace(patched, containers=wanted.containers)


# Usage


def _spoil_metrics(simulation: Simulation, fault: Fault, *, by: MetricsFault) -> Undo:
    del fault
    metrics = simulation.metrics
    metrics.faults.append(by)
    return partial(metrics.faults.remove, by)


# The cluster


def _lose_node(simulation: Simulation, fault: Fault) -> Undo:
    nodes = simulation.world.nodes
    node = simulation.random.choice(list(nodes))
    nodes.put(replace(node, is_ready=False))
    del fault

    def undo() -> None:
        current = nodes.find("", node.name)
        if current is not None:
            nodes.put(replace(current, is_ready=True))

    return undo


def _fill_node(simulation: Simulation, fault: Fault) -> Undo:
    """Reduce the capacity of a node, as if something unmovable ran there."""
    nodes = simulation.world.nodes
    node = simulation.random.choice(list(nodes))
    whole = simulation.capacities[node.name]
    # At least a tenth is left, so that small pods may still fit.
    left = {kind: int(whole[kind] * (1 - 0.9 * fault.strength)) for kind in BOTH}
    nodes.put(replace(node, capacity=left))

    def undo() -> None:
        current = nodes.find("", node.name)
        if current is not None:
            nodes.put(replace(current, capacity=whole))

    return undo


def _fill_quota(simulation: Simulation, fault: Fault) -> Undo:
    world = simulation.world
    namespaces = sorted({pod.namespace for pod in world.pods})
    if not namespaces:
        return _nothing
    namespace = simulation.random.choice(namespaces)
    # Exactly as much as is in use: no further pod can be created.
    used = sum(
        objects.resource_total(pod, Resource.CPU)
        for pod in world.pods
        if pod.namespace == namespace
    )
    name = f"full-{int(fault.begins.total_seconds())}"
    world.quotas.put(QuotaObject(namespace, name, {Resource.CPU: used}))
    return partial(world.quotas.delete, namespace, name)


def _grow_memory(simulation: Simulation, fault: Fault) -> Undo:
    kubelet = simulation.kubelet
    kubelet.memory_factor = 1 + 3 * fault.strength

    def undo() -> None:
        kubelet.memory_factor = 1.0

    return undo


def _flap_readiness(simulation: Simulation, fault: Fault) -> Undo:
    def flap() -> None:
        for pod in _some_pods(simulation, fault.strength):
            simulation.kubelet.set_ready(pod, is_ready=simulation.random.choice((True, False)))

    stop = _repeat(flap)

    def undo() -> None:
        stop()
        for pod in simulation.world.pods:
            simulation.kubelet.set_ready(pod, is_ready=True)

    return undo


def _flap_labels(simulation: Simulation, fault: Fault) -> Undo:
    def flap() -> None:
        for pod in _some_pods(simulation, fault.strength):
            role = simulation.random.choice(("leader", "follower"))
            labels = {**pod.labels, ROLE_LABEL: role}
            simulation.world.pods.put(structs.replace(pod, labels=labels))

    return _repeat(flap)


def _roll_out(simulation: Simulation, fault: Fault) -> Undo:
    world = simulation.world
    kinds = ("Deployment", "StatefulSet", "DaemonSet")
    workloads = [each for kind in kinds for each in world.workloads_of(kind)]
    if workloads:
        workload = simulation.random.choice(workloads)
        world.workloads_of(workload.kind).put(replace(workload, revision=workload.revision + 1))
    del fault
    return _nothing


def _refuse_resizes(simulation: Simulation, fault: Fault) -> Undo:
    """Make the kubelets of some nodes refuse all resizes, each with one kind of answer."""
    faults, chance = simulation.kubelet.node_resize_faults, simulation.random
    nodes = [node.name for node in simulation.world.nodes if chance.random() < fault.strength]
    refused = {name: chance.choice(_REFUSALS) for name in nodes}
    faults.update(refused)

    def undo() -> None:
        for name, state in refused.items():
            if faults.get(name) is state:
                del faults[name]

    return undo


def _copy_pod(simulation: Simulation, fault: Fault) -> Undo:
    """Create a pod from the manifest of another pod that a ReplicaSet created."""
    running = [pod for pod in simulation.world.pods if pod.phase is PodPhase.RUNNING]
    made = [pod for pod in running if pod.owner is not None and pod.owner.kind == "ReplicaSet"]
    if not made:
        return _nothing
    original = simulation.random.choice(made)

    async def copy() -> None:
        with suppress(ClusterError):
            name = f"{original.name}-copy-{int(fault.begins.total_seconds())}"
            await simulation.admitting.create_copy(original, name)

    task = asyncio.create_task(copy())

    def undo() -> None:
        task.cancel()

    return undo


def _scale(simulation: Simulation, fault: Fault) -> Undo:
    """Scale a workload down or up for a while, to between one and twice its pods."""
    world = simulation.world
    kinds = ("Deployment", "StatefulSet", "Rollout", "Database")
    found = [each for kind in kinds for each in world.workloads_of(kind) if each.owner is None]
    if not found:
        return _nothing
    # Top-level workloads only: a controller would undo a change of what it owns.
    workload = simulation.random.choice(found)
    wanted = max(1, round((workload.replicas or 1) * 2 * fault.strength))
    _set_replicas(world, workload.identity, wanted)
    return partial(_set_replicas, world, workload.identity, workload.replicas)


def _set_replicas(world: World, name: WorkloadName, replicas: int | None) -> None:
    current = world.find_workload(name)
    if current is not None:
        world.workloads_of(name.kind).put(replace(current, replicas=replicas))


def _delete_pods(simulation: Simulation, fault: Fault) -> Undo:
    for pod in _some_pods(simulation, 0.3 * fault.strength):
        simulation.serving.delete_pod(pod)
    return _nothing


def _some_pods(simulation: Simulation, share: float) -> list[Pod]:
    running = [pod for pod in simulation.world.pods if pod.phase is PodPhase.RUNNING]
    return [pod for pod in running if simulation.random.random() < share]


def _repeat(act: Callable[[], None]) -> Undo:
    async def run() -> None:
        while True:
            act()
            await asyncio.sleep(_TICK.total_seconds())

    task = asyncio.create_task(run())

    def stop() -> None:
        task.cancel()

    return stop


def _nothing() -> None:
    return


_BREAKERS: Final[Mapping[FaultKind, Callable[[Simulation, Fault], Undo]]] = {
    FaultKind.WATCHES_LOST: partial(_disturb, how=_lose_watches),
    FaultKind.HISTORY_FORGOTTEN: _forget_history,
    FaultKind.STALE_STORES: partial(_disturb, how=_lag_behind),
    FaultKind.CONFLICTS: partial(_disturb, how=_conflicts),
    FaultKind.TOO_MANY_REQUESTS: partial(_disturb, how=_too_many_requests),
    FaultKind.SERVER_ERRORS: partial(_disturb, how=_server_errors),
    FaultKind.LOST_ANSWERS: partial(_disturb, how=_lost_answers),
    FaultKind.SLOW_SERVER: partial(_disturb, how=_slow_down),
    FaultKind.CUT_OFF: partial(_disturb, how=_cut_off),
    FaultKind.CRASH: _crash,
    FaultKind.CRASH_LOOP: _crash_again_and_again,
    FaultKind.LOST_LEASE: _steal_leases,
    FaultKind.SECOND_COPY: _add_copy,
    FaultKind.CLOCK_SKEW: _skew_clock,
    FaultKind.WEBHOOK_DOWN: _take_webhook_down,
    FaultKind.PATCH_UNDONE: _undo_patches,
    FaultKind.METRICS_GONE: partial(_spoil_metrics, by=MetricsFault.GONE),
    FaultKind.METRICS_HALF: partial(_spoil_metrics, by=MetricsFault.HALF),
    FaultKind.METRICS_STALE: partial(_spoil_metrics, by=MetricsFault.STALE),
    FaultKind.METRICS_ABSURD: partial(_spoil_metrics, by=MetricsFault.ABSURD),
    FaultKind.NODE_LOST: _lose_node,
    FaultKind.NODE_FULL: _fill_node,
    FaultKind.QUOTA_FULL: _fill_quota,
    FaultKind.OOM_STORM: _grow_memory,
    FaultKind.FLAPPING_READINESS: _flap_readiness,
    FaultKind.FLAPPING_LABELS: _flap_labels,
    FaultKind.ROLLOUT: _roll_out,
    FaultKind.POD_DELETED: _delete_pods,
    FaultKind.GATE_OFF: _switch_gate_off,
    FaultKind.RESIZES_REFUSED: _refuse_resizes,
    FaultKind.POD_COPIED: _copy_pod,
    FaultKind.SCALED: _scale,
}
