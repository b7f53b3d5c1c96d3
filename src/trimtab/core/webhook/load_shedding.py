"""Choose which idle connection to close at the connection limit: the one idle longest.

A limit alone keeps out the wrong clients. Idle connections could use it up for as long as they
like, and the server would refuse clients with requests. The servers set the limit and close
connections.
"""

from collections.abc import Iterable
from math import inf
from typing import Protocol, TypeVar


class IdleConnection(Protocol):
    """A connection that may be idle."""

    @property
    def awaited_since(self) -> float | None:
        """Time since which the server waits for the client to send or to read.

        None while the client waits for the server. In seconds, on any clock that does not go back.
        """


ConnectionT = TypeVar("ConnectionT", bound=IdleConnection)


def find_longest_awaited(connections: Iterable[ConnectionT]) -> ConnectionT | None:
    """Return the connection that was awaited longest, the first of equals; None without any."""
    found, earliest = None, inf
    for connection in connections:
        since = connection.awaited_since
        if since is not None and since < earliest:
            found, earliest = connection, since
    return found
