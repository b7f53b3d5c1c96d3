"""Checks that never two pods of a workload have its role, and that the right one gets it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.pods import Pod
from trimtab.core.roles import Role
from trimtab.simulation import elections
from trimtab.simulation.facts import Fact, LeaseWritten, PodPatched
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.objects import WorkloadObject
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World

_ROLE: Final = Role()
_SOON: Final = timedelta(minutes=3)
"""How long after the last change, in a calm world, whoever holds a lease has the role."""


class Roles(Checker):
    """Never do two pods of a workload have its role, and who keeps its lease has it soon."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._holders: dict[tuple[str, str], tuple[str, datetime]] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """A pod that gets the role while another has it."""
        match fact:
            case LeaseWritten():
                self._note(fact)
            case PodPatched(before=before, after=after):
                if _ROLE.is_worn_by(after) and not _ROLE.is_worn_by(before):
                    yield from self._find_doubles()
            case _:
                return

    def check(self) -> Iterator[str]:
        """Two pods that have the role, or one that should not by now."""
        yield from self._find_doubles()
        now, calm = self.world.now(), self.past.calm.since
        if calm is None or now - calm < self.rules.staleness:
            return
        for workload in elections.electing(self.world):
            place = workload.namespace, workload.role_lease
            holder, since = self._holders.get(place, ("", now))
            wearers = [elections.identity(pod) for pod in self._wearers(workload)]
            if now - since >= _SOON and wearers != [holder]:
                yield f"{holder} holds {workload.role_lease}, the role is with {wearers}"

    def _find_doubles(self) -> Iterator[str]:
        for workload in elections.electing(self.world):
            wearers = self._wearers(workload)
            if len(wearers) > 1:
                yield f"{_names(wearers)} of {workload.name} have the role at once"

    def _note(self, fact: LeaseWritten) -> None:
        place = fact.lease.namespace, fact.lease.name
        holder, _ = self._holders.get(place, ("", fact.at))
        if fact.lease.holder != holder:
            self._holders[place] = fact.lease.holder, fact.at

    def _wearers(self, workload: WorkloadObject) -> list[Pod]:
        return [pod for pod in elections.members(self.world, workload) if _ROLE.is_worn_by(pod)]


def _names(pods: list[Pod]) -> str:
    return " and ".join(pod.name for pod in pods)
