"""New pods that never come into being: when to give them less than an autoscaler wants.

An admission policy, another webhook or a quota may refuse a pod for the size that admission gave
it. Admission cannot read such rules, and the owner of the pod sends the same pod again and again.
The status of the owner shows that none of them exists. Then admission leaves out the boost first,
and next the recommendation. Where pods are refused as they came, too, their size is not the cause.

Controllers create one pod, then two, four and so on, and end the round at the first refusal. Their
next attempt waits twice as long, from 5 ms to 1000 s. They write their status at the end of a
round. So a status is compared only after a pause without new pods, longer than the one before: a
large burst is no failure. Of kinds whose status names no failure, only attempts of one pod count.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from trimtab.core.operations import Add, Patch, pointer
from trimtab.core.quantities import parse_amount
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH

FIRST_PODS: Final = 3
"""Number of pods of full size that must be missing before anything is left out."""
FIRST_SECONDS: Final = 2.0
"""Time between the first of these pods and the next one at least."""
MORE_PODS: Final = 2
"""Number of smaller pods that must be missing before more is left out."""
PAUSE_SECONDS: Final = 0.5
"""Time without a new pod after which the status of the owner counts all pods before."""
LONG_PAUSE_SECONDS: Final = 60.0
"""Time without a new pod after which one missing pod is enough: owners that wait retry rarely."""
_SINGLES: Final = 2
"""Number of attempts in a row that must consist of one pod, where a status names no failure."""
_GROWTH: Final = 1.5
"""Growth of the pauses of an owner that waits twice as long each time, with a margin."""
RETRY_SECONDS: Final = 600.0
"""Time after which the full size is tried again; each failure doubles it."""
_MAX_DOUBLINGS: Final = 4
KEPT_SECONDS: Final = 3600.0
"""Time after which an owner without further pods is forgotten; none waits as long to retry."""
_SPEC: Final = pointer("spec")
_CLEARLY: Final = 0.9
"""An amount below this share of a refused one may be accepted."""

PodSize: TypeAlias = Mapping[str, int]
"""Amounts that a patch sets, by their paths."""


class Withheld(StrEnum):
    """Part of an autoscaler's wishes that a new pod does not get."""

    NOTHING = "Nothing"
    BOOST = "Boost"
    """The startup boost."""
    SIZE = "Size"
    """The boost and the recommendation: the pod keeps its own resources."""


@dataclass(frozen=True, slots=True)
class Offer:
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
            each.path: parse_amount(kind, each.value)
            for each in self.patch
            for kind in BOTH
            if isinstance(each, Add)
            and isinstance(each.value, str)
            and each.path.startswith(_SPEC)
            and each.path.endswith(f"/{kind}")
        }


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """Number of pods of an owner, as its status shows it."""

    existing: int
    wanted: int | None = None
    """None for kinds that do not say."""
    is_failing: bool | None = None
    """True if the owner says that it cannot create pods; None for kinds that do not say."""


@dataclass(frozen=True, slots=True)
class Attempts:
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
    rounds: int = 0
    """Number of times that the full size was given up."""
    retry_at: float = 0.0
    """Time from which the full size is tried, or judged, again."""
    refused: PodSize = field(default_factory=dict)
    """Full size that was given up last."""

    def is_outdated(self, now: float) -> bool:
        """Return True if nothing of it matters for a pod that comes now."""
        return now - self.at > KEPT_SECONDS and now >= self.retry_at

    @property
    def is_settled(self) -> bool:
        """True if the status has shown a pod since, and nothing is withheld."""
        return not self.pods and self.withheld is Withheld.NOTHING


def see_status(attempts: Attempts, existing: int) -> Attempts:
    """Return the attempts after a look at the number of pods: one more makes all well."""
    if existing == attempts.existing:
        return attempts
    if existing < attempts.existing:
        return replace(attempts, existing=existing)
    return replace(attempts, existing=existing, pods=0, burst=0, singles=0)


