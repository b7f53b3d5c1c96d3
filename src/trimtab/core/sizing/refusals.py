"""New pods that are never created: when to give them less than an autoscaler wants.

An admission policy, another webhook or a quota may refuse a pod for the size that admission gave
it. Admission cannot read such rules, and the owner of the pod sends the same pod again and again.
The status of the owner shows that none of them exists. Then admission leaves out the boost first,
and after a minute the recommendation.

Pods without their boost start more slowly, and pods without their recommendation may be killed. So
one smaller pod is a trial. If it is created, the next pod gets more again, and only if that one is
refused, the smaller size stays for a while. If the trial is refused, too, the size of the pods is
not the cause, and they come in full size for ever longer times. An outage thus costs one pod.

Controllers create one pod, then two, four and so on, and end the round at the first refusal. Their
next attempt waits twice as long, from 5 ms to 1000 s. They write their status at the end of a
round. So a status is compared only after a pause without new pods, longer than the one before: a
large burst is no failure. Of kinds whose status names no failure, only attempts of one pod count.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from trimtab.core.model import json_patch, quantities
from trimtab.core.model.json_patch import Add, Patch
from trimtab.core.model.resources import BOTH

FIRST_PODS: Final = 3
"""Number of pods that must be missing before anything is left out."""
FIRST_SECONDS: Final = 2.0
"""Time between the first of these pods and the one that comes without its boost, at least."""
SIZE_SECONDS: Final = 60.0
"""The same for the one that comes without its recommendation."""
RARE_PODS: Final = 2
"""Number of pods that must be missing before the recommendation is, where an owner retries rarely.

Its pods are more than a minute apart, so the first of them says little of the second."""
PAUSE_SECONDS: Final = 0.5
"""Time without a new pod after which the status of the owner counts all pods before."""
LONG_PAUSE_SECONDS: Final = 60.0
"""Time without a new pod after which no burst is under way."""
_SINGLES: Final = 2
"""Number of attempts in a row that must consist of one pod, where a status names no failure."""
_GROWTH: Final = 1.5
"""Growth of the pauses of an owner that waits twice as long each time, with a margin."""
RETRY_SECONDS: Final = 600.0
"""Time for which a smaller size stays; each further one doubles it."""
_UNPROVEN_SECONDS: Final = 60.0
"""The same until a second pod of the smaller size is created."""
PATIENCE_SECONDS: Final = 300.0
"""Time for which the size of pods is not suspected after smaller ones were refused, too; each
further time makes it four times as long."""
_MAX_DOUBLINGS: Final = 4
_PATIENCE_GROWTH: Final = 4
_MAX_VAIN: Final = 3
KEPT_SECONDS: Final = 3600.0
"""Time after which an owner without further pods is forgotten; none waits as long to retry."""
_SPEC: Final = json_patch.pointer("spec")
_CLEARLY: Final = 0.9
"""An amount below this share of a refused one may be accepted."""

PodSize: TypeAlias = Mapping[str, int]
"""Amounts that a patch sets, by their paths."""


class Withheld(StrEnum):
    """Part of what an autoscaler wants for a new pod that the pod does not get."""

    NOTHING = "Nothing"
    BOOST = "Boost"
    """The startup boost."""
    SIZE = "Size"
    """The boost and the recommendation: the pod keeps its own resources."""


class Offer(msgspec.Struct, frozen=True, gc=False):
    """All that an autoscaler wants to give a new pod."""

    patch: Patch = ()
    is_boosted: bool = False
    is_sized: bool = False
    """True if the pod gets other amounts than its own, its boost aside."""

    @property
    def is_empty(self) -> bool:
        """True if the pod keeps its own amounts, so that no refusal is admission's making."""
        return not self.is_boosted and not self.is_sized

    def measure(self) -> PodSize:
        """Return the amounts that the patch sets."""
        return {
            each.path: quantities.parse_amount(kind, each.value)
            for each in self.patch
            for kind in BOTH
            if isinstance(each, Add)
            and isinstance(each.value, str)
            and each.path.startswith(_SPEC)
            and each.path.endswith(f"/{kind}")
        }


