"""Room for requests that wait, shared fairly by the namespaces that they come from.

A tenant can make any number of requests wait. If the room is full, the namespace that takes most of
it makes room for another one that takes less.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_LEAST_BYTES: Final = 64 * 1024
"""Minimum size that each request counts: the server retries small requests, too."""

_WaiterT = TypeVar("_WaiterT")


@dataclass(frozen=True, slots=True)
class QueueShare:
    """Part of the room: requests about one kind of object in one namespace."""

    resource: str
    namespace: str


class WaitingRoom(Generic[_WaiterT]):
    """Tracks the requests that wait, the longest-waiting of each share first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._shares: dict[QueueShare, OrderedDict[_WaiterT, int]] = {}
        self._share_of: dict[_WaiterT, QueueShare] = {}
        self._taken: dict[QueueShare, int] = {}
        self._taken_bytes = 0

    def __len__(self) -> int:
        return len(self._share_of)

    def __contains__(self, waiter: _WaiterT) -> bool:
        return waiter in self._share_of

    def enter(self, waiter: _WaiterT, share: QueueShare, size_bytes: int) -> list[_WaiterT] | None:
        """Admit a request; return those that leave for it, or None if there is no room."""
        cost = max(size_bytes, _LEAST_BYTES)
        leaving = self._choose_leaving(share, cost)
        if leaving is None:
            return None
        for each in leaving:
            self.leave(each)
        self._shares.setdefault(share, OrderedDict())[waiter] = cost
        self._share_of[waiter] = share
        self._taken[share] = self._taken.get(share, 0) + cost
        self._taken_bytes += cost
        return leaving

    def leave(self, waiter: _WaiterT) -> None:
        """Remove a request, if it is there."""
        share = self._share_of.pop(waiter, None)
        if share is None:
            return
        cost = self._shares[share].pop(waiter)
        self._taken[share] -= cost
        self._taken_bytes -= cost
        if not self._shares[share]:
            del self._shares[share], self._taken[share]

    def _choose_leaving(self, share: QueueShare, cost: int) -> list[_WaiterT] | None:
        leaving: list[_WaiterT] = []
        excess = self._taken_bytes + cost - self._max_bytes
        if excess <= 0:
            return leaving
        own = self._taken.get(share, 0) + cost
        taken = dict(self._taken)
        queues = {each: iter(waiters.items()) for each, waiters in self._shares.items()}
        while excess > 0:
            largest = max(taken, key=taken.__getitem__, default=share)
            # Equal shares do not yield, or requests would displace each other in turns.
            if largest == share or taken[largest] <= own:
                return None
            waiter, size = next(queues[largest])
            leaving.append(waiter)
            taken[largest] -= size
            excess -= size
        return leaving
