"""Claims of recently allowed autoscalers, and the rivals of a new one.

An allowed autoscaler is in the index once the API server has stored it and the watch has shown it.
Until then, its claim makes rivals wait. Neither a claim nor the watch alone refuses anything. An
autoscaler is refused because of another one only if the API server confirms that the other one
exists. Where the API server cannot be asked, the autoscaler is allowed with a warning.

Processes do not share claims. Overlaps that slip past between them are resolved by the rules for
overlapping autoscalers.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from trimtab.admission.coverage import Coverage, cover, cover_wire, name_of
from trimtab.admission.live_lookups import LiveLookups, Seen
from trimtab.admission.logs import Timer
from trimtab.admission.owner_cache import NotYetError
from trimtab.admission.target_index import TargetIndex
from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.validation import selectors
from trimtab.core.model import selector_validation as label_syntax
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.pods import WorkloadName

MAX_PATIENCE: Final = timedelta(seconds=2.5)
"""Maximum time for which an autoscaler waits; longer than it takes a claim to become void."""
_GRACE_SECONDS: Final = 1.0
"""Time in which the API server stores what was allowed; then a claim without an object is void."""
_NAMELESS_GRACE_SECONDS: Final = 1.5
"""The same for an autoscaler with a generated name: the watch has to show it, too."""
_LIFETIME_SECONDS: Final = 10.0
"""Time after which a claim is void without a lookup."""
_POLL_SECONDS: Final = 0.25
"""Time between two lookups while the API server may be storing the object."""
_MAX_CLAIMS: Final = 1024
_MAX_PER_WORKLOAD: Final = 16
"""Maximum number of claims on a workload: each one may cost a lookup."""
_MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_NAME: Final = 253
_MAX_CLAIM_BYTES: Final = 64 * 1024
"""A larger claim is not kept."""

_Key: TypeAlias = tuple[AutoscalerName, str]


@dataclass(frozen=True, slots=True)
class _Claim:
    name: AutoscalerName
    """Its name part is empty if the API server is still to generate the name."""
    coverage: Coverage
    made_at: float

    @property
    def void_at(self) -> float:
        """Moment after which an object that is not found is not about to be stored either."""
        grace = _GRACE_SECONDS if self.name.name else _NAMELESS_GRACE_SECONDS
        return self.made_at + grace

    @property
    def size_bytes(self) -> int:
        return self.coverage.size_bytes + sum(len(part.encode()) for part in self.name)


@dataclass(frozen=True, slots=True)
class Asked:
    """A review of an autoscaler, as far as claims depend on it."""

    arrived_at: float
    may_wait: bool


@dataclass(frozen=True, slots=True)
class Rivals:
    """Other autoscalers that may select the same pods."""

    confirmed: tuple[wire.VerticalPodAutoscaler, ...] = ()
    """Rivals that exist: the API server said so after the review had come."""
    doubtful: tuple[wire.VerticalPodAutoscaler, ...] = ()
    """Rivals of which the API server did not say in time whether they exist."""


class _ClaimBook:
    """Claims in the order in which they were made, bounded in number and bytes."""

    def __init__(self) -> None:
        self._claims: OrderedDict[_Key, _Claim] = OrderedDict()
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """Size of all claims."""
        return self._bytes

    def on(self, workload: WorkloadName) -> list[tuple[_Key, _Claim]]:
        """Return the claims on a workload, the oldest first."""
        return [
            (key, claim)
            for key, claim in self._claims.items()
            if claim.coverage.workload == workload
        ]

    def add(self, key: _Key, claim: _Claim) -> None:
        """Add a claim; the oldest ones make room."""
        self.drop(key)
        if claim.size_bytes > _MAX_CLAIM_BYTES:
            return
        rivals = self.on(claim.coverage.workload)
        for oldest, _ in rivals[: len(rivals) + 1 - _MAX_PER_WORKLOAD]:
            self.drop(oldest)
        self._claims[key] = claim
        self._bytes += claim.size_bytes
        while len(self._claims) > _MAX_CLAIMS or self._bytes > _MAX_BYTES:
            self.drop(next(iter(self._claims)))

    def drop(self, key: _Key) -> None:
        """Remove a claim, if it is there."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._bytes -= claim.size_bytes

    def drop_before(self, moment: float) -> None:
        """Remove the claims that were made before a moment."""
        while self._claims:
            key, claim = next(iter(self._claims.items()))
            if claim.made_at >= moment:
                return
            self.drop(key)


