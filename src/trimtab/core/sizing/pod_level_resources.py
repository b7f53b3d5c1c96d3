"""Resources of the pod itself: find the containers whose wanted resources fit in them.

Requests of all containers together must fit in the pod's, and each limit must be within the pod's.
A container whose wanted resources do not fit keeps what it has; the others still get theirs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    Envelope,
    Pod,
    TargetResources,
)
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.sizing.container_resources import Allotment

_NOTHING: Final = Allocation()


@dataclass(frozen=True, slots=True)
class _Stake:
    """Requests and limits that one container asks for."""

    is_sidecar: bool
    requests: Resources
    limits: Resources


def without_misfits(pod: Pod, wanted: TargetResources) -> TargetResources:
    """Keep only the wanted resources of a running pod that fit in the resources of the pod."""
    misfits = find_misfits(pod, wanted)
    if not misfits:
        return wanted
    return {name: allocation for name, allocation in wanted.items() if name not in misfits}


def find_misfits(pod: Pod, wanted: Mapping[str, Allotment | Allocation]) -> tuple[str, ...]:
    """Return the names of containers that cannot get what is wanted for them, in the pod's order.

    Containers that ask for no more come first, then the others in the pod's order while they fit.
    """
    envelope = pod.envelope
    if envelope is None:
        return ()
    stakes = {one.name: _stake(one, _NOTHING) for one in pod.containers}
    wishes = {
        one.name: _stake(one, wanted[one.name]) for one in pod.containers if one.name in wanted
    }
    totals = _Totals(envelope)
    for stake in stakes.values():
        totals.add(stake)
    misfits = set()
    for name in sorted(wishes, key=lambda name: _asks_for_more(wishes[name], stakes[name])):
        wish, own = wishes[name], stakes[name]
        if wish == own:
            if not totals.fit():
                # Fractions of bytes were rounded up: what is written would exceed the pod's.
                misfits.add(name)
            continue
        totals.add(own, sign=-1)
        totals.add(wish)
        if not (_is_within(envelope.limits, wish.limits) and totals.fit()):
            totals.add(wish, sign=-1)
            totals.add(own)
            misfits.add(name)
    return tuple(one.name for one in pod.containers if one.name in misfits)


class _Totals:
    """Sums of the requests of all containers, kept up as single containers change."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._sums = {
            is_sidecar: dict.fromkeys(envelope.requests, 0) for is_sidecar in (False, True)
        }

    def add(self, stake: _Stake, sign: int = 1) -> None:
        """Add what a container asks for, or take it away."""
        sums = self._sums[stake.is_sidecar]
        for kind in sums:
            sums[kind] += sign * stake.requests.get(kind, 0)

    def fit(self) -> bool:
        """Return True if the containers fit in the pod at the worst moment of its life."""
        regular, sidecars = self._sums[False], self._sums[True]
        first = self._envelope.init_requests
        return all(
            sidecars[kind] + max(regular[kind], first.get(kind, 0)) <= most
            for kind, most in self._envelope.requests.items()
        )


def _stake(container: Container, wish: Allotment | Allocation) -> _Stake:
    own = container.spec
    return _Stake(
        container.kind is ContainerKind.SIDECAR,
        {**(own.requests or NO_AMOUNTS), **(wish.requests or NO_AMOUNTS)},
        {**(own.limits or NO_AMOUNTS), **(wish.limits or NO_AMOUNTS)},
    )


def _asks_for_more(wish: _Stake, own: _Stake) -> bool:
    return any(wish.requests.get(kind, 0) > own.requests.get(kind, 0) for kind in BOTH)


def _is_within(most: Resources, limits: Resources) -> bool:
    return all(limits[kind] <= amount for kind, amount in most.items() if kind in limits)
