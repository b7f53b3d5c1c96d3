"""Targets that no recommender means: of nothing, of bytes, or of more than any machine has.

A recommender that lost its history publishes targets of nothing. One that forgot a unit publishes
bytes, with which no container starts, or cores that no machine has.
"""

from typing import Final

from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.resources import Resource

_LEAST: Final = {Resource.CPU: 1, Resource.MEMORY: 1024**2}
"""A target below is a mistake: no container starts with less than some mebibytes."""
_MOST: Final = {Resource.CPU: 10_000_000, Resource.MEMORY: 1024**5}
"""A target above (10,000 cores, 1 PiB) is a mistake: no machine has a quarter of it."""


def list_mistakes(entry: ContainerRecommendation) -> tuple[Resource, ...]:
    """Return the resources of which the target is a mistake."""
    found: tuple[Resource, ...] = ()
    # Called for every new pod, and hardly any target is a mistake: a plain loop costs least.
    for kind, amount in entry.target.items():
        if not _LEAST[kind] <= amount <= _MOST[kind]:
            found = (*found, kind)
    return found
