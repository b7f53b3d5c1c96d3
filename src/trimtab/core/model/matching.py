"""Matching: the autoscaler that governs a pod.

An autoscaler takes part when its target is the pod's topmost workload and both selectors, the
target's own and the autoscaler's, match the pod's current labels. Of several the strongest governs:
the oldest, then the one whose name sorts first. Callers that can see owners do the walk from a pod
to its topmost workload.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

import msgspec

from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, UpdateMode
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.selectors import Selector

# An object without a creation time was never stored; the original counts it as the oldest.
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class ObservedAutoscaler(msgspec.Struct, frozen=True, gc=False):
    """An autoscaler together with the selector of its target."""

    autoscaler: Autoscaler
    target_selector: Selector | None
    """The selector of the target itself; None if it is not known, and then no pod matches."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if a pod of the target with these labels is one of the autoscaler's pods."""
        own = self.autoscaler.selector
        return (
            self.target_selector is not None
            and self.target_selector.matches(labels)
            and (own is None or own.matches(labels))
        )


AutoscalerIndex: TypeAlias = Mapping[WorkloadName, Sequence[ObservedAutoscaler]]
"""The autoscalers of each workload, the strongest first."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two autoscalers that match the same pod: only the stronger one acts on it."""

    stronger: AutoscalerName
    weaker: AutoscalerName


def rank(
    autoscalers: Iterable[ObservedAutoscaler], *, selectors_enabled: bool = True
) -> list[ObservedAutoscaler]:
    """Return the autoscalers that can match a pod, the strongest first.

    Where selectors are disabled an autoscaler with a selector matches nothing. Ignoring its
    selector would give it pods that its author excluded.
    """
    found = [
        observed
        for observed in autoscalers
        if observed.autoscaler.target is not None
        and (selectors_enabled or not observed.autoscaler.selector)
    ]
    # Most workloads have one.
    return sorted(found, key=_strength) if len(found) > 1 else found


def index_by_workload(
    autoscalers: Iterable[ObservedAutoscaler], *, selectors_enabled: bool = True
) -> AutoscalerIndex:
    """Index the autoscalers by the workload they are for, so that a pod costs one lookup."""
    index: defaultdict[WorkloadName, list[ObservedAutoscaler]] = defaultdict(list)
    for observed in rank(autoscalers, selectors_enabled=selectors_enabled):
        target = observed.autoscaler.target
        # Without one it has no rank.
        assert target is not None
        name = WorkloadName(observed.autoscaler.namespace, target.kind, target.name)
        index[name].append(observed)
    return dict(index)


def match_autoscalers(
    index: AutoscalerIndex, workload: WorkloadName | None, labels: Mapping[str, str]
) -> list[ObservedAutoscaler]:
    """Return all autoscalers that match a pod of the workload, the strongest first."""
    found = None if workload is None else index.get(workload)
    return [observed for observed in found if observed.matches(labels)] if found else []


def governing(
    matching: Sequence[ObservedAutoscaler], acts: Callable[[Autoscaler], bool]
) -> ObservedAutoscaler | None:
    """Return the strongest autoscaler that acts; if none acts, the strongest of all."""
    # A stronger autoscaler that is off leaves the pod to the next one that acts.
    for observed in matching:
        if acts(observed.autoscaler):
            return observed
    return matching[0] if matching else None


def governor_of(
    index: AutoscalerIndex, workload: WorkloadName | None, labels: Mapping[str, str]
) -> Autoscaler | None:
    """Return the autoscaler that governs a running pod of the workload; None if none does."""
    return governor_among(() if workload is None else index.get(workload, ()), labels)


def governor_among(
    rivals: Iterable[ObservedAutoscaler], labels: Mapping[str, str]
) -> Autoscaler | None:
    """Return the one of a workload's autoscalers that governs a pod with these labels."""
    matching = [observed for observed in rivals if observed.matches(labels)]
    found = governing(matching, acts_on_running_pods)
    return None if found is None else found.autoscaler


def acts_on_running_pods(autoscaler: Autoscaler) -> bool:
    """Return True if the autoscaler may change running pods: in any mode it takes a boost back."""
    return autoscaler.mode not in (UpdateMode.OFF, UpdateMode.INITIAL) or autoscaler.boosts


def acts_on_new_pods(autoscaler: Autoscaler) -> bool:
    """Return True if the autoscaler may change pods while they are created."""
    return autoscaler.mode is not UpdateMode.OFF or autoscaler.boosts


def find_conflicts(
    matches: Iterable[Sequence[ObservedAutoscaler]], acts: Callable[[Autoscaler], bool]
) -> list[Conflict]:
    """Return, sorted, each pair of autoscalers that match one pod; `matches` goes by pod."""
    found = {
        Conflict(governor.autoscaler.identity, other.autoscaler.identity)
        for matching in matches
        if (governor := governing(matching, acts)) is not None
        for other in matching
        if other is not governor
    }
    return sorted(found, key=lambda conflict: (conflict.stronger, conflict.weaker))


def _strength(observed: ObservedAutoscaler) -> tuple[datetime, str, str]:
    autoscaler = observed.autoscaler
    # Ascending: the oldest is the strongest, and the name breaks ties.
    return autoscaler.created_at or _BEGINNING, autoscaler.name, autoscaler.namespace
