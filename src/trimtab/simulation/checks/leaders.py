"""Checks that only the leader acts among the copies of a component that hold elections."""

from collections.abc import Iterator

from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import (
    CheckpointDeleted,
    CheckpointSaved,
    Fact,
    LeaseWritten,
    PodEvicted,
    PodPatched,
    PodResized,
    ProcessStarted,
    StatusPublished,
)
from trimtab.simulation.world.world import World


class Leaders(Checker):
    """A copy that takes part in an election acts only while no other copy holds the lease.

    A copy must not act after it released the lease either. A copy that never wrote a lease holds no
    elections and is not judged. A fault that steals a lease counts for no copy.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._leases: dict[str, tuple[str, str]] = {}
        self._leaders: dict[tuple[str, str], str | None] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report an act of a copy that is not the leader."""
        match fact:
            case LeaseWritten(actor=actor, lease=lease):
                name = (lease.namespace, lease.name)
                if name != self.rules.status_lease:
                    self._leases[actor] = name
                    self._leaders[name] = actor if lease.holder else None
            case ProcessStarted(actor=actor):
                self._leases.pop(actor, None)
            case (
                PodEvicted(actor=actor)
                | PodResized(actor=actor)
                | PodPatched(actor=actor)
                | StatusPublished(actor=actor)
                | CheckpointSaved(actor=actor)
                | CheckpointDeleted(actor=actor)
            ):
                yield from self._check(actor, type(fact).__name__)
            case _:
                return

    def _check(self, actor: str, act: str) -> Iterator[str]:
        lease = self._leases.get(actor)
        if lease is None:
            return
        leader = self._leaders[lease]
        if leader != actor:
            yield f"{actor} did {act} while {leader or 'nobody'} held {'/'.join(lease)}"
