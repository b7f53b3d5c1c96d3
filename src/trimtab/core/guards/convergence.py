"""Check that changes have their effect on pods, and name a suspect where they do not.

Each change says what its pod, or the successor of an evicted one, should request. A successor is
a pod of the same workload that was not there at the time. It only has to come nearer to the wanted
size, since recommendations move on meanwhile. The CPU of a boosted successor is not compared until
its boost has ended. Changes without effect are repeated ever later, and after a few not at all
(F16).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from trimtab.core.changes.outcomes import Evict, Resize
from trimtab.core.model import cap_notes
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    OBSERVED_CONTAINERS,
    PUT_OFF,
    UPDATES,
    Container,
    Pod,
    TargetResources,
    WorkloadName,
)
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing import startup_boost

SUCCESSOR_WITHIN: Final = timedelta(minutes=10)
"""Maximum time in which an owner creates a successor."""
RESIZE_STANDS_AFTER: Final = timedelta(minutes=1)
"""Time after which a resize that still stands is not expected to be undone."""
SHOWS_WITHIN: Final = timedelta(minutes=5)
"""Time after which an unanswered request that does not show was never carried out."""
FIRST_DELAY: Final = timedelta(minutes=2)
"""Pause for a workload after the first miss; each further miss doubles it."""


class Suspect(StrEnum):
    """Probable cause of a change that was undone, or never made."""

    ADMISSION = "AdmissionMissed"
    """The successor never went through an admission controller of ours."""
    OTHER_AUTOSCALER = "OtherAutoscaler"
    """Another autoscaler gave the successor its size."""
    LIMIT_RANGE = "LimitRange"
    """The successor has what a limit range says."""
    QUOTA_REFUSED = "QuotaRefused"
    """Admission left the successor as it came, since a ResourceQuota would have refused it."""
    LIMIT_RANGE_REFUSED = "LimitRangeRefused"
    """Admission left the successor as it came, since a LimitRange would have refused it."""
    PODS_REFUSED = "PodsRefused"
    """Admission left the successor as it came, since pods of its recommended size never came."""
    OTHER_MANAGER = "OtherManager"
    """Another webhook or controller changed the pod after our admission controller or updater."""
    NO_SUCCESSOR = "NoSuccessor"
    """The owner could not create a pod: a quota is full, or a webhook or policy refuses it."""


_OF_NOTES: Final = {
    NoteKind.QUOTA_REFUSES: Suspect.QUOTA_REFUSED,
    NoteKind.LIMIT_RANGE_REFUSES: Suspect.LIMIT_RANGE_REFUSED,
    NoteKind.PODS_REFUSED: Suspect.PODS_REFUSED,
}
"""Notes with which admission says that it gave a pod nothing."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected effect of one change."""

    workload: WorkloadName
    autoscaler: AutoscalerName
    pod_uid: str
    before: Mapping[str, Resources]
    """The requests by container as they were, of all that should change."""
    wanted: Mapping[str, Resources]
    """The requests by container as they should be."""
    since: datetime
    known: frozenset[str] | None
    """The workload's pods at the time of an eviction, by uid; None for a resize."""
    is_answered: bool = True
    """True if the API server has confirmed the change."""

    @property
    def is_eviction(self) -> bool:
        """True if a successor, not the pod itself, should show the change."""
        return self.known is not None


@dataclass(frozen=True, slots=True)
class Fulfilled:
    """The change shows."""

    expectation: Expectation
    pod: Pod


@dataclass(frozen=True, slots=True)
class Missed:
    """The change does not show."""

    expectation: Expectation
    suspect: Suspect
    pod: Pod | None = None
    """The pod that shows it; None if there is none."""
    stood: timedelta | None = None
    """Time for which the change showed before it was undone; None if it never showed."""


@dataclass(frozen=True, slots=True)
class NeverMade:
    """No answer ever came, and the pod is as it was: the request got lost."""

    expectation: Expectation
    pod: Pod


@dataclass(frozen=True, slots=True)
class Void:
    """The effect of the change cannot be determined any more."""

    expectation: Expectation


Verdict: TypeAlias = Fulfilled | Missed | NeverMade | Void


def expect(
    act: Evict | Resize, workload: WorkloadName, known: Iterable[str], now: datetime
) -> Expectation | None:
    """Return the expected effect of the act; None if it changes no request."""
    changes = list(_changes(act))
    if not changes:
        return None
    return Expectation(
        workload,
        act.autoscaler,
        act.pod.uid,
        before={name: before for name, before, _ in changes},
        wanted={name: wanted for name, _, wanted in changes},
        since=now,
        known=frozenset(known) if isinstance(act, Evict) else None,
    )


def review(
    expectations: Sequence[Expectation],
    pods: Sequence[Pod],
    limit_ranges: Sequence[LimitRangeItem],
    *,
    lacks_pods: bool,
    now: datetime,
) -> list[Verdict]:
    """Return the verdicts that can be given now on expectations of one workload, oldest first.

    Each successor is matched to one eviction. After a while, an eviction
    without one has missed if its owner `lacks_pods`. It is void if the owner wants no more pods.
    """
    by_uid = {pod.uid: pod for pod in pods}
    unspoken = dict(by_uid)
    verdicts: list[Verdict] = []
    # Oldest first: the first successor belongs to the first eviction.
    for each in sorted(expectations, key=lambda one: one.since):
        if each.known is None:
            verdict = _check_resize(each, by_uid.get(each.pod_uid), now)
        else:
            # Any pod that is new since this eviction; owners do not say which pod replaces which.
            found = next((pod for uid, pod in unspoken.items() if uid not in each.known), None)
            verdict = _check_eviction(each, found, limit_ranges, lacks_pods=lacks_pods, now=now)
            # No answer ever came, and the pod runs on: there was no eviction to wait for.
            if verdict is None and _still_stands(each, by_uid.get(each.pod_uid), now):
                verdict = Void(each)
            if found is not None:
                del unspoken[found.uid]
        if verdict is not None:
            verdicts.append(verdict)
    return verdicts


