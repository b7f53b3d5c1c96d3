"""LimitRanges: what a namespace allows a container or a whole pod to ask for."""

from dataclasses import dataclass, field
from enum import StrEnum

from trimtab.core.resources import Resources


class LimitRangeType(StrEnum):
    """What a limit range item bounds; other types do not concern pods."""

    CONTAINER = "Container"
    POD = "Pod"


@dataclass(frozen=True, slots=True)
class LimitRangeItem:
    """One item of a LimitRange."""

    type: LimitRangeType
    min: Resources = field(default_factory=dict)
    max: Resources = field(default_factory=dict)
    default: Resources | None = None
    """The limit of a container that names none; None where the item has no such map."""
