"""Label selectors: matching labels, and deciding if two selectors can match the same pod.

A selector is a conjunction of requirements, each about one label. So it admits certain states of
each label (`Admitted`), and everything here beyond matching follows from these states.
`selector_validation` builds selectors from the wire and refuses bad ones.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_MANY_VALUES: Final = 16
"""A selector with more values in one requirement is folded before its next match."""


class Operator(StrEnum):
    """The test that a requirement applies to one label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """A requirement of a selector on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    is_equality: bool = field(default=False, compare=False)
    """True if it was written as `key=value`; only its printed form depends on this."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the labels fulfil it; an absent label fulfils NotIn too."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
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
    _folded: "dict[str, Admitted] | None" = field(
        default=None, init=False, compare=False, repr=False
    )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the labels fulfil every requirement."""
        if self._folded is not None:
            return all(state.lets_in(labels.get(key)) for key, state in self._folded.items())
        # Called for every new pod, and most selectors are short: a plain loop costs least.
        for requirement in self.requirements:
            if len(requirement.values) > _MANY_VALUES:
                # Sets instead of tuples: a selector of 500 values costs the same as one of two.
                self.fold()
            if not requirement.matches(labels):
                return False
        return True

    def fold(self) -> "Mapping[str, Admitted]":
        """Return the states of each label that the selector admits, computed once."""
        if self._folded is None:
            folded: dict[str, Admitted] = {}
            for requirement in self.requirements:
                key = requirement.key
                folded[key] = folded.get(key, _ANYTHING) & _admitted(requirement)
            # A cache in a frozen record: it follows from the other fields and takes no part in
            # equality.
            object.__setattr__(self, "_folded", folded)
        assert self._folded is not None
        return self._folded


class Overlap(StrEnum):
    """The reason why two selectors are not known to be disjoint."""

    CATCH_ALL = "CatchAll"
    """One of them takes every pod."""
    NO_EXCLUDING_KEY = "NoExcludingKey"
    """There is no label on which they exclude each other."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The states of one label that a selector admits."""

    values: frozenset[str]
    is_all_but: bool
    """True if `values` are the refused ones: all others, without end, are admitted."""
    may_be_absent: bool

    @property
    def is_nothing(self) -> bool:
        """True if no state is admitted."""
        return not self.values and not self.is_all_but and not self.may_be_absent

    def lets_in(self, value: str | None) -> bool:
        """Return True if the label may have this value; None stands for an absent label."""
        if value is None:
            return self.may_be_absent
        return (value in self.values) is not self.is_all_but

    def excludes(self, other: "Admitted") -> bool:
        """Return True if both admit no common state, without listing the states."""
        if self.may_be_absent and other.may_be_absent:
            return False
        match self.is_all_but, other.is_all_but:
            # Finitely many values are refused, and there are infinitely many: some value is left to
            # both.
            case True, True:
                return False
            case True, False:
                return other.values <= self.values
            case False, True:
                return self.values <= other.values
            case _:
                return self.values.isdisjoint(other.values)

    def __and__(self, other: "Admitted") -> "Admitted":
        may_be_absent = self.may_be_absent and other.may_be_absent
        match self.is_all_but, other.is_all_but:
            case True, True:
                return Admitted(
                    self.values | other.values, is_all_but=True, may_be_absent=may_be_absent
                )
            case True, False:
                values = other.values - self.values
            case False, True:
                values = self.values - other.values
            case _:
                values = self.values & other.values
        return Admitted(values, is_all_but=False, may_be_absent=may_be_absent)


_ANYTHING: Final = Admitted(frozenset(), is_all_but=True, may_be_absent=True)


