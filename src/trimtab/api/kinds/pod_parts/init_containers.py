"""Ordinary init containers: the bounds that they set for the containers that run later."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from trimtab.api.kinds.pod_parts import containers
from trimtab.api.kinds.pod_parts.wire import ContainerWire
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import BOTH, Resources

_NOTHING: Final = Allocation()


class InitDemands(NamedTuple):
    """Amounts that ordinary init containers ask for, as the fields of a pod hold them."""

    peak: Allocation = _NOTHING
    steps: tuple[tuple[int, Allocation], ...] = ()
    stated: Allocation | None = None
    requests: Resources | None = None


_NONE: Final = InitDemands()


def summarize(init_containers: tuple[ContainerWire, ...] | None) -> InitDemands:
    """Return the amounts that the init containers ask for, sidecars beside them."""
    if not init_containers:
        return _NONE
    each = [
        (
            source.restart_policy == containers.SIDECAR,
            containers.convert_allocation(
                source.resources, f"spec.initContainers[{index}].resources"
            )
            or _NOTHING,
        )
        for index, source in enumerate(init_containers)
    ]
    ordinary = [own for is_sidecar, own in each if not is_sidecar]
    return InitDemands(
        _peak_of(ordinary), _list_steps(each), _stated_by_all(ordinary), _most_requested(each)
    )


def _peak_of(ordinary: Sequence[Allocation]) -> Allocation:
    """Return the maximum of each resource."""
    requests = [each.requests for each in ordinary if each.requests]
    limits = [each.limits for each in ordinary if each.limits]
    return Allocation(_peak(requests), _peak(limits)) if requests or limits else _NOTHING


def _list_steps(each: Sequence[tuple[bool, Allocation]]) -> tuple[tuple[int, Allocation], ...]:
    """Return the maxima of ordinary ones by the number of sidecars before them."""
    steps: dict[int, list[Allocation]] = {}
    sidecars = 0
    for is_sidecar, own in each:
        if is_sidecar:
            sidecars += 1
        else:
            steps.setdefault(sidecars, []).append(own)
    if not sidecars:
        return ()
    return tuple(
        (
            count,
            Allocation(
                _peak([own.requests or {} for own in found]),
                _peak([own.limits or {} for own in found]),
            ),
        )
        for count, found in steps.items()
    )


def _peak(amounts: Sequence[Resources]) -> Resources:
    given = {kind: [one[kind] for one in amounts if kind in one] for kind in BOTH}
    return {kind: max(found) for kind, found in given.items() if found}


def _stated_by_all(ordinary: Sequence[Allocation]) -> Allocation | None:
    """Return the minimum of each amount that all of them state; None without any."""
    if not ordinary:
        return None
    requests = [each.requests or {} for each in ordinary]
    limits = [each.limits or {} for each in ordinary]
    return Allocation(_least(requests), _least(limits))


def _least(amounts: Sequence[Resources]) -> Resources:
    given = {kind: [one[kind] for one in amounts if kind in one] for kind in BOTH}
    return {kind: min(found) for kind, found in given.items() if len(found) == len(amounts)}


def _most_requested(each: Sequence[tuple[bool, Allocation]]) -> Resources | None:
    """Return the maximum total requests while one of the ordinary init containers runs.

    The sidecars before it in the list run beside it.
    """
    most = dict.fromkeys(BOTH, 0)
    beside = dict.fromkeys(BOTH, 0)
    for is_sidecar, own in each:
        for kind, amount in (own.requests or {}).items():
            if is_sidecar:
                beside[kind] += amount
            else:
                most[kind] = max(most[kind], beside[kind] + amount)
    return most if any(most.values()) else None