class OwnerStatus(msgspec.Struct, frozen=True, gc=False):
    """Number of pods of an owner, as its status shows it."""

    existing: int
    wanted: int | None = None
    """None for kinds that do not say."""
    is_failing: bool | None = None
    """True if the owner says that it cannot create pods; None for kinds that do not say."""


class Attempts(msgspec.Struct, frozen=True, gc=False):
    """The pods of one owner that came since its status last showed a new one."""

    existing: int
    withheld: Withheld = Withheld.NOTHING
    """Part that the latest pod did not get."""
    pods: int = 0
    """Number of pods that came like the latest and were not seen."""
    since: float = 0.0
    """Time of the first of them, in seconds on a clock that does not go back."""
    at: float = 0.0
    """Time of the latest."""
    pause: float = 0.0
    """Time between the latest and the pod before it."""
    burst: int = 0
    """Number of pods that came without a pause up to the latest."""
    singles: int = 0
    """Number of bursts of one pod in a row before this one."""
    least: Withheld = Withheld.NOTHING
    """Part whose absence is on trial, or stays for a while."""
    trials: int = 0
    """Number of pods on trial that the status may not have shown yet."""
    shown: int = 0
    """Number of new pods that the status has shown since the first of them."""
    larger: int = 0
    """Number of pods with more that came after them."""
    stays_until: float = 0.0
    """Time until which that part stays away; zero while it is on trial."""
    rounds: int = 0
    """Number of times that it was found to be refused."""
    helped: Withheld = Withheld.NOTHING
    """Part without which a pod was created last, as far as none was with it since."""
    vain: int = 0
    """Number of times that pods without it were refused, too."""
    patient_until: float = 0.0
    """Time before which the recommendation is not left out for that reason."""
    refused: PodSize = msgspec.field(default_factory=dict)
    """Full size that was given up last."""

    def is_outdated(self, now: float) -> bool:
        """Return True if nothing of it matters for a pod that comes now."""
        return now - self.at > KEPT_SECONDS and now >= max(self.stays_until, self.patient_until)

    @property
    def is_settled(self) -> bool:
        """True if the status has shown all pods since, and nothing is to be remembered."""
        nothing = Withheld.NOTHING
        return not self.pods and not self.vain and self.least is self.helped is nothing


def see_status(attempts: Attempts, status: OwnerStatus) -> Attempts:
    """Return the attempts after a look at the status of their owner."""
    grown = status.existing - attempts.existing
    if grown < 0:
        attempts = replace(attempts, existing=status.existing)
    elif grown:
        attempts = _see_new_pods(attempts, grown)
    is_whole = status.wanted is not None and status.wanted <= status.existing
    if is_whole and not status.is_failing:
        return _see_whole(attempts)
    return _see_larger(attempts) if status.is_failing is False else attempts


def _see_new_pods(attempts: Attempts, grown: int) -> Attempts:
    """Return the attempts after some pod was created: whatever was missing, it is no more."""
    # While all pods come alike, those that are not among the new ones are still missing.
    missing = max(attempts.pods - grown, 0) if attempts.stays_until else 0
    existing = attempts.existing + grown
    attempts = replace(attempts, existing=existing, pods=missing, burst=0, singles=0)
    if attempts.trials:
        if attempts.stays_until and not attempts.shown:
            stays = RETRY_SECONDS * 2 ** min(attempts.rounds - 1, _MAX_DOUBLINGS)
            attempts = replace(attempts, stays_until=attempts.at + stays)
        return replace(attempts, shown=attempts.shown + grown)
    if attempts.least is Withheld.NOTHING:
        return replace(attempts, rounds=0, helped=Withheld.NOTHING)
    return attempts


def _see_whole(attempts: Attempts) -> Attempts:
    """Return the attempts after their owner has got all of its pods."""
    if attempts.vain:
        attempts = replace(attempts, vain=0, patient_until=0.0)
    attempts = _see_larger(attempts)
    if not attempts.shown or attempts.stays_until:
        return attempts
    return replace(_end_trial(attempts), helped=attempts.least)