def equality(key: str, value: str) -> LabelRequirement:
    """Return the requirement that `matchLabels` makes of one label."""
    return LabelRequirement(key, Operator.IN, (value,), is_equality=True)


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Return True if the labels match as Kubernetes reads it: a missing selector matches none."""
    return selector is not None and selector.matches(labels)


def is_catch_all(selector: Selector | None) -> bool:
    """Return True if an autoscaler with this selector takes every pod of its target."""
    return selector is None or not selector.requirements


def is_satisfiable(selector: Selector) -> bool:
    """Return True if any labels at all match."""
    return not any(admitted.is_nothing for admitted in selector.fold().values())


def disjoint(one: Selector, other: Selector) -> bool:
    """Return True if no labels match both selectors.

    Two satisfiable selectors are disjoint exactly when, for some key, they admit no common state.
    """
    if not (is_satisfiable(one) and is_satisfiable(other)):
        return True
    # Through the shorter one: only keys that both name can exclude anything.
    ours, theirs = sorted((one.fold(), other.fold()), key=len)
    return any(state.excludes(theirs[key]) for key, state in ours.items() if key in theirs)


def find_overlap(one: Selector | None, other: Selector | None) -> Overlap | None:
    """Return the reason why two such autoscalers may not share a target; None if they may."""
    if one is None or other is None or is_catch_all(one) or is_catch_all(other):
        return Overlap.CATCH_ALL
    return None if disjoint(one, other) else Overlap.NO_EXCLUDING_KEY


def excluding_requirement(selector: Selector) -> LabelRequirement | None:
    """Return a requirement that no matching pod's labels fulfil; None for a selector of all pods.

    Of several possible ones it is the shortest, because messages to people show it.
    """
    found = map(_opposite, selector.requirements)
    return min(found, key=lambda each: (len(_format_requirement(each)), each.key), default=None)


def fingerprint(selector: Selector | None) -> str | None:
    """Return a digest that two selectors share exactly if they match the same pods.

    A selector of all pods has None.
    """
    if selector is None or is_catch_all(selector):
        return None
    # All selectors that match nothing are the same one.
    folded = selector.fold() if is_satisfiable(selector) else {}
    canonical = [
        [key, admitted.is_all_but, admitted.may_be_absent, *sorted(admitted.values)]
        for key, admitted in sorted(folded.items())
    ]
    return hashlib.sha256(json.dumps(canonical).encode()).hexdigest()


def format_selector(selector: Selector | None) -> str:
    """Format the selector for `kubectl get --selector`, ordered by key."""
    requirements = selector.requirements if selector else ()
    return ",".join(map(_format_requirement, sorted(requirements, key=lambda each: each.key)))


def _format_requirement(requirement: LabelRequirement) -> str:
    key, values = requirement.key, ",".join(sorted(requirement.values))
    match requirement.operator:
        case Operator.IN if requirement.is_equality:
            return f"{key}={values}"
        case Operator.IN:
            return f"{key} in ({values})"
        case Operator.NOT_IN:
            return f"{key} notin ({values})"
        case Operator.EXISTS:
            return key
        case Operator.DOES_NOT_EXIST:
            return f"!{key}"


def _opposite(requirement: LabelRequirement) -> LabelRequirement:
    match requirement.operator:
        case Operator.IN:
            return LabelRequirement(requirement.key, Operator.NOT_IN, requirement.values)
        case Operator.NOT_IN:
            return LabelRequirement(requirement.key, Operator.IN, requirement.values[:1])
        case Operator.EXISTS:
            return LabelRequirement(requirement.key, Operator.DOES_NOT_EXIST)
        case Operator.DOES_NOT_EXIST:
            return LabelRequirement(requirement.key, Operator.EXISTS)


def _admitted(requirement: LabelRequirement) -> Admitted:
    values = frozenset(requirement.values)
    match requirement.operator:
        case Operator.IN:
            return Admitted(values, is_all_but=False, may_be_absent=False)
        case Operator.NOT_IN:
            return Admitted(values, is_all_but=True, may_be_absent=True)
        case Operator.EXISTS:
            return Admitted(frozenset(), is_all_but=True, may_be_absent=False)
        case Operator.DOES_NOT_EXIST:
            return Admitted(frozenset(), is_all_but=False, may_be_absent=True)
