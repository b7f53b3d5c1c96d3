"""Held targets of autoscalers: the rows of their containers, and what is published of them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.model import estimation
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.model.selectors import Selector
from trimtab.core.recommendation.cost import saving, starting
from trimtab.core.recommendation.cost.held import HeldTargets
from trimtab.core.recommendation.cost.signals import AppliedSignal
from trimtab.core.recommendation.groups import NOT_HELD, AutoscalerGroups, GroupColumns
from trimtab.core.usage.checkpoints import CheckpointKey
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.saved_targets import SavedTargets
from trimtab.core.usage.selector_index import AutoscalerAggregates

Published: TypeAlias = Mapping[str, Mapping[Resource, int]]
"""Targets by container name."""
_NO_ROWS: Final = np.zeros(0, np.int64)
_FEW_NAMES: Final = 1000


@dataclass(slots=True)
class _Holder:
    """An autoscaler that has held targets."""

    selector: Selector | None
    """Selects the pods that they follow from; None while that is not known."""
    rows: dict[str, int] = field(default_factory=dict)
    """The row of each container."""
    saved: dict[str, SavedTargets] = field(default_factory=dict)
    """The saved state of containers without a row."""


@dataclass(frozen=True, slots=True)
class LastSignal:
    """A signal of pressure that raised the present target of a container."""

    container: str
    resource: Resource
    signal: AppliedSignal
    pod: str
    until: float
    """Time before which the target does not fall, in seconds."""


class HeldPublications:
    """The held targets of all autoscalers that use the cost-based estimator, or did before."""

    def __init__(self, usage: Usage, settings: RecommendationSettings) -> None:
        self._usage = usage
        self._settings = settings
        self.targets = HeldTargets(settings.cost)
        self._holders: dict[AutoscalerName, _Holder] = {}
        self._in_status: dict[AutoscalerName, Published] = {}
        self._new: dict[int, Ints] = {}
        """New rows that know nothing yet, with the aggregates that they learn from."""
        self._returning: dict[int, tuple[SavedTargets, Ints]] = {}
        """New rows that have a saved state, with the aggregates that they learn from."""
        self._started: dict[AutoscalerName, Published] = {}
        self._most_names = _FEW_NAMES
        """Number of names of pods beyond which unused ones are looked for."""
        if settings.estimator is Estimator.COST:
            usage.keep_log()

    # Starts

    def offer_saved(self, key: CheckpointKey, saved: SavedTargets) -> None:
        """Keep the saved state of a container until it uses the cost-based estimator."""
        name, container = key
        self._holders.setdefault(name, _Holder(None)).saved[container] = saved

    def offer_status(self, autoscaler: Autoscaler) -> None:
        """Keep the targets in the status of an autoscaler that is new to this process."""
        if not self._holds(autoscaler):
            return
        # Its first samples and OOM kills come before its first estimate.
        self._usage.keep_log()
        if autoscaler.recommendation:
            self._in_status[autoscaler.identity] = {
                one.container_name: one.target for one in autoscaler.recommendation
            }

    def _holds(self, autoscaler: Autoscaler) -> bool:
        default = self._settings.estimator
        chosen = estimation.chosen_estimator(autoscaler.annotations, default)
        return chosen is Estimator.COST

    def assign(
        self, learner: AutoscalerAggregates, block: AutoscalerGroups, published: Published
    ) -> None:
        """Write the rows of an autoscaler's containers into its block, new ones where needed."""
        name, is_held = learner.name, self._holds(learner.autoscaler)
        if not is_held and name not in self._holders:
            return
        holder = self._find_holder(learner)
        if not (is_held or holder.rows):
            return
        self._usage.keep_log()
        for container in holder.rows.keys() - learner.container_names:
            self._drop(name, holder, container)
        sizes = block.groups["size"]
        members = np.split(block.aggregates, np.cumsum(sizes)[:-1]) if len(sizes) else []
        is_new = False
        for container, rows in zip(block.container_names, members, strict=True):
            if is_held and container not in holder.rows:
                is_new = True
                saved = holder.saved.pop(container, None)
                holder.rows[container] = self._start((name, container), rows, saved)
        block.groups["held_row"] = [
            holder.rows.get(container, NOT_HELD) for container in block.container_names
        ]
        block.groups["is_held"] = is_held
        self._set_prices(learner, holder)
        if is_new:
            self._started[name] = published or self._in_status.pop(name, {})

    def find_rows(self, learner: AutoscalerAggregates, block: AutoscalerGroups) -> None:
        """Write the rows that containers have into a block that was made for an explanation."""
        holder = self._holders.get(learner.name)
        if holder is not None and self._holds(learner.autoscaler):
            rows = [holder.rows.get(each, NOT_HELD) for each in block.container_names]
            block.groups["held_row"] = rows
            block.groups["is_held"] = block.groups["held_row"] != NOT_HELD

    def _find_holder(self, learner: AutoscalerAggregates) -> _Holder:
        known = self._holders.get(learner.name)
        selector = learner.last_selector
        if known is not None and known.selector not in (None, selector):
            # It is about other pods now: nothing that was held says anything about them.
            self.forget([learner.name])
            known = None
        if known is None:
            known = self._holders[learner.name] = _Holder(selector)
        known.selector = selector
        return known

    def _start(self, key: CheckpointKey, aggregates: Ints, saved: SavedTargets | None) -> int:
        row = self.targets.add(key)
        if saved is None:
            self._new[row] = aggregates
        else:
            self._returning[row] = (saved, aggregates)
        return row

    def _restore(self) -> None:
        """Restore the rows that have a saved state, all at once."""
        returning, self._returning = self._returning, {}
        saved = {row: state for row, (state, _) in returning.items()}
        starting.restore_each(self.targets, saved, self._usage.pod_names)
        last = self._usage.aggregates.floats("last")
        longest = self._settings.cost.longest_gap.total_seconds()
        # Another estimator, or the original, went on learning without these targets.
        behind = {
            row: rows
            for row, (state, rows) in returning.items()
            if float(last[rows].max(initial=-np.inf)) > state.now + longest
        }
        starting.seed_each(self.targets, behind, self._usage.aggregates)

    def _set_prices(self, learner: AutoscalerAggregates, holder: _Holder) -> None:
        default = self._settings.cost.oom_price_gib_hours
        price = estimation.oom_price(learner.autoscaler.annotations, default)
        for row in holder.rows.values():
            self.targets.set_price(row, price)

    def _drop(self, name: AutoscalerName, holder: _Holder, container: str) -> None:
        row = holder.rows.pop(container)
        self._new.pop(row, None)
        self._returning.pop(row, None)
        self.targets.remove((name, container))

    def forget(self, names: Iterable[AutoscalerName]) -> None:
        """Forget the held targets of some autoscalers."""
        for name in names:
            self._in_status.pop(name, None)
            holder = self._holders.pop(name, None)
            for container in list(holder.rows) if holder is not None else ():
                assert holder is not None
                self._drop(name, holder, container)

    def seed_again(self, names: Iterable[AutoscalerName]) -> None:
        """Add what histograms hold to rows whose history was read from elsewhere."""
        chosen: dict[int, Ints] = {}
        for name in names:
            for container, row in self._holder_rows(name):
                rows = np.array(self._usage.links.learners[name].rows(container), np.int64)
                if row not in self._new and len(rows):
                    chosen[row] = rows
        starting.seed_each(self.targets, chosen, self._usage.aggregates)

    def _holder_rows(self, name: AutoscalerName) -> list[tuple[str, int]]:
        holder = self._holders.get(name)
        return [] if holder is None else list(holder.rows.items())

    # Ticks

    def relink(self, layout: GroupColumns) -> None:
        """Make rows learn from the aggregates of their groups."""
        if not self._holders:
            return
        self._restore()
        rows = np.repeat(layout.groups["held_row"], layout.sizes)
        chosen = rows != NOT_HELD
        self.targets.link(layout.aggregates[chosen], rows[chosen])

    def take_in(self) -> None:
        """Take in the samples since the last tick, and decide about all targets."""
        if not self._usage.log.is_kept:
            return
        logged = self._usage.log.drain()
        skipped = self._seed_new(self.targets.count_samples(logged.cpu)) if self._new else []
        self.targets.take_in(logged, np.array(skipped, np.int64))
        self._forget_pod_names()

    def _forget_pod_names(self) -> None:
        """Forget the names of pods that are gone and that no level names, once they are many."""
        names = self._usage.pod_names
        if len(names) > self._most_names:
            names.keep(self.targets.used_pods().union(self._usage.containers.pods.tolist()))
            self._most_names = max(_FEW_NAMES, 2 * len(names))

    def _seed_new(self, logged_counts: Ints) -> list[int]:
        """Seed new rows whose aggregates hold more than what was logged; return those rows."""
        counts = self._usage.aggregates.ints("count")
        new, self._new = self._new, {}
        seeded = [row for row, rows in new.items() if counts[rows].sum() > logged_counts[row]]
        sources = {row: new[row] for row in seeded}
        starting.seed_each(self.targets, sources, self._usage.aggregates)
        return seeded

    def last_signals(self, name: AutoscalerName) -> Iterator[LastSignal]:
        """Yield the signals that raised the present targets of an autoscaler."""
        settings, holder = self._settings.cost, self._holders.get(name)
        shortest = {Resource.CPU: settings.lower_gap, Resource.MEMORY: settings.least_age}
        for container, row in sorted(holder.rows.items()) if holder is not None else ():
            for column, resource in enumerate(BOTH):
                signal = self.targets.signals.last(row, column)
                if signal is not None:
                    pod = self._usage.pod_names.name(signal.pod)
                    until = signal.seconds + shortest[resource].total_seconds()
                    yield LastSignal(container, resource, signal, pod, until)

    def drain_signals(self) -> Iterator[tuple[CheckpointKey, int, AppliedSignal]]:
        """Yield the signals that raised targets since the last call, with the place in `BOTH`."""
        new = self.targets.signals.drain()
        if new:
            keys = list(self.targets.keys())
            by_row = dict(zip(map(self.targets.find, keys), keys, strict=True))
            for row, column, signal in new:
                if row in by_row:
                    yield by_row[row], column, signal

    def drain_started(self) -> dict[AutoscalerName, Published]:
        """Return autoscalers with new rows, and the targets that were published before."""
        started, self._started = self._started, {}
        return {name: published for name, published in started.items() if published}

    def raise_to(self, block: AutoscalerGroups, reached: Ints, published: Published) -> bool:
        """Raise targets to published ones; True if any is raised.

        `reached` has the targets as they would be published: int64[groups, resources].
        """
        is_raised = False
        pairs = zip(block.container_names, block.groups["held_row"].tolist(), strict=True)
        for place, (container, row) in enumerate(pairs):
            for column, resource in enumerate(BOTH):
                amount = published.get(container, {}).get(resource, 0)
                if row != NOT_HELD and amount > max(int(reached[place, column]), 0):
                    self.targets.record(row)["held"][column] = amount
                    is_raised = True
        return is_raised

    def numbers(self, layout: GroupColumns) -> Floats | None:
        """Return targets and bounds, float64[groups, resources, 3]; None if none is held."""
        is_held = layout.groups["is_held"]
        if not is_held.any():
            return None
        numbers = np.full((len(layout), len(BOTH), 3), np.nan)
        numbers[is_held] = self.targets.targets_and_bounds(layout.groups["held_row"][is_held])
        return numbers

    def save_each(self, keys: Iterable[CheckpointKey]) -> dict[CheckpointKey, SavedTargets]:
        """Return the state of the containers that have one, for their checkpoints."""
        saved: dict[CheckpointKey, SavedTargets] = {}
        rows: dict[CheckpointKey, int] = {}
        now = self.targets.column("now")
        for name, container in keys:
            holder = self._holders.get(name)
            row = None if holder is None else holder.rows.get(container)
            if row is not None and math.isfinite(now[row]):
                rows[name, container] = row
            elif row is None and holder is not None and container in holder.saved:
                saved[name, container] = holder.saved[container]
        if rows:
            states = saving.save_each(self.targets, list(rows.values()), self._usage.pod_names)
            saved |= zip(rows, states, strict=True)
        return saved