def _see_larger(attempts: Attempts) -> Attempts:
    """Return the attempts after a look for pods with more than those on trial."""
    if attempts.stays_until or attempts.shown <= attempts.trials:
        return attempts
    return replace(_end_trial(attempts), rounds=0, helped=Withheld.NOTHING)


def add_attempt(before: Attempts | None, status: OwnerStatus, offer: Offer, now: float) -> Attempts:
    """Return the attempts with one more pod, and the part that is withheld from it."""
    if before is not None:
        before = see_status(before, status)
    if before is None or before.is_settled or before.is_outdated(now):
        return Attempts(status.existing, pods=1, since=now, at=now, burst=1)
    if now - before.at >= PAUSE_SECONDS:
        before = replace(before, singles=before.singles + 1 if before.burst == 1 else 0, burst=0)
    chosen, withheld = _choose(before, status, offer, now)
    is_like = withheld is chosen.withheld and chosen.pods > 0
    is_trial = withheld is chosen.least is not Withheld.NOTHING
    return replace(
        chosen,
        withheld=withheld,
        pods=chosen.pods + 1 if is_like else 1,
        since=chosen.since if is_like else now,
        at=now,
        pause=now - chosen.at,
        burst=chosen.burst + 1,
        trials=chosen.trials + is_trial,
        larger=chosen.larger + (chosen.trials > 0 and not is_trial),
    )


_Chosen: TypeAlias = tuple[Attempts, Withheld]
"""The attempts up to a new pod, and the part that is to be withheld from it."""


def _choose(before: Attempts, status: OwnerStatus, offer: Offer, now: float) -> _Chosen:
    if before.least is Withheld.NOTHING:
        return _choose_from_all(before, status, offer, now)
    if _is_smaller(offer.measure(), before.refused):
        helped = before.least if before.shown else before.helped
        return replace(_end_trial(before), helped=helped), Withheld.NOTHING
    if not before.stays_until:
        return _choose_on_trial(before, status, offer, now)
    needed = _needed_for_size(before, now) if before.shown else (1, 0.0)
    if _are_refused(before, status, now, needed):
        return _give_up(before, offer, now)
    # An owner that still waits for pods retries rarely, and each refusal costs it minutes.
    is_waiting = status.is_failing and _lacks_pods(status) and before.shown > 0
    if now < before.stays_until or is_waiting:
        return before, before.least
    return replace(_end_trial(before), helped=before.least), Withheld.NOTHING


def _choose_from_all(before: Attempts, status: OwnerStatus, offer: Offer, now: float) -> _Chosen:
    """Return the choice for a pod of an owner from whose pods nothing is withheld."""
    if now - before.at < PAUSE_SECONDS:
        # Within a burst, the status says nothing about the pods before.
        return before, Withheld.NOTHING
    least = _first_withheld(before, offer)
    if least is before.helped or least is Withheld.BOOST:
        needed = _needed(before, now)
    elif now < before.patient_until:
        return before, Withheld.NOTHING
    else:
        needed = _needed_for_size(before, now)
    if least is Withheld.NOTHING or not _are_refused(before, status, now, needed):
        return before, Withheld.NOTHING
    return _begin_trial(before, least, offer), least


def _choose_on_trial(before: Attempts, status: OwnerStatus, offer: Offer, now: float) -> _Chosen:
    """Return the choice for a pod that comes after a first one without some part."""
    more = _withheld_before(before.least, offer)
    if before.shown:
        if not _is_larger_refused(before, status, now):
            return before, more
        stays_until = now + _UNPROVEN_SECONDS
        kept = replace(_begin_trial(before, before.least, offer), stays_until=stays_until)
        return replace(kept, rounds=before.rounds + 1), before.least
    if not _are_refused(before, status, now, (1, 0.0)):
        # Owners go on at once only after a pod that was created.
        return before, more
    is_over = before.least is Withheld.SIZE or (
        before.withheld is before.least
        and _are_refused(before, status, now, _needed_for_size(before, now))
    )
    return _give_up(before, offer, now) if is_over else (before, before.least)


