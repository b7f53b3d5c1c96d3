"""Leader election of simulated workloads: pods renew a lease, lose it or hang.

It stands for software of users: the pods of a workload that names a `role_lease` behave like this.
The world knows the leader only through the lease.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Final, NoReturn

from trimtab.api.kinds.leases import Lease
from trimtab.core.model.pods import Pod, PodPhase
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.world.objects import WorkloadObject
from trimtab.simulation.world.world import World

DURATION: Final = timedelta(seconds=15)
"""Time for which a lease lasts after its last renewal."""
RETRY: Final = timedelta(seconds=2)
"""Interval at which every pod looks at the lease."""
_HANG_CHANCE: Final = 0.004
_RELEASE_CHANCE: Final = 0.004
_LONGEST_HANG: Final = timedelta(seconds=40)


def members(world: World, workload: WorkloadObject) -> list[Pod]:
    """Return the pods of a workload, owned directly or through another workload."""
    owners = [workload.uid, *(each.uid for each in world.workloads_owned_by(workload.uid))]
    return [pod for owner in owners for pod in world.pods_by_owner.under(owner)]


def electing(world: World) -> list[WorkloadObject]:
    """Return the workloads whose pods elect a leader."""
    tables = world.workloads.values()
    return [each for table in tables for each in table if each.role_lease and each.owner is None]


class Elections:
    """The elections of all workloads, in which holders hang or release by chance."""

    def __init__(
        self, world: World, serving: Serving, random: Random, *, is_steady: bool = False
    ) -> None:
        self._world = world
        self._serving = serving
        self._random = random
        self.is_steady = is_steady
        """True if no holder ever hangs or releases its lease."""
        self._hangs_until: dict[str, datetime] = {}

    async def run(self) -> NoReturn:
        """Let every pod look at its lease at each interval, forever."""
        while True:
            for workload in electing(self._world):
                self._take_turn(workload)
            await self._world.clock.sleep(RETRY)

    def _take_turn(self, workload: WorkloadObject) -> None:
        now = self._world.now()
        able = [
            pod
            for pod in members(self._world, workload)
            if pod.phase is PodPhase.RUNNING and not self._hangs(pod, now)
        ]
        place = workload.namespace, workload.role_lease
        lease = self._world.leases.find(*place) or Lease(*place)
        holder = next((pod for pod in able if identity(pod) == lease.holder), None)
        if holder is not None:
            self._go_on(holder, lease, now)
        elif able and (not lease.holder or _is_over(lease, now)):
            winner = self._random.choice(able)
            self._write(winner, replace(lease, holder=identity(winner), acquired_at=now), now)

    def _go_on(self, holder: Pod, lease: Lease, now: datetime) -> None:
        chance = 1.0 if self.is_steady else self._random.random()
        if chance < _HANG_CHANCE:
            self._hangs_until[holder.uid] = now + self._random.random() * _LONGEST_HANG
        elif chance < _HANG_CHANCE + _RELEASE_CHANCE:
            self._write(holder, replace(lease, holder=""), now)
        else:
            self._write(holder, lease, now)

    def _hangs(self, pod: Pod, now: datetime) -> bool:
        return pod.uid in self._hangs_until and now < self._hangs_until[pod.uid]

    def _write(self, pod: Pod, lease: Lease, now: datetime) -> None:
        self._serving.write_lease(pod.name, replace(lease, duration=DURATION, renewed_at=now))


def identity(pod: Pod) -> str:
    """Return the name of a pod in a lease, as client-go forms it."""
    return f"{pod.name}_{pod.uid}"


def _is_over(lease: Lease, now: datetime) -> bool:
    return lease.renewed_at is None or now >= lease.renewed_at + (lease.duration or DURATION)
