"""Memory of new pods that do not appear in the status of their owners.

Stores show the status, so no request waits for the network. Copies of the admission controller, and
workers of one copy, do not share this memory: each counts the pods that it has seen itself.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NoReturn

from trimtab.admission.telling import Timer
from trimtab.core.pods import Pod, WorkloadName
from trimtab.core.records import dataclass
from trimtab.core.refusals import (
    Attempts,
    Offer,
    OwnerStatus,
    Withheld,
    add_attempt,
    see_status,
)
from trimtab.core.workloads import Known, Workload

_KEPT: Final = 4096
"""Number of owners that are remembered; the one without a new pod for longest goes first."""
LOOK_SECONDS: Final = 0.5
"""Time between two looks at owners whose pods have not appeared."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    name: WorkloadName
    attempts: Attempts


class Withholding:
    """Finds out which part of its size a new pod must not get if it is to be created."""

    def __init__(self, known: Known, timer: Timer) -> None:
        self._known = known
        self._timer = timer
        self._owners: OrderedDict[str, _Remembered] = OrderedDict()
        """By the uid of the owner, as the API server made it."""
        self._has_owners = asyncio.Event()

    def __len__(self) -> int:
        return len(self._owners)

    def choose(
        self,
        pod: Pod,
        offer: Offer,
        *,
        is_dry_run: bool,
        tell: Callable[[Withheld], None] = lambda _: None,
    ) -> Withheld:
        """Return the part that a new pod does not get; `tell` hears of each change of it."""
        owner = None if offer.is_empty else self._find_owner(pod)
        if owner is None or owner.existing is None:
            return Withheld.NOTHING
        remembered = self._owners.get(owner.uid)
        status = OwnerStatus(owner.existing, owner.replicas, owner.is_failing)
        before = None if remembered is None else remembered.attempts
        attempts = add_attempt(before, status, offer, self._timer())
        if is_dry_run:
            return attempts.withheld
        self._owners[owner.uid] = _Remembered(owner.name, attempts)
        self._owners.move_to_end(owner.uid)
        if len(self._owners) > _KEPT:
            self._owners.popitem(last=False)
        self._has_owners.set()
        if before is not None and attempts.rounds and attempts.withheld is not before.withheld:
            tell(attempts.withheld)
        return attempts.withheld

    async def run(self) -> NoReturn:
        """Look at the owners of pods that have not appeared, until cancelled.

        A pod that is deleted before the next one comes has appeared nevertheless.
        """
        while True:
            while not self._owners:
                self._has_owners.clear()
                await self._has_owners.wait()
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Compare the status of each owner with its pods, and forget owners without trouble."""
        now = self._timer()
        for uid, remembered in tuple(self._owners.items()):
            owner = self._known(remembered.name)
            if owner is None or owner.uid != uid or remembered.attempts.is_outdated(now):
                del self._owners[uid]
            elif owner.existing is not None:
                self._see(uid, remembered, owner.existing)

    def _see(self, uid: str, remembered: _Remembered, existing: int) -> None:
        attempts = see_status(remembered.attempts, existing)
        if attempts.is_settled:
            del self._owners[uid]
        elif attempts is not remembered.attempts:
            self._owners[uid] = _Remembered(remembered.name, attempts)

    def _find_owner(self, pod: Pod) -> Workload | None:
        owner = pod.owner
        if owner is None:
            return None
        found = self._known(WorkloadName(pod.namespace, owner.kind, owner.name))
        return found if found is not None and found.uid else None
