"""Workloads on which changes had no effect: the number in a row, the suspect, and the pause.

A workload is forgiven as soon as a change shows, or an operator edits its autoscaler. It is also
forgiven once a new pod has come through admission with the wanted size: the obstacle is gone. After
a change that showed and was undone, a new pod must have kept that size for longer than the last.

Pods that were refused in their size are another matter: admission tries that size again, ever more
rarely, and so does the updater. Each such eviction may cost a pod its size, so one is enough at a
time. It never ends, since policies change and outages pass. A smaller size is tried at once. The
pod that came small is the first to go again; once it is gone, any other pod may be the next.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.guards import convergence, standing_changes
from trimtab.core.guards.convergence import FIRST_DELAY, Expectation, Missed, Suspect
from trimtab.core.guards.standing_changes import StandingChange
from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Pod, PodPhase
from trimtab.core.model.resources import Resources
from trimtab.core.updates.snapshot import Retry

REFUSED_DELAY: Final = timedelta(minutes=10)
"""Time for which no pod is evicted for a size that was refused; each further miss doubles it."""
_ENDED: Final = {PodPhase.SUCCEEDED, PodPhase.FAILED}
_CLEARLY: Final = 0.9
"""An amount below this share of a refused one may be accepted."""


@dataclass(frozen=True, slots=True)
class FailedChange:
    """The changes of one workload that had no effect since one last had."""

    retry: Retry
    suspect: Suspect
    """Suspect of the last change."""
    expectation: Expectation
    """Expected effect of the last change."""
    known: frozenset[str]
    """The workload's pods at the time, by uid."""
    generation: int = 0
    """Generation of the autoscaler at the time."""
    refusals: int = 0
    """Number of changes without effect since pods of their size were refused."""
    recommendation: tuple[ContainerRecommendation, ...] = ()
    """Recommendation of the autoscaler at the time."""

    at: datetime | None = None
    """When it was known of the last change."""
    stood: timedelta | None = None
    """Longest time for which such a change showed before it was undone; None if none ever did."""
    left_small: Mapping[str, Resources] = field(default_factory=dict)
    """Requests by container of the last pod that came without what was wanted, where refused."""

    @property
    def changes(self) -> int:
        """Number of all changes without effect."""
        return self.retry.failures + self.refusals


def count_miss(
    before: FailedChange | None,
    missed: Missed,
    *,
    known: Iterable[str],
    generation: int,
    now: datetime,
    recommendation: Iterable[ContainerRecommendation] = (),
) -> FailedChange:
    """One miss more."""
    retry = Retry() if before is None else before.retry
    refusals = 0 if before is None else before.refusals
    if missed.suspect is Suspect.PODS_REFUSED and refusals and not retry.is_due(now):
        # The pod was evicted before the refusal of another one was known.
        pass
    elif missed.suspect is Suspect.PODS_REFUSED:
        # Such misses are not counted to an end.
        delayed = Retry(refusals).after_failure(now, REFUSED_DELAY)
        retry, refusals = Retry(retry.failures, delayed.not_before), delayed.failures
    else:
        retry = retry.after_failure(now, FIRST_DELAY)
    return FailedChange(
        retry,
        missed.suspect,
        missed.expectation,
        frozenset(known),
        generation,
        refusals,
        tuple(recommendation),
        now,
        _longer(None if before is None else before.stood, missed.stood),
        _find_small(missed),
    )


def is_forgiven(
    miss: FailedChange,
    pods: Iterable[Pod],
    generation: int | None,
    recommendation: Iterable[ContainerRecommendation] = (),
    *,
    now: datetime,
) -> bool:
    """Return True if the next try is due at once; a missing generation is no reason for it."""
    if generation is not None and generation != miss.generation:
        return True
    if miss.suspect is Suspect.PODS_REFUSED and _is_smaller(recommendation, miss.recommendation):
        return True
    return any(
        pod.uid not in miss.known
        and convergence.is_admitted(pod)
        and convergence.shows(miss.expectation, pod)
        and _is_proof(pod, miss, now)
        for pod in pods
    )


def _is_proof(pod: Pod, miss: FailedChange, now: datetime) -> bool:
    """Return True if the pod has kept its size for longer than one that lost it."""
    if miss.stood is None:
        return True
    return pod.created_at is not None and standing_changes.outlives(
        now - pod.created_at, miss.stood
    )


def is_news(missed: Missed, before: FailedChange | None) -> bool:
    """Return True if the change was made since the last miss: others were undone together."""
    return before is None or before.at is None or missed.expectation.since > before.at


def is_outlived(
    miss: FailedChange | None, standing: Iterable[StandingChange], at: datetime
) -> bool:
    """Return True if a later change has stood for longer than one that was undone."""
    if miss is None or miss.stood is None or miss.at is None:
        return False
    return any(
        each.since > miss.at and standing_changes.outlives(at - each.since, miss.stood)
        for each in standing
    )


def recall_small(miss: FailedChange, pods: Iterable[Pod]) -> FailedChange:
    """Return the miss without its small pod where no living pod of the workload is as small."""
    live = [pod for pod in pods if not pod.is_deleting and pod.phase not in _ENDED]
    if not miss.left_small or not all(has_more(pod, miss.left_small) for pod in live):
        return miss
    return replace(miss, left_small={})


def has_more(pod: Pod, left_small: Mapping[str, Resources]) -> bool:
    """Return True if a container has more than one that came without what was wanted."""
    return any(
        amount > left_small[container.name].get(kind, 0)
        for container in pod.containers
        if container.name in left_small
        for kind, amount in (container.current.requests or NO_AMOUNTS).items()
    )


def _find_small(missed: Missed) -> dict[str, Resources]:
    if missed.pod is None or missed.suspect is not Suspect.PODS_REFUSED:
        return {}
    return {each.name: each.current.requests or NO_AMOUNTS for each in missed.pod.containers}


def _longer(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    known = [each for each in (one, other) if each is not None]
    return max(known, default=None)


def _is_smaller(
    new: Iterable[ContainerRecommendation], old: Iterable[ContainerRecommendation]
) -> bool:
    """Return True if no amount is larger than before, and one of them is clearly smaller."""
    targets = {each.container_name: each.target for each in new}
    pairs = [
        (targets.get(each.container_name, NO_AMOUNTS).get(kind), amount)
        for each in old
        for kind, amount in each.target.items()
    ]
    return all(now is not None and now <= before for now, before in pairs) and any(
        now is not None and now < before * _CLEARLY for now, before in pairs
    )
