"""Annotations on pods that are an interface: their names and the shape of simple values.

Other programs read them, the original among them, so that either can go on where the other left
off. What a boost writes down is in `boost.py`, what an update tells in `notes.py`.
"""

from collections.abc import Iterable
from typing import Final

from trimtab.core.pods import Container

UPDATES: Final = "vpaUpdates"
"""What admission changed, in words for people."""

OBSERVED_CONTAINERS: Final = "vpaObservedContainers"
"""The containers that admission saw; later ones were injected by others."""

IN_PLACE_UPDATED: Final = "vpaInPlaceUpdated"
"""`true` once the pod was resized in place."""

BOOST_PREFIX: Final = "vpaCpuStartupBoost/"
"""Followed by the name of a container that is boosted."""

NAME_SEPARATOR: Final = ", "


def format_observed_containers(containers: Iterable[Container]) -> str:
    """The value of `vpaObservedContainers`."""
    return NAME_SEPARATOR.join(container.name for container in containers)