def _give_up(before: Attempts, offer: Offer, now: float) -> _Chosen:
    """Return the choice after pods were refused without some part, too."""
    if before.least is Withheld.BOOST and offer.is_sized:
        if now < before.patient_until:
            return before, before.least
        return _begin_trial(before, Withheld.SIZE, offer), Withheld.SIZE
    ended = _end_trial(before)
    wait = PATIENCE_SECONDS * _PATIENCE_GROWTH ** min(before.vain, _MAX_VAIN)
    return (
        replace(
            ended,
            rounds=0,
            helped=Withheld.NOTHING,
            vain=before.vain + 1,
            patient_until=now + wait,
        ),
        Withheld.NOTHING,
    )


def _begin_trial(before: Attempts, least: Withheld, offer: Offer) -> Attempts:
    return replace(_end_trial(before), least=least, refused=offer.measure())


def _end_trial(before: Attempts) -> Attempts:
    return replace(
        before, least=Withheld.NOTHING, pods=0, trials=0, shown=0, larger=0, stays_until=0.0
    )


def _first_withheld(before: Attempts, offer: Offer) -> Withheld:
    """Return the part that is left out first, or that helped the last time."""
    if before.helped is Withheld.SIZE and offer.is_sized:
        return Withheld.SIZE
    if offer.is_boosted:
        return Withheld.BOOST
    return Withheld.SIZE if offer.is_sized else Withheld.NOTHING


def _withheld_before(withheld: Withheld, offer: Offer) -> Withheld:
    """Return the part that is left out before that one."""
    is_last = withheld is Withheld.SIZE and offer.is_boosted
    return Withheld.BOOST if is_last else Withheld.NOTHING


def _is_larger_refused(attempts: Attempts, status: OwnerStatus, now: float) -> bool:
    """Return True if a pod with more was refused after one with less was created."""
    if not attempts.larger or not _lacks_pods(status):
        return False
    if status.is_failing and attempts.shown <= attempts.trials:
        # The owner wrote so after the pods that it has shown, and the larger ones are not there.
        return True
    is_larger = attempts.withheld is not attempts.least
    return is_larger and _are_refused(attempts, status, now, (1, 0.0))


def _lacks_pods(status: OwnerStatus) -> bool:
    return status.wanted is None or status.wanted > status.existing


def _are_refused(
    attempts: Attempts, status: OwnerStatus, now: float, needed: tuple[int, float]
) -> bool:
    """Return True if the pods that came like the latest were kept from being created.

    `needed` is the minimum number of such pods, and of seconds over which they came.
    """
    pause = now - attempts.at
    least, seconds = needed
    if not attempts.pods or pause < PAUSE_SECONDS or not _lacks_pods(status):
        return False
    if attempts.pods < least or now - attempts.since < seconds:
        return False
    if pause < min(_GROWTH * attempts.pause, LONG_PAUSE_SECONDS):
        return False
    if status.is_failing is not None:
        return status.is_failing
    return attempts.singles >= min(least, _SINGLES) or _is_long(attempts, pause)


def _is_long(attempts: Attempts, pause: float) -> bool:
    """Return True after a trial if the pause is too long for a burst."""
    return attempts.trials > 0 and pause >= LONG_PAUSE_SECONDS


def _needed(attempts: Attempts, now: float) -> tuple[int, float]:
    """Return how many pods have to be missing, and for how many seconds."""
    # Where less has helped before, one pod shows that nothing has changed.
    if attempts.helped is not Withheld.NOTHING or now - attempts.at >= LONG_PAUSE_SECONDS:
        return 1, 0.0
    return FIRST_PODS, FIRST_SECONDS


def _needed_for_size(attempts: Attempts, now: float) -> tuple[int, float]:
    """Return the same for pods that are to do without their recommendation."""
    is_rare = now - attempts.at >= LONG_PAUSE_SECONDS
    return RARE_PODS if is_rare else FIRST_PODS, SIZE_SECONDS


def _is_smaller(new: PodSize, refused: PodSize) -> bool:
    """Return True if no amount is larger than a refused one, and one of them is clearly smaller."""
    return all(amount <= refused.get(path, -1) for path, amount in new.items()) and any(
        new.get(path, 0) < amount * _CLEARLY for path, amount in refused.items()
    )
