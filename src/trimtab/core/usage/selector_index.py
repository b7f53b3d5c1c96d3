"""Links: the aggregates from which each autoscaler learns.

An autoscaler learns from every aggregate of its namespace whose labels its selector matches,
even if another autoscaler governs the pods. It also learns from its restored checkpoints. Both
sides are indexed by one label of the selector. So a new label set meets only the few autoscalers
that could match it, and a new autoscaler only the few label sets that it could match.
"""

from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from trimtab.core.histogram.buckets import Ints
from trimtab.core.model import autoscalers
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, ContainerPolicy
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.core.usage.aggregates import AggregateKey, LabelSet

_Pin: TypeAlias = tuple[str, str, str] | tuple[str]
"""A namespace and one label of it, or the namespace alone."""
# Example: the selector app in (a, b) has the pins (ns, app, a) and (ns, app, b). A pod with app=a
# has the pins (ns,), (ns, app, a) and one for each other label: exactly one is shared.
_Item = TypeVar("_Item")


@dataclass(slots=True)
class AutoscalerAggregates:
    """One autoscaler and the rows of the aggregates that it learns from, by container name."""

    autoscaler: Autoscaler
    selector: Selector | None
    """Selects its pods, by its target and its own selector; None for no pods at all."""
    linked: dict[str, set[int]] = field(default_factory=dict)
    restored: dict[str, int] = field(default_factory=dict)
    last_selector: Selector | None = None
    """The last one that was for any pods: the one that restored histories belong to."""

    def __post_init__(self) -> None:
        if self.selector is not None:
            self.last_selector = self.selector

    @property
    def name(self) -> AutoscalerName:
        """The autoscaler's identity."""
        return self.autoscaler.identity

    @property
    def container_names(self) -> set[str]:
        """Every container of which it has an aggregate."""
        return self.linked.keys() | self.restored.keys()

    def live_names(self, feeders: Ints) -> set[str]:
        """Return the names of containers that any of its pods has now."""
        # Mostly it is one row, for which arrays are slow.
        return {name for name, rows in self.linked.items() if any(map(feeders.item, rows))}

    def rows(self, container_name: str) -> list[int]:
        """Return all aggregates of one container name, the restored one last."""
        rows = sorted(self.linked.get(container_name, ()))
        restored = self.restored.get(container_name)
        return rows if restored is None else [*rows, restored]


@dataclass(frozen=True, slots=True)
class _Siblings:
    """The aggregates of one label set of one namespace, by container name."""

    labels: LabelSet
    rows: dict[str, int] = field(default_factory=dict)


