"""Last turns of namespaces at a rate limit, from plan to plan (D26)."""

from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import Final

_MOST_TURNS: Final = 10_000
"""Maximum number of namespaces without acts that are remembered: as many as Kubernetes supports."""


class LastTurns:
    """When each namespace last had a turn at a rate limit, as a number that grows.

    A namespace that comes to wait for its first turn goes behind those that wait already, and
    before the one that had the last turn. So a tenant who creates namespaces keeps none waiting.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._last: dict[str, int] = {}
        """In the order in which they were noted."""
        self._newest = 0

    def join(self, namespace: str) -> int:
        """Return the number of the namespace's last turn; note its place if it is new."""
        return self._last.setdefault(namespace, self._newest - 1)

    def note(self, namespace: str) -> None:
        """Note that the namespace has its turn now."""
        self._last.pop(namespace, None)
        self._newest = next(self._numbers)
        self._last[namespace] = self._newest

    def forget_others(self, waiting: Container[str]) -> None:
        """Forget the oldest of too many namespaces; those that wait would lose their places."""
        excess = len(self._last) - _MOST_TURNS
        if excess > 0:
            others = (name for name in self._last if name not in waiting)
            for name in list(islice(others, excess)):
                del self._last[name]

    def by_namespace(self) -> Mapping[str, int]:
        """Return all of them."""
        return dict(self._last)
