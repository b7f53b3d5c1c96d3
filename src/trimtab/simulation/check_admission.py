"""Checks that pods are evicted only while somebody gives their successors another size."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from trimtab.api.leases import Lease
from trimtab.simulation.facts import Fact, PodEvicted
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.tables import Change
from trimtab.simulation.world import World


class AdmissionAlive(Checker):
    """No pod is evicted when, for all that the updater can know, admission is away.

    All that it can know is the status lease: renewed within its timeout when it was last read,
    which is no longer ago than a plan takes to be carried out. Whoever renewed it, the lease says
    that somebody is there. That a webhook whose lease is fresh does not answer, or that another one
    undoes its patch, shows in what follows (`Futility`).
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._renewed_at: datetime | None = None
        world.leases.subscribe(self._note)

    def observe(self, fact: Fact) -> Iterator[str]:
        """An eviction though the lease had long run out."""
        match fact:
            case PodEvicted(at=at, actor=actor, pod=pod) if self.rules.status_lease is not None:
                if self._renewed_at is None:
                    yield f"{actor} evicted {pod.namespace}/{pod.name} without any admission"
                elif at - self._renewed_at > self._longest(at):
                    silent = at - self._renewed_at
                    yield f"{actor} evicted {pod.namespace}/{pod.name}, admission silent {silent}"
            case _:
                return

    def _note(self, change: Change[Lease]) -> None:
        if change.after is not None and change.name == self.rules.status_lease:
            self._renewed_at = self.world.now()

    def _longest(self, now: datetime) -> timedelta:
        # Who has just started believes the times in the lease, which come from another clock.
        skew = self.clock_doubt(now)
        return self.rules.lease_timeout + self.rules.carried_out_within + skew