def add_attempt(before: Attempts | None, status: OwnerStatus, offer: Offer, now: float) -> Attempts:
    """Return the attempts with one more pod, and the part that is withheld from it."""
    if before is not None:
        before = see_status(before, status.existing)
    if before is None or before.is_settled or before.is_outdated(now):
        return Attempts(status.existing, pods=1, since=now, at=now, burst=1)
    if now - before.at >= PAUSE_SECONDS:
        before = replace(before, singles=before.singles + 1 if before.burst == 1 else 0, burst=0)
    chosen = _choose(before, status, offer, now)
    # A copy by hand takes half the time, and pods come by the hundred.
    return Attempts(
        chosen.existing,
        chosen.withheld,
        chosen.pods + 1,
        chosen.since if chosen.pods else now,
        now,
        now - chosen.at,
        chosen.burst + 1,
        chosen.singles,
        chosen.rounds,
        chosen.retry_at,
        chosen.refused,
    )


def _choose(before: Attempts, status: OwnerStatus, offer: Offer, now: float) -> Attempts:
    """Return the attempts up to a new pod, with the part that is to be withheld from it."""
    if _are_refused(before, status, now):
        return _step(before, offer, now)
    holds_back = before.withheld is not Withheld.NOTHING
    if holds_back and (now >= before.retry_at or _is_smaller(offer.measure(), before.refused)):
        return replace(before, withheld=Withheld.NOTHING, pods=0, retry_at=now)
    return before


def _step(before: Attempts, offer: Offer, now: float) -> Attempts:
    """Return the attempts with more withheld, or with nothing where pods are refused anyhow."""
    withheld = _next_withheld(before.withheld, offer)
    is_first = before.withheld is Withheld.NOTHING
    return replace(
        before,
        withheld=withheld,
        pods=0,
        rounds=before.rounds + is_first,
        retry_at=now + _wait_before_retry(before.rounds - (not is_first)),
        refused=offer.measure() if is_first else before.refused,
    )


def _next_withheld(withheld: Withheld, offer: Offer) -> Withheld:
    if withheld is Withheld.NOTHING and offer.is_boosted:
        return Withheld.BOOST
    if withheld is not Withheld.SIZE and offer.is_sized:
        return Withheld.SIZE
    return Withheld.NOTHING


def _are_refused(attempts: Attempts, status: OwnerStatus, now: float) -> bool:
    """Return True if the pods that came like the latest were kept from being created."""
    pause = now - attempts.at
    is_whole = attempts.withheld is Withheld.NOTHING
    if not attempts.pods or pause < PAUSE_SECONDS or (is_whole and now < attempts.retry_at):
        return False
    if status.wanted is not None and status.wanted <= status.existing:
        return False
    least, seconds = _needed(attempts, pause)
    if attempts.pods < least or now - attempts.since < seconds:
        return False
    if pause < min(_GROWTH * attempts.pause, LONG_PAUSE_SECONDS):
        return False
    if status.is_failing is not None:
        return status.is_failing
    return attempts.singles >= min(least, _SINGLES)


def _needed(attempts: Attempts, pause: float) -> tuple[int, float]:
    """Return how many pods have to be missing, and for how many seconds."""
    if pause >= LONG_PAUSE_SECONDS:
        return 1, pause
    if attempts.withheld is not Withheld.NOTHING:
        return MORE_PODS, 0.0
    # Where the full size was refused before, one pod shows that nothing has changed.
    return (1, 0.0) if attempts.rounds else (FIRST_PODS, FIRST_SECONDS)


def _is_smaller(new: PodSize, refused: PodSize) -> bool:
    """Return True if no amount is larger than a refused one, and one of them is clearly smaller."""
    return all(amount <= refused.get(path, -1) for path, amount in new.items()) and any(
        new.get(path, 0) < amount * _CLEARLY for path, amount in refused.items()
    )


def _wait_before_retry(rounds: int) -> float:
    return float(RETRY_SECONDS * 2 ** min(rounds, _MAX_DOUBLINGS))
