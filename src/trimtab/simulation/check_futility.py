"""Checks that evictions which change nothing come to an end."""

from collections import deque
from collections.abc import Iterator
from dataclasses import field
from datetime import datetime

from trimtab.core.pods import Pod, WorkloadName
from trimtab.core.records import dataclass
from trimtab.core.resources import Resources
from trimtab.simulation.facts import Fact, PodCreated, PodEvicted, ProcessStarted
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World


@dataclass(slots=True)
class _Record:
    """What came of the evictions of one workload."""

    waiting: deque[Pod] = field(default_factory=deque)
    """Evicted pods whose successors have not come yet."""
    misses: int = 0
    hopeless_since: datetime | None = None


class Futility(Checker):
    """When some successors in a row came in no other size, nobody goes on evicting (F16).

    Whether it was the webhook, another one after it, or a limit range plays no part. Any pod of the
    workload that admission gave another size proves that evictions help again; a process that has
    just started may try them anew.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._records: dict[WorkloadName, _Record] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """An eviction though the ones before it changed nothing."""
        match fact:
            case ProcessStarted():
                self._records.clear()
            case PodCreated(wanted=wanted, pod=pod):
                self._learn(wanted, pod)
            case PodEvicted(at=at, actor=actor, pod=pod):
                workload = self.past.topmost(pod)
                if workload is not None:
                    record = self._records.setdefault(workload, _Record())
                    record.waiting.append(pod)
                    known = record.hopeless_since
                    if known is not None and at - known > self.rules.staleness:
                        misses = f"{record.misses} successors came in no other size"
                        yield f"{actor} evicted {pod.namespace}/{pod.name} though {misses}"
            case _:
                return

    def _learn(self, wanted: Pod, pod: Pod) -> None:
        workload = self.past.topmost(pod)
        record = None if workload is None else self._records.get(workload)
        if record is None:
            return
        evicted = record.waiting.popleft() if record.waiting else None
        if _requests(pod) != _requests(wanted):
            record.misses, record.hopeless_since = 0, None
        elif evicted is not None and _requests(pod) == _requests(evicted):
            record.misses += 1
            if record.misses == self.rules.max_misses:
                record.hopeless_since = self.world.now()


def _requests(pod: Pod) -> dict[str, Resources]:
    return {container.name: container.spec.requests or {} for container in pod.containers}
