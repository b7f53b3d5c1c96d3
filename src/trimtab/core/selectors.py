"""Label selectors: which labels they match, and whether two can ever match the same pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """How a requirement looks at one label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorError(ValueError):
    """A selector that Kubernetes would refuse."""


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """What a selector asks of one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil it; NotIn is fulfilled by an absent label too."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values if self.key in labels else False
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction of requirements; without any it matches everything."""

    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)
