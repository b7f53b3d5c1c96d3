"""Events about pods that kubelets evicted because of memory pressure.

They are stored like all other objects, so a component finds them again after a lost connection.
"""

from dataclasses import dataclass

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.simulation.world.tables import Table, Versions


@dataclass(frozen=True, slots=True)
class EvictionNotice:
    """One eviction event."""

    namespace: str
    name: str
    eviction: MemoryEviction


class EvictionLog(Table[EvictionNotice]):
    """All events about evictions."""

    def __init__(self, versions: Versions) -> None:
        super().__init__(versions)
        self._count = 0

    def append(self, eviction: MemoryEviction) -> None:
        """Store one more eviction."""
        self._count += 1
        self.put(EvictionNotice(eviction.namespace, f"{eviction.pod}.{self._count}", eviction))
