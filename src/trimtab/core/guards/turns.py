"""Turns of namespaces at a limited rate: none of them can keep another one waiting (D26).

A turn is one act. The namespace whose last turn is the longest ago acts next, so of N namespaces
each acts within N turns, however urgent the pods of the others are.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

ItemT = TypeVar("ItemT")

_MOST_TURNS: Final = 10_000
"""Maximum number of namespaces without acts that are remembered: as many as Kubernetes supports."""


def take_turns(
    items: Sequence[ItemT], namespace_of: Callable[[ItemT], str], last_turns: Mapping[str, int]
) -> list[ItemT]:
    """Return the items in the order of their turns; those of one namespace keep their order.

    Later turns have larger numbers. A namespace without one is new, and only comes before the one
    that had the last turn: a tenant who creates namespaces must not keep others waiting.
    """
    namespaces = [namespace_of(each) for each in items]
    # A dict keeps the order in which the namespaces first appear, and so does the sort.
    new = max(last_turns.values(), default=0) - 1
    waiting = sorted(dict.fromkeys(namespaces), key=lambda name: last_turns.get(name, new))
    if len(waiting) <= 1:
        return list(items)
    places = {name: place for place, name in enumerate(waiting)}
    rounds: Counter[str] = Counter()
    keys: list[tuple[int, int, int]] = []
    for position, name in enumerate(namespaces):
        keys.append((rounds[name], places[name], position))
        rounds[name] += 1
    return [items[position] for _, _, position in sorted(keys)]


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
