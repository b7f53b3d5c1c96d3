"""Namespaces: what their owners say to us about all that is in them."""

from collections.abc import Mapping
from dataclasses import field

from trimtab.core.annotations import says_paused
from trimtab.core.records import dataclass


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, with the annotations that are for us."""

    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_paused(self) -> bool:
        """Whether nothing may be done in it at the moment."""
        return says_paused(self.annotations)
