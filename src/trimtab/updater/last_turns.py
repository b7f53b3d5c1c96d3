"""Last turns of namespaces at a rate limit, from plan to plan (D26)."""

from collections.abc import Iterator, Mapping
from typing import Final

_MOST_TURNS: Final = 10_000
"""Maximum number of namespaces whose last turns are remembered: as many as Kubernetes supports."""


class LastTurns:
    """When each namespace last had a turn at a rate limit, as a number that grows."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._last: dict[str, int] = {}
        """In the order of the numbers."""

    def of(self, namespace: str) -> int:
        """Return the number of the namespace's last turn; zero if it had none."""
        return self._last.get(namespace, 0)

    def note(self, namespace: str) -> None:
        """Note that the namespace has its turn now."""
        self._last.pop(namespace, None)
        self._last[namespace] = next(self._numbers)
        if len(self._last) > _MOST_TURNS:
            # As one that never had a turn, it still comes before all others.
            del self._last[next(iter(self._last))]

    def by_namespace(self) -> Mapping[str, int]:
        """Return all of them."""
        return dict(self._last)