class AggregateIndex:
    """The links of aggregates and autoscalers, kept current as both come and go."""

    def __init__(self) -> None:
        self.learners: dict[AutoscalerName, AutoscalerAggregates] = {}
        self._changed: set[AutoscalerName] = set()
        self._learners_by_pin: defaultdict[_Pin, set[AutoscalerName]] = defaultdict(set)
        self._labels_by_pin: defaultdict[_Pin, set[LabelSet]] = defaultdict(set)
        self._siblings: dict[tuple[str, LabelSet], _Siblings] = {}
        self._learners_by_row: dict[int, set[AutoscalerName]] = {}

    def has_learner(self, namespace: str, labels: LabelSet) -> bool:
        """Return True if any autoscaler would learn from a pod with these labels."""
        return any(True for _ in self._matching_learners(namespace, labels))

    def matching_learners(self, namespace: str, labels: LabelSet) -> list[AutoscalerName]:
        """Return the autoscalers that would learn from a pod with these labels."""
        return sorted(self._matching_learners(namespace, labels))

    def shared_labels(self, namespace: str, labels: LabelSet) -> LabelSet:
        """Return the same labels, as one object that all pods with them share."""
        siblings = self._siblings.get((namespace, labels))
        return labels if siblings is None else siblings.labels

    def add_aggregate(self, row: int, key: AggregateKey) -> None:
        """Link a new aggregate to every autoscaler that matches its labels."""
        home = (key.namespace, key.labels)
        if home not in self._siblings:
            self._siblings[home] = _Siblings(key.labels)
            for pin in _pins_of_labels(*home):
                self._labels_by_pin[pin].add(key.labels)
        self._siblings[home].rows[key.container_name] = row
        self._learners_by_row[row] = set()
        for name in sorted(self._matching_learners(*home)):
            self._link(self.learners[name], row, key.container_name)

    def remove_aggregate(self, row: int, key: AggregateKey) -> None:
        """Unlink an aggregate that no longer exists."""
        for name in self._learners_by_row.pop(row):
            self._unlink(self.learners[name], row, key.container_name)
        home = (key.namespace, key.labels)
        del self._siblings[home].rows[key.container_name]
        if not self._siblings[home].rows:
            del self._siblings[home]
            for pin in _pins_of_labels(*home):
                _discard(self._labels_by_pin, pin, key.labels)

    def add_learner(self, learner: AutoscalerAggregates) -> None:
        """Link a new autoscaler to every aggregate whose labels it matches."""
        self.learners[learner.name] = learner
        self._changed.add(learner.name)
        for pin in _pins_of_selector(learner.name.namespace, learner.selector):
            self._learners_by_pin[pin].add(learner.name)
        for labels in self._matching_labels(learner):
            siblings = self._siblings[learner.name.namespace, labels]
            for container_name, row in siblings.rows.items():
                self._link(learner, row, container_name)

    def remove_learner(self, name: AutoscalerName) -> None:
        """Unlink an autoscaler."""
        learner = self.learners.pop(name)
        self._changed.add(name)
        for pin in _pins_of_selector(name.namespace, learner.selector):
            _discard(self._learners_by_pin, pin, name)
        for rows in learner.linked.values():
            for row in rows:
                self._learners_by_row[row].discard(name)

    def update_learner(self, autoscaler: Autoscaler) -> None:
        """Replace the object of an autoscaler whose selector is unchanged."""
        learner = self.learners[autoscaler.identity]
        learner.autoscaler = autoscaler
        self._changed.add(learner.name)

    def rows_in(self, namespace: str) -> list[int]:
        """Return all aggregates of a namespace."""
        homes = [(namespace, labels) for labels in self._labels_by_pin.get((namespace,), ())]
        return sorted(row for home in homes for row in self._siblings[home].rows.values())

    def linked_rows(self, name: AutoscalerName) -> list[int]:
        """Return all aggregates that an autoscaler is linked to."""
        return [row for rows in self.learners[name].linked.values() for row in rows]

    def drain_changed(self) -> set[AutoscalerName]:
        """Return the autoscalers about which anything changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def put_restored(self, name: AutoscalerName, container_name: str, row: int | None) -> None:
        """Replace the aggregate restored from a checkpoint; None removes it."""
        restored = self.learners[name].restored
        restored.pop(container_name, None)
        if row is not None:
            restored[container_name] = row
        self._changed.add(name)

    def touch(self, row: int) -> None:
        """Note that something other than its links changed about an aggregate."""
        self._changed |= self._learners_by_row[row]

    def learners_of(self, row: int) -> AbstractSet[AutoscalerName]:
        """Return the autoscalers that learn from an aggregate."""
        return self._learners_by_row[row]

    def policies(self, row: int, container_name: str) -> list[ContainerPolicy]:
        """Return the policies of all learners of an aggregate for its container."""
        # Sorted: of several policies the first one by name overrides (`Aggregates.override`).
        learners = [self.learners[name] for name in sorted(self._learners_by_row[row])]
        found = [
            autoscalers.policy_for(learner.autoscaler.policies, container_name)
            for learner in learners
        ]
        return [policy for policy in found if policy is not None]

    def _link(self, learner: AutoscalerAggregates, row: int, container_name: str) -> None:
        learner.linked.setdefault(container_name, set()).add(row)
        self._learners_by_row[row].add(learner.name)
        self._changed.add(learner.name)

    def _unlink(self, learner: AutoscalerAggregates, row: int, container_name: str) -> None:
        rows = learner.linked[container_name]
        rows.discard(row)
        if not rows:
            del learner.linked[container_name]
        self._changed.add(learner.name)

    def _matching_learners(self, namespace: str, labels: LabelSet) -> Iterator[AutoscalerName]:
        by_key = dict(labels)
        for pin in _pins_of_labels(namespace, labels):
            for name in self._learners_by_pin.get(pin, ()):
                selector = self.learners[name].selector
                if selector is not None and selector.matches(by_key):
                    yield name

    def _matching_labels(self, learner: AutoscalerAggregates) -> set[LabelSet]:
        selector = learner.selector
        if selector is None:
            return set()
        pins = _pins_of_selector(learner.name.namespace, selector)
        # The pin decides about one requirement; the selector is still asked about the others.
        candidates = {labels for pin in pins for labels in self._labels_by_pin.get(pin, ())}
        return {labels for labels in candidates if selector.matches(dict(labels))}


def _pins_of_labels(namespace: str, labels: LabelSet) -> list[_Pin]:
    return [(namespace,), *((namespace, key, value) for key, value in labels)]


def _pins_of_selector(namespace: str, selector: Selector | None) -> list[_Pin]:
    """Return pins of which the labels of a matching pod have exactly one."""
    if selector is None:
        return []
    # Only `In` names the values that a label may have. `Exists` and `NotIn` would need every label.
    pinning = next(filter(_is_pinning, selector.requirements), None)
    if pinning is None:
        return [(namespace,)]
    return [(namespace, pinning.key, value) for value in pinning.values]


def _is_pinning(requirement: LabelRequirement) -> bool:
    return requirement.operator is Operator.IN


def _discard(index: defaultdict[_Pin, set[_Item]], pin: _Pin, item: _Item) -> None:
    """Remove one entry, and the index entry that it leaves empty."""
    index[pin].discard(item)
    if not index[pin]:
        del index[pin]
