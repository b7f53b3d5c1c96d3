"""Owners without waiting: answers come from memory, and lookups run beside the requests.

Well-known kinds are answered from stores. Other kinds are read over the network, as soon as an
autoscaler targets them, or else when their first pod comes. An outdated answer is used while it is
refreshed, and while the API server is unreachable.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Owners
from trimtab.core.model.pods import PodHead, WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.model.workloads import Lookup, PeekedOwner

_MAX_LOOKUPS: Final = 1024
"""Maximum number of waiting lookups; further ones are left to the next pod."""
_AT_A_TIME: Final = 4
"""Number of concurrent lookups."""
_MAX_ATTEMPTS: Final = 30
"""Number of attempts after which targets that are not found no longer hold up readiness."""

_Key: TypeAlias = tuple[WorkloadName, str]


class NotYetError(Exception):
    """The answer may be known in a moment: a lookup runs, or a watch is about to show it."""


class ReadyOwners:
    """Answers from memory, and keeps memory up to date."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._lookups: OrderedDict[_Key, Lookup] = OrderedDict()
        self._under_way: set[_Key] = set()
        self._has_lookups = asyncio.Event()
        self._attempts = 0
        self._was_prepared = False

    def find(self, head: PodHead, *, may_wait: bool) -> PeekedOwner:
        """Return the topmost workload above the pod, as far as it is known.

        Raises NotYetError if the request may wait and the owner may be known soon.
        """
        seen = self._owners.peek(head)
        if seen.due:
            self._look_up(seen.due)
        if seen.is_pending and may_wait:
            raise NotYetError
        return seen

    def selector(
        self, workload: WorkloadName, api_version: str, *, may_wait: bool
    ) -> Selector | None:
        """Return the selector of the workload; None if it is gone, unknown, or selects nothing."""
        seen = self._owners.peek_workload(workload, api_version)
        if seen.due:
            self._look_up(seen.due)
        if seen.is_pending and may_wait:
            raise NotYetError
        return None if seen.workload is None else seen.workload.selector

    def prepare(self, targets: Iterable[tuple[WorkloadName, str]]) -> bool:
        """Look up what pods of these targets will need; return True once all of it was known."""
        # A list, not a generator: every target is looked up, even after an unknown one.
        unknown = [name for name, version in targets if not self.prefetch(name, version)]
        self._attempts += 1
        self._was_prepared |= not unknown or self._attempts > _MAX_ATTEMPTS
        return self._was_prepared

    def prefetch(self, name: WorkloadName, api_version: str) -> bool:
        """Look up the target and the owners above it, where due; return True if all are known."""
        seen = self._owners.peek_workload(name, api_version)
        self._look_up(seen.due)
        if seen.workload is None:
            return seen.is_known
        above = self._owners.peek(seen.workload)
        self._look_up(above.due)
        return above.topmost is not None

    async def run(self) -> None:
        """Make lookups as they are asked for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_A_TIME):
                group.create_task(self._work_off())

    async def _work_off(self) -> None:
        while True:
            while not self._lookups:
                self._has_lookups.clear()
                await self._has_lookups.wait()
            key, lookup = self._lookups.popitem(last=False)
            self._under_way.add(key)
            try:
                await self._owners.look_up(lookup)
            except ClusterError:
                # The old answer stays; the next pod asks again.
                continue
            finally:
                self._under_way.discard(key)

    def _look_up(self, due: Iterable[Lookup]) -> None:
        for lookup in due:
            key = lookup.name, lookup.api_version
            if key not in self._under_way and len(self._lookups) < _MAX_LOOKUPS:
                # Prefer a lookup with a uid: it may be due where one without is not.
                if lookup.uid or key not in self._lookups:
                    self._lookups[key] = lookup
                self._has_lookups.set()
