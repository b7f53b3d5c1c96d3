"""Turns of namespaces at a limited rate: none of them can keep another one waiting (D26).

A turn is one act. The namespace whose last turn is the longest ago acts next, so of N namespaces
each acts within N turns, however urgent the pods of the others are.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")


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
