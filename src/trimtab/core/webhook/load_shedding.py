"""Who makes room where too many are connected: whoever has kept the server waiting longest.

A bound alone keeps out the wrong ones: connections on which nobody asks anything would fill it for
as long as they like, and who comes to ask is turned away. How many there may be, and how a
connection ends, is left to the servers.
"""

from collections.abc import Iterable
from math import inf
from typing import Protocol, TypeVar


class IdleConnection(Protocol):
    """Somebody who is connected."""

    @property
    def awaited_since(self) -> float | None:
        """Since when the server waits for it to ask or to read; None while it waits for us.

        Seconds, on any clock that does not go back.
        """


GuestT = TypeVar("GuestT", bound=IdleConnection)


def find_longest_awaited(guests: Iterable[GuestT]) -> GuestT | None:
    """Who has been waited for longest, of equals the first; None if nobody is waited for."""
    found, earliest = None, inf
    for guest in guests:
        since = guest.awaited_since
        if since is not None and since < earliest:
            found, earliest = guest, since
    return found
