"""Moments at which something is due although nothing happens: another look, at the right time.

Startup boosts end so long after a pod turned ready, and what failed is tried again after a while.
Neither should wait for the next tick.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from trimtab.cluster.ports import Clock
from trimtab.core.outcomes import Hold, Outcome
from trimtab.core.pods import Pod
from trimtab.updater.owning import OwnerKey, owner_key


class Alarms:
    """Rings for pods that a plan holds until a certain moment."""

    def __init__(self, clock: Clock, ring: Callable[[Pod], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._set: dict[OwnerKey, tuple[datetime, Pod]] = {}
        """The next alarm of each owner: a plan of one of its pods is one of all."""
        self._new: asyncio.Queue[tuple[Pod, datetime]] = asyncio.Queue()

    async def run(self) -> None:
        """Ring in time, for ever."""
        self._set.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                pod, moment = await self._new.get()
                group.create_task(self._wait(pod, moment))

    def set_for(self, outcomes: Iterable[Outcome]) -> None:
        """Ring when the holds among the outcomes deserve another look."""
        for each in outcomes:
            if isinstance(each, Hold) and each.until is not None:
                self.set_one(each.pod, each.until)

    def set_one(self, pod: Pod, moment: datetime) -> None:
        """Ring for the pod at the moment, unless its owner has an earlier alarm."""
        owner = owner_key(pod)
        known = None if owner is None else self._set.get(owner)
        # One that rings too early costs a look, after which it is set anew.
        if owner is not None and (known is None or moment < known[0]):
            self._set[owner] = moment, pod
            self._new.put_nowait((pod, moment))

    def ring_early(self, namespace: str) -> None:
        """Ring at once for the pods of a namespace: what they wait for has come."""
        for owner in [each for each in self._set if each.namespace == namespace]:
            _, pod = self._set.pop(owner)
            self._ring(pod)

    async def _wait(self, pod: Pod, moment: datetime) -> None:
        await self._clock.sleep(max(moment - self._clock.now(), timedelta()))
        owner = owner_key(pod)
        # Another one may have been set for an earlier moment since.
        if owner is not None and self._set.get(owner, (None, pod))[0] == moment:
            del self._set[owner]
            self._ring(pod)
