"""Room for the startup boosts of a new pod, so that the API server does not refuse it.

LimitRanges, the resources of the pod itself, the largest node and ResourceQuotas leave room for
some of the extra CPU. Where all containers together need too much, each boost shrinks by the same
share. Nothing is cut below what a container gets without a boost: a pod that is refused even then
is not refused for its boosts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from trimtab.core.model.cap_notes import NoteKind
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.model.limits import NO_AMOUNTS, QosClass, amount_of, qos_class
from trimtab.core.model.pods import Allocation, Container, Pod, TargetResources
from trimtab.core.model.resources import Resource
from trimtab.core.sizing import quotas
from trimtab.core.sizing.node_capacity import cpu_room
from trimtab.core.sizing.pod_totals import total_of
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side
from trimtab.core.sizing.refusals import Withheld
from trimtab.core.sizing.startup_boost import BoostSpan

_CPU: Final = Resource.CPU
_THOUSAND: Final = 1000
_SPAN: Final = attrgetter("span")
MAX_PRIORITY: Final = 0
"""Highest priority of pods that are boosted by default: that of pods without a class."""


class BoostRoom(msgspec.Struct, frozen=True, gc=False):
    """Bounds of the boosts of a new pod."""

    limit_ranges: Sequence[LimitRangeItem] = ()
    """LimitRange items of its namespace, and the room on nodes."""
    max_millicores: int | None = None
    """`--max-allowed-cpu-boost`; None or 0 for no limit."""
    quotas: Sequence[Quota] = ()
    """Quotas of its namespace, with what is left for this pod."""
    awaited_pods: int = 0
    """Pods that its owner may be about to create; each needs room without a boost."""
    missing_pods: int = 0
    """Pods that are missing by the status of its owner, and that were not created since."""
    max_priority: int = MAX_PRIORITY
    """`--max-boosted-priority`."""
    withheld: Withheld = Withheld.NOTHING
    """Part that the pod does not get, since pods of its owner with it were never created."""


class BoostShare(msgspec.Struct, frozen=True, gc=False):
    """The CPU that one container gets: its usual CPU, and a share of its boost."""

    container: Container
    usual: Allocation
    """All that the container gets without a boost."""
    span: BoostSpan | None
    """None for a container that is not boosted."""
    request: int
    limit: int | None
    notes: tuple[NoteKind, ...] = ()
    """Bounds that have cut its boost."""

    @property
    def is_boosted(self) -> bool:
        """True if anything is left of its boost."""
        return self.span is not None and self.request > self.span.usual_request

    @property
    def allocation(self) -> Allocation:
        """All that the container gets."""
        if not self.is_boosted:
            return self.usual
        requests, limits = self.usual.requests or NO_AMOUNTS, self.usual.limits or NO_AMOUNTS
        limit = {} if self.limit is None else {_CPU: self.limit}
        return Allocation({**requests, _CPU: self.request}, {**limits, **limit})

    def amount(self, side: Side) -> int:
        """The CPU that the container requests, or its limit; 0 for none."""
        return self.request if side is Side.REQUESTS else self.limit or 0

    def usual_amount(self, side: Side) -> int:
        """The CPU that the container requests without a boost, or its limit then; 0 for none."""
        if self.span is None:
            return self.amount(side)
        usual = self.span.usual_request if side is Side.REQUESTS else self.span.usual_limit
        return usual or 0


def share_of(container: Container, usual: Allocation, span: BoostSpan | None) -> BoostShare:
    """Return the share of a container with its whole boost."""
    if span is not None:
        return BoostShare(container, usual, span, span.request, span.limit)
    limit = (usual.limits or NO_AMOUNTS).get(_CPU)
    # A limit without a request stands for both.
    request = (usual.requests or NO_AMOUNTS).get(_CPU, limit or 0)
    return BoostShare(container, usual, None, request, limit)


def fit_boosts(pod: Pod, shares: Sequence[BoostShare], room: BoostRoom) -> Sequence[BoostShare]:
    """Return the shares with as much of their boosts as there is room for."""
    if not any(map(_SPAN, shares)):
        return shares
    if (reason := _find_obstacle(pod, room)) is not None:
        return give_up(shares, reason)
    shares = [_left_out(share) if _ends_with_restart(share) else share for share in shares]
    covering = [each for each in room.quotas if quotas.covers(each, pod, _by_name(shares))]
    usual = {share.container.name: share.usual for share in shares}
    if not all(quotas.covers(each, pod, usual) for each in covering):
        # A quota that only counts pods with requests could refuse this one for what it still lacks.
        return give_up(shares, NoteKind.BOOST_QUOTA)
    bounds: list[_ContainerBound | _PodBound] = [
        *_container_bounds(room),
        *_pod_bounds(pod, shares, room, covering),
    ]
    # Limits follow the requests that are left, and ratios compare both.
    fitted = _cut_side(Side.REQUESTS, pod, shares, bounds)
    fitted = _cut_side(Side.LIMITS, pod, [_with_limit(share) for share in fitted], bounds)
    ratios = _Ratios(room.limit_ranges)
    fitted = _in_same_class([_below_limit(share) for share in ratios.cut(pod, fitted)])
    return fitted if ratios.hold(pod, fitted) else give_up(fitted, NoteKind.BOOST_LIMIT_RANGE)


def _find_obstacle(pod: Pod, room: BoostRoom) -> NoteKind | None:
    """Return why no container of the pod may be boosted; None if nothing forbids it."""
    if pod.envelope is not None:
        # Kubernetes resizes no pod with resources of its own, so that a boost could never end.
        return NoteKind.BOOST_POD_RESOURCES
    if pod.is_windows:
        return NoteKind.BOOST_WINDOWS
    if pod.preemption_priority > room.max_priority:
        # The scheduler would delete pods of others, for CPU that is given back after the start.
        return NoteKind.BOOST_PREEMPTS
    return None


def _cut_side(
    side: Side,
    pod: Pod,
    shares: Sequence[BoostShare],
    bounds: Sequence["_ContainerBound | _PodBound"],
) -> Sequence[BoostShare]:
    """Return the shares inside all bounds of requests, or of limits."""
    for bound in bounds:
        if bound.side is side:
            shares = bound.cut(pod, shares)
    return shares


def give_up(shares: Sequence[BoostShare], note: NoteKind) -> list[BoostShare]:
    """Return the shares without any boost, with the reason as a note."""
    return [
        usual if share.span is None else _noted(usual, note)
        for share, usual in zip(shares, _usual(shares), strict=True)
    ]


def _ends_with_restart(share: BoostShare) -> bool:
    """Return True if the end of the boost restarts the container, which then starts without it."""
    return share.span is not None and _CPU in share.container.restarts_on_resize


def _left_out(share: BoostShare) -> BoostShare:
    (without,) = give_up([share], NoteKind.BOOST_RESTARTS)
    return without


@dataclass(frozen=True, slots=True)
class _ContainerBound:
    """Maximum that each container may have."""

    side: Side
    most: int
    note: NoteKind | None = None

    def cut(self, pod: Pod, shares: Sequence[BoostShare]) -> list[BoostShare]:
        """The shares inside the bound, as far as boosts are the reason that they are not."""
        del pod
        return [self.cut_one(share) for share in shares]

    def cut_one(self, share: BoostShare) -> BoostShare:
        """Return one share inside the bound."""
        least, given = share.usual_amount(self.side), share.amount(self.side)
        return _with_amount(share, self.side, min(given, max(self.most, least)), self.note)


@dataclass(frozen=True, slots=True)
class _PodBound:
    """Maximum that all containers may have together."""

    side: Side
    most: int
    note: NoteKind

    def cut(self, pod: Pod, shares: Sequence[BoostShare]) -> list[BoostShare]:
        """The shares inside the bound; of each boost the same part is left."""
        side, least = self.side, [share.usual_amount(self.side) for share in shares]
        extras = [share.amount(side) - few for share, few in zip(shares, least, strict=True)]
        whole = sum(extras)

        def part(count: int) -> list[BoostShare]:
            return [
                _with_amount(share, side, few + extra * count // whole, self.note)
                for share, few, extra in zip(shares, least, extras, strict=True)
            ]

        if not whole or _total(pod, shares, side) <= self.most:
            return list(shares)

        def total(count: int) -> int:
            # Numbers alone: the search asks some forty times, and a pod may be large.
            amounts = [
                few + extra * count // whole for few, extra in zip(least, extras, strict=True)
            ]
            return total_of(pod, amounts, side, _CPU)

        return part(_largest(whole, lambda count: total(count) <= self.most))


@dataclass(frozen=True, slots=True)
class _Ratios:
    """Maximum ratio of limits to requests (`maxLimitRequestRatio`)."""

    limit_ranges: Sequence[LimitRangeItem]

    def cut(self, pod: Pod, shares: Sequence[BoostShare]) -> list[BoostShare]:
        """The shares with limits that are not too far above their requests."""
        of_container, of_pod = self._find()
        found = list(shares)
        if of_container is not None:
            mosts = [share.request * of_container // _THOUSAND for share in found]
            found = [
                _ContainerBound(Side.LIMITS, most, NoteKind.BOOST_LIMIT_RANGE).cut_one(share)
                for share, most in zip(found, mosts, strict=True)
            ]
        if of_pod is not None:
            most = _total(pod, found, Side.REQUESTS) * of_pod // _THOUSAND
            found = _PodBound(Side.LIMITS, most, NoteKind.BOOST_LIMIT_RANGE).cut(pod, found)
        return found

    def hold(self, pod: Pod, shares: Sequence[BoostShare]) -> bool:
        """Return True if the API server refuses the pod for no ratio."""
        of_container, of_pod = self._find()
        totals = _total(pod, shares, Side.LIMITS), _total(pod, shares, Side.REQUESTS)
        return all(
            _is_within(of_container, share.limit or 0, share.request) for share in shares
        ) and _is_within(of_pod, *totals)

    def _find(self) -> tuple[int | None, int | None]:
        container = effective_item(self.limit_ranges, LimitRangeType.CONTAINER)
        pod = effective_item(self.limit_ranges, LimitRangeType.POD)
        return (
            None if container is None else container.max_cpu_ratio,
            None if pod is None else pod.max_cpu_ratio,
        )


def _container_bounds(room: BoostRoom) -> Iterator[_ContainerBound]:
    if room.max_millicores:
        yield from (_ContainerBound(side, room.max_millicores) for side in Side)
    item = effective_item(room.limit_ranges, LimitRangeType.CONTAINER)
    if item is not None and item.max is not None and _CPU in item.max:
        for side in Side:
            yield _ContainerBound(side, item.max[_CPU], NoteKind.BOOST_LIMIT_RANGE)


def _pod_bounds(
    pod: Pod, shares: Sequence[BoostShare], room: BoostRoom, covering: Sequence[Quota]
) -> Iterator[_PodBound]:
    item = effective_item(room.limit_ranges, LimitRangeType.POD)
    overhead = amount_of(pod.overhead, _CPU)
    usual = _usual(shares)
    memory = sum(amount_of(share.usual.requests, Resource.MEMORY) for share in shares)
    on_nodes = cpu_room(room.limit_ranges, memory)
    for side in Side:
        if item is not None and item.max is not None and _CPU in item.max:
            yield _PodBound(side, item.max[_CPU], NoteKind.BOOST_LIMIT_RANGE)
        if side is Side.REQUESTS and on_nodes is not None:
            yield _PodBound(side, on_nodes - overhead, NoteKind.BOOST_NODE_SIZE)
        awaited = room.awaited_pods * _counted(pod, usual, side)
        for quota in covering:
            left = quota.left.get(QuotaClaim(side, _CPU))
            if left is not None:
                yield _PodBound(side, left - awaited - overhead, NoteKind.BOOST_QUOTA)


def _own_cpu(pod: Pod) -> Mapping[Side, int]:
    """The CPU that the pod itself asks for, beside its containers."""
    if pod.envelope is None:
        return {}
    sides = {Side.REQUESTS: pod.envelope.requests, Side.LIMITS: pod.envelope.limits}
    return {side: amounts[_CPU] for side, amounts in sides.items() if _CPU in amounts}


def _counted(pod: Pod, shares: Sequence[BoostShare], side: Side) -> int:
    """The CPU that a quota counts."""
    total = _own_cpu(pod).get(side, _total(pod, shares, side))
    return total + amount_of(pod.overhead, _CPU) if total else 0


def _total(pod: Pod, shares: Sequence[BoostShare], side: Side) -> int:
    return total_of(pod, [share.amount(side) for share in shares], side, _CPU)


def _usual(shares: Sequence[BoostShare]) -> list[BoostShare]:
    return [
        replace(
            share,
            request=share.usual_amount(Side.REQUESTS),
            limit=share.limit and share.usual_amount(Side.LIMITS),
        )
        for share in shares
    ]


def _with_amount(share: BoostShare, side: Side, amount: int, note: NoteKind | None) -> BoostShare:
    if amount >= share.amount(side):
        return share
    changed = (
        replace(share, request=amount) if side is Side.REQUESTS else replace(share, limit=amount)
    )
    return _noted(changed, note)


def _noted(share: BoostShare, note: NoteKind | None) -> BoostShare:
    if note is None or note in share.notes:
        return share
    return replace(share, notes=(*share.notes, note))


def _with_limit(share: BoostShare) -> BoostShare:
    """Return the share with the limit that belongs to its request."""
    span = share.span
    return share if span is None else replace(share, limit=span.limit_at(share.request))


def _below_limit(share: BoostShare) -> BoostShare:
    """Return the share with a request that its limit allows."""
    span = share.span
    if span is None or share.limit is None:
        return share
    request = max(min(share.request, share.limit), span.usual_request)
    is_one = span.usual_request == span.usual_limit
    return replace(share, request=request, limit=request if is_one else share.limit)


def _in_same_class(shares: list[BoostShare]) -> list[BoostShare]:
    """The shares in the QoS class that the pod has without boosts: no resize could change it."""
    if qos_class(share.allocation for share in shares) is not QosClass.GUARANTEED:
        return shares
    if qos_class(share.usual for share in shares) is QosClass.GUARANTEED:
        return shares
    return [
        replace(share, request=share.request - 1)
        if share.is_boosted and share.usual_amount(Side.REQUESTS) != share.usual_amount(Side.LIMITS)
        else share
        for share in shares
    ]


def _by_name(shares: Sequence[BoostShare]) -> TargetResources:
    return {share.container.name: share.allocation for share in shares}


def _is_within(ratio: int | None, limit: int, request: int) -> bool:
    # The API server divides first, and so must who wants to know what it will say.
    return ratio is None or not limit or not request or limit / request * _THOUSAND <= ratio


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest count up to `most` that fits, where all smaller ones fit too; 0 if none does."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least
