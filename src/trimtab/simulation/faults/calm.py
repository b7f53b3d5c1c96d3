"""Calm: the active faults, and the time since the last one, for checkers that wait for calm."""

from datetime import datetime, timedelta
from typing import Final

from trimtab.simulation.faults.kinds import FaultKind
from trimtab.simulation.world.facts import (
    Fact,
    FaultBegan,
    FaultEnded,
    ProcessCrashed,
    ProcessStarted,
)
from trimtab.simulation.world.world import World

_SETS_CLOCK: Final = str(FaultKind.CLOCK_SKEW)


_COMPONENTS: Final = ("admission", "recommender", "updater")
_OF_ALL: Final = (str(FaultKind.HISTORY_FORGOTTEN), str(FaultKind.WEBHOOK_DOWN))


def _hits(fault: str, component: str) -> bool:
    """Return True if a fault affects the component."""
    return f" {component} at " in fault or fault.startswith(_OF_ALL)


def _switches_gate(fault: str, actor: str) -> bool:
    """Return True if a fault switches off the gate of this copy of a component."""
    words = fault.removeprefix(f"{FaultKind.GATE_OFF} ").split()
    return fault.startswith(FaultKind.GATE_OFF) and actor.startswith(words[0])


def sets_clock(fault: str) -> bool:
    """Return True if a fault sets the clock of a component wrong, and right again."""
    return fault.startswith(_SETS_CLOCK)


class Calm:
    """Follows the faults of a world, and the starts and crashes of components."""

    def __init__(self, world: World) -> None:
        self._faults: list[str] = []
        self._running: dict[str, None] = {}
        self._begun_at = self._disturbed_at = world.now()
        self._hit_at: dict[str, datetime] = {}
        self._gateless: set[str] = set()
        self._clocks_set_at: datetime | None = None
        world.subscribe(self._note)

    @property
    def since(self) -> datetime | None:
        """Time of the last fault, start or crash; None while a fault is active."""
        return None if self._faults else self._disturbed_at

    def works_since(self, component: str) -> datetime | None:
        """Return the time of the component's last fault, start or crash; None during a fault."""
        if any(_hits(fault, component) for fault in self._faults):
            return None
        return self._hit_at.get(component, self._begun_at)

    def lacks_gate(self, actor: str) -> bool:
        """Return True if a copy of a component started with the gate of startup boosts off."""
        return actor in self._gateless

    def clocks_are_doubtful(self, now: datetime, span: timedelta) -> bool:
        """Return True if a clock of a component is wrong, or was set within the span."""
        is_wrong = any(map(sets_clock, self._faults))
        set_at = self._clocks_set_at
        return is_wrong or (set_at is not None and now - set_at < span)

    def runs(self, component: str) -> bool:
        """Return True if any copy of the component runs."""
        return any(name.startswith(component) for name in self._running)

    def _note(self, fact: Fact) -> None:
        match fact:
            case FaultBegan(fault=fault):
                self._faults.append(fault)
            case FaultEnded(fault=fault):
                self._faults.remove(fault)
            case ProcessStarted(actor=actor):
                self._running[actor] = None
                gates_off = [fault for fault in self._faults if _switches_gate(fault, actor)]
                (self._gateless.add if gates_off else self._gateless.discard)(actor)
            case ProcessCrashed(actor=actor):
                self._running.pop(actor, None)
            case _:
                return
        self._disturbed_at = fact.at
        for component in _COMPONENTS:
            is_hit = (
                _hits(fact.fault, component)
                if isinstance(fact, FaultBegan | FaultEnded)
                else fact.actor.startswith(component)
            )
            if is_hit:
                self._hit_at[component] = fact.at
        if isinstance(fact, FaultBegan | FaultEnded) and sets_clock(fact.fault):
            self._clocks_set_at = fact.at
