"""Memory of new pods that do not appear in the status of their owners.

Stores provide the status, so no request waits for the network. Copies of the admission controller,
and workers of one copy, do not share this memory: each counts the pods that it has seen itself.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn, TypeAlias

import msgspec

from trimtab.admission.logs import Timer
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import PodHead, WorkloadName
from trimtab.core.model.workloads import Known, Workload
from trimtab.core.sizing import refusals
from trimtab.core.sizing.refusals import Attempts, Offer, OwnerStatus, Withheld

_KEPT: Final = 4096
"""Number of owners that are remembered; the one without a new pod for longest goes first."""
LOOK_SECONDS: Final = 0.5
"""Time between two looks at owners whose pods came a moment ago."""
_MOMENT_SECONDS: Final = 10.0
"""Time within which a pod that is created shows in the status of its owner."""
_IDLE_SECONDS: Final = 60.0
"""Time between two looks while no pods come."""


TellChange: TypeAlias = Callable[[PodHead, Autoscaler, Withheld], None]
"""Reports that pods of an owner get less from now on, or the full size again."""


def _stay_silent(_head: PodHead, _autoscaler: Autoscaler, _withheld: Withheld) -> None:
    pass


class _Remembered(msgspec.Struct, frozen=True, gc=False):
    name: WorkloadName
    attempts: Attempts
    seen: Workload | None = None
    """The owner as it was at the last look since the latest pod."""


class Withholding:
    """Determines which part of its size a new pod must not get, so that it can be created."""

    def __init__(self, known: Known, timer: Timer, tell: TellChange = _stay_silent) -> None:
        self._known = known
        self._timer = timer
        self._tell = tell
        self._owners: OrderedDict[str, _Remembered] = OrderedDict()
        """By the uid of the owner, as the API server made it."""
        self._came_at = 0.0
        self._has_news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._owners)

    def choose(
        self, head: PodHead, autoscaler: Autoscaler, offer: Offer, *, is_dry_run: bool
    ) -> Withheld:
        """Return the part of an autoscaler's offer that a new pod does not get."""
        owner = None if offer.is_empty else self._find_owner(head)
        if owner is None or owner.existing is None:
            return Withheld.NOTHING
        remembered = self._owners.get(owner.uid)
        status = OwnerStatus(owner.existing, owner.replicas, owner.is_failing)
        before = None if remembered is None else remembered.attempts
        now = self._timer()
        attempts = refusals.add_attempt(before, status, offer, now)
        if is_dry_run:
            return attempts.withheld
        self._owners[owner.uid] = _Remembered(owner.name, attempts)
        self._owners.move_to_end(owner.uid)
        if len(self._owners) > _KEPT:
            self._owners.popitem(last=False)
        self._came_at = now
        self._has_news.set()
        if before is not None and attempts.least is not before.least:
            self._tell(head, autoscaler, attempts.least)
        return attempts.withheld

    async def run(self) -> NoReturn:
        """Look at the owners of pods that have not appeared, until cancelled.

        A pod that is deleted before the next one comes has appeared nevertheless.
        """
        while True:
            self._has_news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_SECONDS if self._owners else None):
                    await self._has_news.wait()
            self.look()
            while self._owners and self._timer() - self._came_at <= _MOMENT_SECONDS:
                await asyncio.sleep(LOOK_SECONDS)
                self.look()

    def look(self) -> None:
        """Compare the status of each owner with its pods, and forget owners without trouble."""
        now = self._timer()
        for uid, remembered in tuple(self._owners.items()):
            owner = self._known(remembered.name)
            if owner is None or owner.uid != uid or remembered.attempts.is_outdated(now):
                del self._owners[uid]
            elif owner.existing is not None and owner is not remembered.seen:
                status = OwnerStatus(owner.existing, owner.replicas, owner.is_failing)
                attempts = refusals.see_status(remembered.attempts, status)
                if attempts.is_settled:
                    del self._owners[uid]
                else:
                    self._owners[uid] = _Remembered(remembered.name, attempts, owner)

    def _find_owner(self, head: PodHead) -> Workload | None:
        owner = head.owner
        if owner is None:
            return None
        found = self._known(WorkloadName(head.namespace, owner.kind, owner.name))
        return found if found is not None and found.uid else None
