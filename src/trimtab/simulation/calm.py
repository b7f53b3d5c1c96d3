"""Calm: what is broken on purpose now, and since when nothing is. In trouble much is forgiven."""

from datetime import datetime, timedelta
from typing import Final

from trimtab.simulation.facts import Fact, FaultBegan, FaultEnded, ProcessCrashed, ProcessStarted
from trimtab.simulation.faults import FaultKind
from trimtab.simulation.world import World

_SETS_CLOCK: Final = str(FaultKind.CLOCK_SKEW)


def sets_clock(fault: str) -> bool:
    """Whether a fault sets the clock of a component wrong, and right again."""
    return fault.startswith(_SETS_CLOCK)


class Calm:
    """Follows the faults of a world, and the comings and goings of components."""

    def __init__(self, world: World) -> None:
        self._faults: list[str] = []
        self._running: dict[str, None] = {}
        self._disturbed_at = world.now()
        self._clocks_set_at: datetime | None = None
        world.subscribe(self._note)

    @property
    def since(self) -> datetime | None:
        """Since when nothing is broken and nobody has started or crashed; None while it is."""
        return None if self._faults else self._disturbed_at

    def clocks_are_doubtful(self, now: datetime, span: timedelta) -> bool:
        """Whether a clock of a component is wrong, or was set within the span."""
        is_wrong = any(map(sets_clock, self._faults))
        set_at = self._clocks_set_at
        return is_wrong or (set_at is not None and now - set_at < span)

    def runs(self, component: str) -> bool:
        """Whether any copy of the component runs."""
        return any(name.startswith(component) for name in self._running)

    def _note(self, fact: Fact) -> None:
        match fact:
            case FaultBegan(fault=fault):
                self._faults.append(fault)
            case FaultEnded(fault=fault):
                self._faults.remove(fault)
            case ProcessStarted(actor=actor):
                self._running[actor] = None
            case ProcessCrashed(actor=actor):
                self._running.pop(actor, None)
            case _:
                return
        self._disturbed_at = fact.at
        if isinstance(fact, FaultBegan | FaultEnded) and sets_clock(fact.fault):
            self._clocks_set_at = fact.at