def shows(expectation: Expectation, pod: Pod) -> bool | None:
    """Return True if the pod came nearer to the wanted size; None if it cannot be compared."""
    compared = [nearer for *_, nearer in _compare(expectation, pod)]
    return all(compared) if compared else None


def is_admitted(pod: Pod) -> bool:
    """Return True if an admission controller has seen the pod."""
    return OBSERVED_CONTAINERS in pod.annotations


def _changes(act: Evict | Resize) -> Iterator[tuple[str, Resources, Resources]]:
    wanted: TargetResources = act.wanted
    for container in act.pod.containers:
        requests = _requests(container, of_successor=isinstance(act, Evict))
        asked = (wanted[container.name].requests or NO_AMOUNTS) if container.name in wanted else {}
        changed = {kind: amount for kind, amount in asked.items() if requests.get(kind) != amount}
        if changed:
            before = {kind: requests[kind] for kind in changed if kind in requests}
            yield container.name, before, changed


def _check_resize(expectation: Expectation, pod: Pod | None, now: datetime) -> Verdict | None:
    if pod is None:
        return Void(expectation)
    if now - expectation.since < RESIZE_STANDS_AFTER:
        return None
    match shows(expectation, pod):
        case None:
            return Void(expectation)
        case True:
            # The spec shows what was asked for; the pod has it only if the kubelet agrees.
            return None if pod.resize in PUT_OFF else Fulfilled(expectation, pod)
        case False if expectation.is_answered:
            return Missed(expectation, Suspect.OTHER_MANAGER, pod)
        case False:
            # There is no suspect: the resize may never have been made.
            is_late = now - expectation.since >= SHOWS_WITHIN
            return NeverMade(expectation, pod) if is_late else None


def _check_eviction(
    expectation: Expectation,
    successor: Pod | None,
    limit_ranges: Sequence[LimitRangeItem],
    *,
    lacks_pods: bool,
    now: datetime,
) -> Verdict | None:
    if successor is None:
        if now - expectation.since < SUCCESSOR_WITHIN:
            return None
        return Missed(expectation, Suspect.NO_SUCCESSOR) if lacks_pods else Void(expectation)
    match shows(expectation, successor):
        case None:
            # A boosted successor shows its CPU when its boost has ended.
            is_early = now - expectation.since < SUCCESSOR_WITHIN
            return (
                None
                if is_early and startup_boost.boosted_containers(successor)
                else Void(expectation)
            )
        case True:
            return Fulfilled(expectation, successor)
        case False:
            return Missed(expectation, _suspect(expectation, successor, limit_ranges), successor)


def _still_stands(expectation: Expectation, pod: Pod | None, now: datetime) -> bool:
    """Return True if an eviction that got no answer was never made."""
    is_late = not expectation.is_answered and now - expectation.since >= SHOWS_WITHIN
    return is_late and pod is not None and not pod.is_deleting


def _suspect(
    expectation: Expectation, successor: Pod, limit_ranges: Sequence[LimitRangeItem]
) -> Suspect:
    # In the order of certainty: what annotations of the pod prove comes before a guess.
    if not is_admitted(successor):
        return Suspect.ADMISSION
    updates = successor.annotations.get(UPDATES, "")
    if updates and not cap_notes.names_autoscaler(updates, expectation.autoscaler.name):
        return Suspect.OTHER_AUTOSCALER
    off = [(kind, has) for kind, has, is_near in _compare(expectation, successor) if not is_near]
    for note, suspect in _OF_NOTES.items():
        if any(cap_notes.has_note(successor.annotations, Note(kind, note)) for kind, _ in off):
            return suspect
    # The amount is exactly what a LimitRange says: no other manager would hit it by chance.
    bounds = {
        (kind, amount)
        for item in limit_ranges
        for bound in (item.min, item.max, item.default)
        for kind, amount in (bound or NO_AMOUNTS).items()
    }
    return Suspect.LIMIT_RANGE if bounds.intersection(off) else Suspect.OTHER_MANAGER


def _compare(expectation: Expectation, pod: Pod) -> Iterator[tuple[Resource, int | None, bool]]:
    """Yield each resource that should change, its present amount, and True if that is nearer."""
    for container in pod.containers:
        boosted = startup_boost.annotation_name(container.name) in pod.annotations
        requests = _requests(container, of_successor=expectation.is_eviction)
        before = expectation.before.get(container.name, NO_AMOUNTS)
        for kind, wanted in expectation.wanted.get(container.name, NO_AMOUNTS).items():
            if boosted and kind is Resource.CPU:
                continue
            has = requests.get(kind)
            yield kind, has, _is_nearer(has, before.get(kind), wanted)


def _requests(container: Container, *, of_successor: bool) -> Resources:
    """Return the current requests of a successor's container, or the spec's after a resize.

    A resize that the kubelet refused leaves the spec as if it had been made.
    """
    return (container.current if of_successor else container.spec).requests or NO_AMOUNTS


def _is_nearer(has: int | None, before: int | None, wanted: int) -> bool:
    if has is None or before is None:
        return has is not None
    return abs(has - wanted) < abs(before - wanted)