class OverlapGuard:
    """Finds existing autoscalers that overlap with a new one."""

    def __init__(self, index: TargetIndex, lookups: LiveLookups, timer: Timer) -> None:
        self._index = index
        self._lookups = lookups
        self.timer = timer
        """Clock of the moments at which reviews arrive."""
        self._book = _ClaimBook()

    @property
    def size_bytes(self) -> int:
        """Size of the claims in memory."""
        return self._book.size_bytes

    async def run(self) -> None:
        """Make lookups as reviews need them, until cancelled."""
        await self._lookups.run()

    def find_rivals(
        self,
        new: wire.VerticalPodAutoscaler,
        old: wire.VerticalPodAutoscaler | None,
        asked: Asked,
    ) -> Rivals:
        """Return the rivals of an autoscaler that is created, or changed from `old`.

        Raises NotYetError while the API server has not said whether a rival exists, if the review
        may wait. When it may wait no longer, such a rival is doubtful.
        """
        coverage = _new_coverage(new, old)
        if coverage is None:
            return Rivals()
        self._settle(coverage.workload)
        stored = self._judge_stored(new, coverage.workload, asked)
        claimed = self._judge_claimed(new, coverage.workload, asked)
        found = Rivals(
            (*stored.confirmed, *claimed.confirmed), (*stored.doubtful, *claimed.doubtful)
        )
        if found.doubtful and not found.confirmed and asked.may_wait:
            raise NotYetError
        return found

    def find_stored(
        self, new: wire.VerticalPodAutoscaler
    ) -> tuple[wire.VerticalPodAutoscaler, ...]:
        """Return the autoscalers with the same target that the watch has shown."""
        coverage = _new_coverage(new, None)
        found = () if coverage is None else self._index.find(coverage.workload)
        covered = ((each.identity, cover(each)) for each in found)
        return tuple(coverage.as_written(name) for name, coverage in covered if coverage)

    def lay(
        self,
        new: wire.VerticalPodAutoscaler,
        old: wire.VerticalPodAutoscaler | None,
        uid: str,
    ) -> None:
        """Remember that the autoscaler was allowed, if it claims pods that `old` did not."""
        coverage, name = _new_coverage(new, old), name_of(new)
        if coverage is not None and _is_storable(name):
            self._book.add((name, uid), _Claim(name, coverage, self.timer()))

    def _settle(self, workload: WorkloadName) -> None:
        """Drop the claims that are too old, and those whose autoscalers the index shows."""
        self._book.drop_before(self.timer() - _LIFETIME_SECONDS)
        claims = self._book.on(workload)
        if not claims:
            return
        indexed = {each.identity.name: cover(each) for each in self._index.find(workload)}
        for key, claim in claims:
            # For a claim without a name, any autoscaler with the same coverage counts.
            shown = [indexed.get(claim.name.name)] if claim.name.name else indexed.values()
            if any(each is not None and each.digest == claim.coverage.digest for each in shown):
                self._book.drop(key)
                # Lookups from before it was stored are outdated.
                self._lookups.forget(claim.name)

    def _judge_stored(
        self, new: wire.VerticalPodAutoscaler, workload: WorkloadName, asked: Asked
    ) -> Rivals:
        confirmed: list[wire.VerticalPodAutoscaler] = []
        doubtful: list[wire.VerticalPodAutoscaler] = []
        for each, _ in selectors.find_overlaps(new, self._index.find(workload)):
            coverage, name = cover(each), each.identity
            if coverage is None:
                continue
            seen = self._lookups.find(name, asked.arrived_at)
            if seen is None:
                doubtful.append(coverage.as_written(name))
                if len(doubtful) >= _MAX_PER_WORKLOAD:
                    break
            elif seen.coverage is not None and _covers_same(new, name, seen.coverage):
                confirmed.append(seen.coverage.as_written(name))
        return Rivals(tuple(confirmed), tuple(doubtful))

    def _judge_claimed(
        self, new: wire.VerticalPodAutoscaler, workload: WorkloadName, asked: Asked
    ) -> Rivals:
        confirmed: list[wire.VerticalPodAutoscaler] = []
        doubtful: list[wire.VerticalPodAutoscaler] = []
        void: set[AutoscalerName] = set()
        now = self.timer()
        claims = self._book.on(workload)
        written = [claim.coverage.as_written(claim.name) for _, claim in claims]
        same = {id(each) for each, _ in selectors.find_overlaps(new, written)}
        for (key, claim), shown in zip(claims, written, strict=True):
            name, is_due = claim.name, now >= claim.void_at
            if id(shown) not in same:
                continue
            # Only the watch can show which name the API server has generated.
            seen = self._look_for(claim, asked) if name.name else None
            if seen and seen.coverage and _covers_same(new, name, seen.coverage):
                confirmed.append(seen.coverage.as_written(name))
            elif is_due and (seen is not None or not name.name):
                self._book.drop(key)
                void.add(name)
            else:
                doubtful.append(shown)
        for name in void:
            # If it is stored after all, the watch shows it, and a new lookup follows.
            self._lookups.forget(name)
        return Rivals(tuple(confirmed), tuple(doubtful))

    def _look_for(self, claim: _Claim, asked: Asked) -> Seen | None:
        """Return a lookup that shows if the claim stands for an object; ask for one otherwise."""
        now = self.timer()
        if now >= claim.void_at:
            return self._lookups.find(claim.name, max(asked.arrived_at, claim.void_at))
        seen = self._lookups.find(claim.name, asked.arrived_at)
        if seen is not None and seen.asked_at < now - _POLL_SECONDS:
            # The object may have been stored since.
            self._lookups.ask(claim.name, now - _POLL_SECONDS)
        return seen


def _new_coverage(
    new: wire.VerticalPodAutoscaler, old: wire.VerticalPodAutoscaler | None
) -> Coverage | None:
    """Return the coverage of a valid autoscaler, unless it is that of `old`."""
    return cover_wire(new) if selectors.claims_anew(new, old) else None


def _is_storable(name: AutoscalerName) -> bool:
    """Return True unless the API server refuses the name, and so the object, in any case."""
    names = [name.namespace, name.name] if name.name else [name.namespace]
    return all(len(each) <= _MAX_NAME and not label_syntax.subdomain_flaws(each) for each in names)


def _covers_same(new: wire.VerticalPodAutoscaler, name: AutoscalerName, coverage: Coverage) -> bool:
    """Return True if both may select the same pod."""
    return bool(selectors.find_overlaps(new, (coverage.as_written(name),)))
