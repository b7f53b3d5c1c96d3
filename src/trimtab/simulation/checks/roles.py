"""Checks that no two pods of a workload have its role, and that the lease holder gets it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.model.pods import Pod
from trimtab.core.roles import Role
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.controllers import leader_election
from trimtab.simulation.world.facts import Fact, LeaseWritten, PodPatched
from trimtab.simulation.world.objects import WorkloadObject
from trimtab.simulation.world.world import World

_ROLE: Final = Role()
_SOON: Final = timedelta(minutes=3)
"""Time after which a steady lease holder has the role, if no fault is active."""


@dataclass(frozen=True, slots=True)
class _Reign:
    """An unbroken period in which one holder renewed its lease in time."""

    holder: str
    since: datetime
    renewed_at: datetime

    def goes_on(self, holder: str, now: datetime) -> bool:
        """Return True if the same holder still has the lease, without a gap."""
        return holder == self.holder and now - self.renewed_at < leader_election.DURATION

    def is_settled(self, now: datetime) -> bool:
        """Return True if components have had time to see the holder."""
        return self.goes_on(self.holder, now) and now - self.since >= _SOON


class Roles(Checker):
    """No two pods of a workload have its role at once, and a steady lease holder soon has it."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._reigns: dict[tuple[str, str], _Reign] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a pod that gets the role while another pod has it."""
        match fact:
            case LeaseWritten():
                self._note(fact)
            case PodPatched(before=before, after=after):
                if _ROLE.is_worn_by(after) and not _ROLE.is_worn_by(before):
                    yield from self._find_doubles()
            case _:
                return

    def check(self) -> Iterator[str]:
        """Report two pods that have the role, or one that should have lost it by now."""
        yield from self._find_doubles()
        now, calm = self.world.now(), self.past.calm.since
        if calm is None or now - calm < self.rules.staleness:
            return
        for workload in leader_election.electing(self.world):
            reign = self._reigns.get((workload.namespace, workload.role_lease))
            wearers = [leader_election.identity(pod) for pod in self._wearers(workload)]
            if reign is not None and reign.is_settled(now) and wearers != [reign.holder]:
                yield f"{reign.holder} holds {workload.role_lease}, the role is with {wearers}"

    def _find_doubles(self) -> Iterator[str]:
        for workload in leader_election.electing(self.world):
            wearers = self._wearers(workload)
            if len(wearers) > 1:
                yield f"{_names(wearers)} of {workload.name} have the role at once"

    def _note(self, fact: LeaseWritten) -> None:
        place, holder = (fact.lease.namespace, fact.lease.name), fact.lease.holder
        before = self._reigns.get(place)
        goes_on = before is not None and before.goes_on(holder, fact.at)
        since = before.since if before is not None and goes_on else fact.at
        self._reigns[place] = _Reign(holder, since, fact.at)

    def _wearers(self, workload: WorkloadObject) -> list[Pod]:
        return [
            pod for pod in leader_election.members(self.world, workload) if _ROLE.is_worn_by(pod)
        ]


def _names(pods: list[Pod]) -> str:
    return " and ".join(pod.name for pod in pods)
