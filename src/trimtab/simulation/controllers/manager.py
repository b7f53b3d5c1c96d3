"""Controllers: they turn workloads into pods, and delete objects whose owner is gone.

A change marks the owner of the object, and the controller of that owner's kind runs a moment later.
Without a change no controller runs. A controller whose request is refused (a quota is full, the API
server fails) retries after a back-off that doubles each time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final, NamedTuple

from trimtab.cluster.errors import ClusterError
from trimtab.core.model.pods import OwnerReference, Pod
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.controllers.daemon_sets import reconcile_daemon_set
from trimtab.simulation.controllers.deployments import reconcile_deployment
from trimtab.simulation.controllers.jobs import reconcile_cron_job, reconcile_job
from trimtab.simulation.controllers.operators import reconcile_database
from trimtab.simulation.controllers.replicas import Upkeep, reconcile_replicas
from trimtab.simulation.controllers.stateful_sets import reconcile_stateful_set
from trimtab.simulation.world.objects import ENDED, NodeObject, WorkloadObject
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World

DELAY: Final = timedelta(seconds=1)
"""Delay after a change until its controller runs."""
RESYNC_INTERVAL: Final = timedelta(hours=1)
"""Interval at which all controllers run, even without a change."""
ENDED_KEPT: Final = 500
"""Number of ended pods that are kept (`--terminated-pod-gc-threshold`)."""
# The backoff of the real controllers' queues, but for its first few milliseconds.
_BACKOFF: Final = timedelta(seconds=1)
_LONGEST_BACKOFF: Final = timedelta(seconds=1000)

_Reconcile = Callable[[Upkeep, WorkloadObject], Awaitable[timedelta | None]]
"""Takes one step; returns the time until the next one is due even without a change."""


class _Key(NamedTuple):
    """The owner, existing or gone, for which a controller runs."""

    namespace: str
    kind: str
    name: str
    uid: str


class Controllers:
    """The controllers of all kinds of workloads."""

    def __init__(self, world: World, serving: Serving, admitting: Admitting) -> None:
        self._world = world
        self._upkeep = Upkeep(world, serving, admitting)
        self._due: dict[_Key, float] = {}
        self._busy: set[_Key] = set()
        self._failures: dict[_Key, int] = {}
        self._woken = asyncio.Event()
        self._wakes_at = 0.0

    async def run(self) -> None:
        """Keep the pods of all workloads as specified, until cancelled."""
        self._world.pods.subscribe(self._notice_pod)
        self._world.nodes.subscribe(self._notice_node)
        self._world.subscribe_to_workloads(self._notice_workload)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._resync())
            while True:
                await self._wait()
                for key in self._take_due():
                    self._busy.add(key)
                    tasks.create_task(self._reconcile(key))

    # Noticing

    def _notice_pod(self, change: TableChange[Pod]) -> None:
        before, after = change.before, change.after
        if before is not None and after is not None and not _matters(before, after):
            return
        pod = after or before
        if pod is None or pod.owner is None:
            return
        self._note(_key(pod.namespace, pod.owner))
        owner = self._world.find_owner(pod.namespace, pod.owner)
        if owner is not None and owner.owner is not None:
            # A Deployment's rollout waits for the pods of its ReplicaSets.
            self._note(_key(owner.namespace, owner.owner))

    def _notice_workload(self, change: TableChange[WorkloadObject]) -> None:
        for workload in (change.before, change.after):
            if workload is not None:
                self._note(_key(workload.namespace, workload.reference))
                if workload.owner is not None:
                    self._note(_key(workload.namespace, workload.owner))

    def _notice_node(self, change: TableChange[NodeObject]) -> None:
        if change.before is None or change.after is None:
            for workload in self._world.workloads_of("DaemonSet"):
                self._note(_key(workload.namespace, workload.reference))

    def _note(self, key: _Key, wait: timedelta = DELAY) -> None:
        due_at = asyncio.get_running_loop().time() + wait.total_seconds()
        # The earliest time counts: a back-off must not delay what a change has made due.
        if due_at < self._due.get(key, float("inf")):
            self._due[key] = due_at
            if due_at < self._wakes_at:
                self._woken.set()

    # Acting

    async def _resync(self) -> None:
        while True:
            self._sweep()
            for table in self._world.workloads.values():
                for workload in table:
                    self._note(_key(workload.namespace, workload.reference))
            await asyncio.sleep(RESYNC_INTERVAL.total_seconds())

    def _sweep(self) -> None:
        """Delete the oldest ended pods, if there are too many."""
        ended = [pod for pod in self._world.pods if pod.phase in ENDED]
        # Tables keep pods in the order of their creation.
        self._upkeep.delete(ended[: max(0, len(ended) - ENDED_KEPT)])

    async def _wait(self) -> None:
        """Return when something is due."""
        loop = asyncio.get_running_loop()
        while True:
            waiting = (due for key, due in self._due.items() if key not in self._busy)
            self._wakes_at = min(waiting, default=float("inf"))
            if self._wakes_at <= loop.time():
                return
            self._woken.clear()
            with suppress(TimeoutError):
                is_open = self._wakes_at == float("inf")
                async with asyncio.timeout_at(None if is_open else self._wakes_at):
                    await self._woken.wait()

    def _take_due(self) -> list[_Key]:
        now = asyncio.get_running_loop().time()
        due = [key for key, at in self._due.items() if at <= now and key not in self._busy]
        for key in due:
            del self._due[key]
        # Sorted, so that two runs of a seed reconcile in the same order.
        return sorted(due)

    async def _reconcile(self, key: _Key) -> None:
        try:
            again = await self._step(key)
        except ClusterError:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            # The exponent is bounded, since a quota may stay full for days.
            again = min(_BACKOFF * 2 ** min(failures - 1, 10), _LONGEST_BACKOFF)
        else:
            self._failures.pop(key, None)
        finally:
            self._busy.discard(key)
        if again is not None:
            self._note(key, again)
        if key in self._due:
            # It became due while it was busy, and `run` was not woken for that.
            self._woken.set()

    async def _step(self, key: _Key) -> timedelta | None:
        owner = OwnerReference(key.kind, key.name, uid=key.uid)
        workload = self._world.find_owner(key.namespace, owner)
        if workload is None:
            self._collect(key.uid)
            return None
        return await _KINDS.get(key.kind, reconcile_replicas)(self._upkeep, workload)

    def _collect(self, uid: str) -> None:
        """Delete all pods and workloads of an owner that is gone."""
        self._upkeep.delete(self._world.pods_by_owner.under(uid))
        for workload in self._world.workloads_owned_by(uid):
            self._world.workloads_of(workload.kind).delete(workload.namespace, workload.name)


def _key(namespace: str, owner: OwnerReference) -> _Key:
    return _Key(namespace, owner.kind, owner.name, owner.uid)


def _matters(before: Pod, after: Pod) -> bool:
    """Return True if a change of a pod matters to its owner."""
    return (
        before.phase is not after.phase
        or before.is_deleting is not after.is_deleting
        or (before.ready_since is None) is not (after.ready_since is None)
    )


_KINDS: Final[Mapping[str, _Reconcile]] = {
    "CronJob": reconcile_cron_job,
    "DaemonSet": reconcile_daemon_set,
    "Database": reconcile_database,
    "Deployment": reconcile_deployment,
    "Job": reconcile_job,
    # No component knows this kind; a real Rollout has ReplicaSets, too.
    "Rollout": reconcile_deployment,
    "StatefulSet": reconcile_stateful_set,
}
"""Controllers by kind; all other kinds create identical pods, as many as replicas."""
