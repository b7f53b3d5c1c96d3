"""What kubelets tell of pods that they evicted for want of memory: events of an API server.

They are objects like all others, so that whoever loses the connection finds them again.
"""

from dataclasses import dataclass

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.simulation.world.tables import Table, Versions


@dataclass(frozen=True, slots=True)
class EvictionNotice:
    """One event."""

    namespace: str
    name: str
    eviction: MemoryEviction


class EvictionLog(Table[EvictionNotice]):
    """All events about evictions."""

    def __init__(self, versions: Versions) -> None:
        super().__init__(versions)
        self._count = 0

    def append(self, eviction: MemoryEviction) -> None:
        """Tell of one more."""
        self._count += 1
        self.put(EvictionNotice(eviction.namespace, f"{eviction.pod}.{self._count}", eviction))
