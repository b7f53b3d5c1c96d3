"""Resources of the pod itself: which containers' wishes fit in them.

Requests of all containers together must fit in the pod's, and each limit must be within the pod's.
A container whose wish does not fit keeps what it has; the others still get theirs.
"""

from collections.abc import Mapping
from typing import Final

from trimtab.core.allocations import Allotment
from trimtab.core.limits import NO_AMOUNTS
from trimtab.core.outcomes import Wanted
from trimtab.core.pods import Allocation, Container, ContainerKind, Envelope, Pod
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resource, Resources

_NOTHING: Final = Allocation()


@dataclass(frozen=True, slots=True)
class _Stake:
    """What one container asks for."""

    is_sidecar: bool
    requests: Resources
    limits: Resources


def without_misfits(pod: Pod, wanted: Wanted) -> Wanted:
    """Of what is wanted for a pod that runs only what fits in the resources of the pod itself."""
    misfits = find_misfits(pod, wanted)
    if not misfits:
        return wanted
    return {name: allocation for name, allocation in wanted.items() if name not in misfits}


def find_misfits(pod: Pod, wanted: Mapping[str, Allotment | Allocation]) -> tuple[str, ...]:
    """The names of containers that cannot get what is wanted for them, in the pod's order.

    What gives back is granted first, and then in the pod's order whatever still fits.
    """
    envelope = pod.envelope
    if envelope is None:
        return ()
    stakes = {one.name: _stake(one, _NOTHING) for one in pod.containers}
    wishes = {
        one.name: _stake(one, wanted[one.name]) for one in pod.containers if one.name in wanted
    }
    misfits = set()
    for name in sorted(wishes, key=lambda name: _asks_for_more(wishes[name], stakes[name])):
        tried = {**stakes, name: wishes[name]}
        if wishes[name] == stakes[name] or _fits(envelope, tried, name):
            stakes = tried
        else:
            misfits.add(name)
    return tuple(one.name for one in pod.containers if one.name in misfits)


def _stake(container: Container, wish: Allotment | Allocation) -> _Stake:
    own = container.spec
    return _Stake(
        container.kind is ContainerKind.SIDECAR,
        {**(own.requests or NO_AMOUNTS), **(wish.requests or NO_AMOUNTS)},
        {**(own.limits or NO_AMOUNTS), **(wish.limits or NO_AMOUNTS)},
    )


def _asks_for_more(wish: _Stake, own: _Stake) -> bool:
    return any(wish.requests.get(kind, 0) > own.requests.get(kind, 0) for kind in BOTH)


def _fits(envelope: Envelope, stakes: Mapping[str, _Stake], name: str) -> bool:
    limits = stakes[name].limits
    if any(limits[kind] > most for kind, most in envelope.limits.items() if kind in limits):
        return False
    return all(_total(envelope, stakes, kind) <= most for kind, most in envelope.requests.items())


def _total(envelope: Envelope, stakes: Mapping[str, _Stake], kind: Resource) -> int:
    """What the containers ask for together, at the worst moment of the pod's life."""
    sidecars = sum(one.requests.get(kind, 0) for one in stakes.values() if one.is_sidecar)
    regular = sum(one.requests.get(kind, 0) for one in stakes.values() if not one.is_sidecar)
    return sidecars + max(regular, envelope.init_requests.get(kind, 0))
