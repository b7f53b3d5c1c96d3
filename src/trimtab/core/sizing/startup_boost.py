"""CPU startup boost: how much, since what, until when.

A boosted container carries an annotation with what its pod spec asked for, its mark. Where
admission gives it other CPU without a boost, the mark has that, too. A boost that ends goes back to
it. A mark counts only on a pod of which `vpaUpdates` says that admission set a CPU request: without
that, it came with a template or a copy, and says nothing about the pod.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import structs

from trimtab.core.model import autoscalers, cap_notes, quantities
from trimtab.core.model.autoscalers import Autoscaler, BoostType, CpuBoost
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limits import NO_AMOUNTS, proportional_limit
from trimtab.core.model.pods import BOOST_PREFIX, UPDATES, Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource, Resources

MAX_BOOST_DURATION: Final = timedelta(minutes=30)
"""`--max-boost-duration`: how long after its start a pod may stay boosted; 0 for ever (D8)."""

UNSCHEDULABLE_FOR: Final = timedelta(seconds=60)
"""`--boost-unschedulable-timeout`: how long a boosted pod may find no room (F26)."""

_LEAST_MILLICORES: Final = 1
"""A request cannot be taken away in place, and zero might change the pod's QoS class."""

_NO_TIME: Final = timedelta()
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)


class BoostError(ValueError):
    """A boost that does not say how much."""

    def __init__(self, field: str, value: object, flaw: str) -> None:
        super().__init__(f"startupBoost.cpu.{field}: {value}: {flaw}")
        self.field = field


@dataclass(frozen=True, slots=True)
class BoostSpan:
    """The CPU of one container, from what it gets without a boost up to its whole boost."""

    usual_request: int
    usual_limit: int | None
    """None for a container without a limit."""
    request: int
    limit: int | None
    moves_limit: bool = True
    """True if the limit grows with the request."""

    def limit_at(self, request: int) -> int | None:
        """The limit of a boost that is cut to this request: of both the same part is kept."""
        if self.limit is None or self.usual_limit is None:
            return None
        more, whole = request - self.usual_request, self.request - self.usual_request
        return self.usual_limit + (self.limit - self.usual_limit) * more // whole


def span_boost(
    own: Allocation,
    boost: CpuBoost,
    usual: Allocation,
    *,
    controls_limits: bool,
    default_limit: int = 0,
) -> BoostSpan | None:
    """The boost of a container, before anything caps it; None if it raises nothing (D7).

    `own` is what the pod spec asks for, `usual` what the container gets without a boost, as far as
    that differs. A Factor multiplies request and limit, a Quantity is added to each (D21).
    """
    limit = (own.limits or NO_AMOUNTS).get(Resource.CPU, default_limit)
    # A limit without a request stands for both.
    own_request = (own.requests or NO_AMOUNTS).get(Resource.CPU, limit)
    advised = (usual.requests or NO_AMOUNTS).get(Resource.CPU)
    usual_request = own_request if advised is None else advised
    base = advised or own_request
    whole = boosted_millicores(boost, base)
    if whole <= base:
        # A factor of 1 switches the boost off; the own request must not come back by it.
        return None
    usual_limit = (usual.limits or NO_AMOUNTS).get(Resource.CPU, limit) or None
    request = max(whole, own_request)
    # A limit that the namespace sets later on could not be taken back when the boost ends.
    moves_limit = controls_limits and Resource.CPU in {**(own.limits or {}), **(usual.limits or {})}
    if moves_limit:
        whole_limit = usual_limit and _whole_limit(own, boost, request, usual_limit, limit)
        if usual_limit == usual_request:
            whole_limit = request
    else:
        # Even a limit of zero is one that no request may exceed.
        usual_limit = whole_limit = limit if Resource.CPU in (own.limits or ()) else usual_limit
        request = _below_limit(request, whole_limit)
    if request <= usual_request:
        return None
    if not usual_request and usual_limit == _LEAST_MILLICORES:
        # The boost would end with a request as large as the limit, in another QoS class.
        return None
    return BoostSpan(usual_request, usual_limit, request, whole_limit, moves_limit)


def _below_limit(request: int, limit: int | None) -> int:
    if limit is None or request <= limit:
        return request
    # Equal to the limit, the request might give the pod another QoS class while it starts.
    return limit - 1 if limit > 1 else limit


def _whole_limit(
    own: Allocation, boost: CpuBoost, request: int, usual_limit: int, own_limit: int
) -> int:
    if boost.type == BoostType.QUANTITY:
        limit = max(usual_limit + (boost.quantity_millicores or 0), own_limit)
    else:
        default = {Resource.CPU: own_limit}
        limit = proportional_limit(Resource.CPU, own, request, default) or usual_limit
    return min(max(limit, usual_limit, request), MAX_AMOUNT)


def boosted_millicores(boost: CpuBoost, base_millicores: int) -> int:
    """Return the CPU that a boost makes of its base, before anything caps it."""
    match boost.type or BoostType.FACTOR:
        case BoostType.FACTOR:
            if boost.factor is None or boost.factor < 1:
                raise BoostError("factor", boost.factor, "must be at least 1 for type Factor")
            return min(base_millicores * boost.factor, MAX_AMOUNT)
        case BoostType.QUANTITY:
            if boost.quantity_millicores is None:
                raise BoostError("quantity", None, "required for type Quantity")
            return min(base_millicores + boost.quantity_millicores, MAX_AMOUNT)
        case unknown:
            raise BoostError("type", unknown, "must be Factor or Quantity")


def base_millicores(boost: CpuBoost, boosted: int) -> int:
    """Return the CPU that a boost was given over, as far as nothing has cut the boost."""
    match boost.type or BoostType.FACTOR:
        case BoostType.FACTOR:
            return boosted // max(boost.factor or 1, 1)
        case BoostType.QUANTITY:
            return max(boosted - (boost.quantity_millicores or 0), 0)
        case _:
            return 0


def annotation_name(container_name: str) -> str:
    """The name of the annotation that marks the container as boosted."""
    return f"{BOOST_PREFIX}{container_name}"


def boosted_containers(pod: Pod) -> tuple[str, ...]:
    """The names of all containers that admission marked as boosted, of the pod or not."""
    names = marked_containers(pod)
    return names if names and believes_marks(pod) else ()


def marked_containers(pod: Pod) -> tuple[str, ...]:
    """Return the names of all containers with a mark, whatever wrote it, of the pod or not."""
    # Asked of every pod of every plan, and most have none: a plain loop costs least.
    for name in pod.annotations:
        if name.startswith(BOOST_PREFIX):
            break
    else:
        return ()
    marks = sorted(name for name in pod.annotations if name.startswith(BOOST_PREFIX))
    return tuple(mark.removeprefix(BOOST_PREFIX) for mark in marks)


def believes_marks(pod: Pod) -> bool:
    """Return True if an annotation shows that admission set a CPU request, as every boost does.

    The original writes the same annotation, so that its boosts end, too.
    """
    return cap_notes.lists_cpu(pod.annotations.get(UPDATES, ""))


def expired_boosts(
    pod: Pod,
    autoscaler: Autoscaler | None,
    now: datetime,
    *,
    gates: FeatureGates,
    max_duration: timedelta | None = MAX_BOOST_DURATION,
) -> tuple[str, ...]:
    """The boosted containers whose time is over; a pod without an autoscaler has no time left."""
    if not gates.cpu_startup_boost:
        return ()
    return tuple(
        name
        for name in boosted_containers(pod)
        if (end := boost_ends(pod, boost_duration(autoscaler, name), max_duration)) is not None
        and end <= now
    )


def next_boost_end(
    pod: Pod,
    autoscaler: Autoscaler | None,
    now: datetime,
    max_duration: timedelta | None = MAX_BOOST_DURATION,
    *,
    unschedulable_timeout: timedelta | None = UNSCHEDULABLE_FOR,
) -> datetime | None:
    """Return the next moment at which a boost of the pod ends by itself, as far as known now."""
    ends = [
        boost_ends(pod, boost_duration(autoscaler, name), max_duration)
        for name in boosted_containers(pod)
    ]
    if pod.unschedulable_since is not None and unschedulable_timeout:
        ends.append(_later(pod.unschedulable_since, unschedulable_timeout))
    return min((end for end in ends if end is not None and end > now), default=None)


def finds_no_room(pod: Pod, now: datetime, timeout: timedelta | None = UNSCHEDULABLE_FOR) -> bool:
    """Return True if the pod was unschedulable for the timeout; False without a timeout."""
    since = pod.unschedulable_since
    if since is None or not timeout:
        return False
    return now - since >= timeout


def crowded_out(pods: Iterable[Pod], most: int) -> frozenset[str]:
    """Return the uids of the youngest boosted pods of a node, beyond the `most` that may be."""
    ranked = sorted(pods, key=lambda pod: (pod.created_at or _END_OF_TIME, pod.namespace, pod.name))
    return frozenset(pod.uid for pod in ranked[most:])


def boost_duration(autoscaler: Autoscaler | None, container_name: str) -> timedelta:
    """Return how long a boost outlasts readiness: the container's own value, or the general one."""
    if autoscaler is None:
        return _NO_TIME
    policy = autoscalers.policy_for(autoscaler.policies, container_name)
    boosts = (None if policy is None else policy.boost, autoscaler.boost)
    durations = [boost.duration for boost in boosts if boost and boost.duration is not None]
    return durations[0] if durations else _NO_TIME


def boost_ends(
    pod: Pod, duration: timedelta, max_duration: timedelta | None = MAX_BOOST_DURATION
) -> datetime | None:
    """Return the moment at which a boost is over, as far as known now; None if it is not known."""
    ends = [_hard_end(pod, max_duration)]
    if pod.ready_since is not None:
        ends.append(_later(pod.ready_since, max(duration, _NO_TIME)))
    return min((end for end in ends if end is not None), default=None)


def is_overdue(
    pod: Pod, now: datetime, max_duration: timedelta | None = MAX_BOOST_DURATION
) -> bool:
    """Return True if the pod started so long ago that no boost of it may last."""
    end = _hard_end(pod, max_duration)
    return end is not None and end <= now


def _hard_end(pod: Pod, max_duration: timedelta | None) -> datetime | None:
    started = pod.started_at or pod.created_at
    return _later(started, max_duration) if started is not None and max_duration else None


def _later(moment: datetime, span: timedelta) -> datetime:
    return _END_OF_TIME if span > _END_OF_TIME - moment else moment + span


def format_original(own: Allocation, usual: Allocation | None = None) -> str:
    """The annotation's value: what the pod spec asks for, as JSON.

    `usual` is what the container gets without its boost; its CPU is added where it is another.
    """
    written = {"requests": _format_amounts(own.requests), "limits": _format_amounts(own.limits)}
    if usual is not None and (cpu := _cpu_of(usual)) != _cpu_of(own):
        # The original reads only the first two members.
        written["usualRequests"] = _format_amounts(cpu.requests)
        written["usualLimits"] = _format_amounts(cpu.limits)
    return msgspec.json.encode(written).decode()


def parse_original(text: str) -> Allocation | None:
    """Parse the annotation's value: what the pod spec asked for; None if it is corrupt."""
    try:
        written = msgspec.json.decode(text, type=_Original)
        original = Allocation(_parse_amounts(written.requests), _parse_amounts(written.limits))
        # No pod has such CPU, and no boost could end with it.
        return None if _passes_limit(original) else original
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _passes_limit(allocation: Allocation) -> bool:
    limit = (allocation.limits or NO_AMOUNTS).get(Resource.CPU)
    return limit is not None and (allocation.requests or NO_AMOUNTS).get(Resource.CPU, 0) > limit


def before_boost(pod: Pod, container_name: str) -> Allocation | None:
    """The CPU that a boosted container goes back to if nothing else is wanted; None if unknown.

    A boost raises nothing but CPU. Its memory may have grown since the spec was written, and
    taking that back might kill a container that uses it.
    """
    mark = pod.annotations.get(annotation_name(container_name), "")
    return _startable(parse_usual(mark) or parse_original(mark))


def own_before_boost(pod: Pod, container_name: str) -> Allocation | None:
    """The CPU that the pod spec asked for, whatever admission gave the container; or None."""
    return _startable(parse_original(pod.annotations.get(annotation_name(container_name), "")))


def parse_usual(text: str) -> Allocation | None:
    """Return the CPU that admission gave the container without its boost; None if not known."""
    try:
        usual = msgspec.json.decode(text, type=_Usual)
        if not usual.requests:
            return None
        return Allocation(_parse_amounts(usual.requests), _parse_amounts(usual.limits))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _startable(original: Allocation | None) -> Allocation | None:
    if original is None:
        return None
    requests, limits = original.requests or NO_AMOUNTS, original.limits or NO_AMOUNTS
    # A limit without a request stands for both; a request of zero beside it does not.
    cpu = requests.get(Resource.CPU, limits.get(Resource.CPU)) or _LEAST_MILLICORES
    # A limit of zero was removed for the boost, and no request fits in it.
    return Allocation({Resource.CPU: cpu}, _only_cpu(limits) if limits.get(Resource.CPU) else {})


def without_boost(pod: Pod, containers: Iterable[str]) -> Pod:
    """Return the pod with the CPU that its spec asked for in place of the boost of containers."""
    originals = {
        name: parse_original(pod.annotations.get(annotation_name(name), "")) for name in containers
    }
    return structs.replace(
        pod,
        containers=tuple(
            one if (own := originals.get(one.name)) is None else _with_original_cpu(one, own)
            for one in pod.containers
        ),
    )


def _with_original_cpu(container: Container, original: Allocation) -> Container:
    spec = Allocation(
        with_cpu_of(container.spec.requests, original.requests),
        with_cpu_of(container.spec.limits, original.limits),
    )
    return structs.replace(container, spec=spec, status=None)


def with_cpu_of(amounts: Resources | None, original: Resources | None) -> Resources:
    """Return the amounts with the CPU of the original, or with none where that has none."""
    sources = {Resource.CPU: original or NO_AMOUNTS, Resource.MEMORY: amounts or NO_AMOUNTS}
    return {kind: source[kind] for kind, source in sources.items() if kind in source}


@dataclass(frozen=True, slots=True)
class _Original:
    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None


class _Usual(msgspec.Struct, frozen=True, gc=False):
    requests: dict[str, str | int] | None = msgspec.field(default=None, name="usualRequests")
    limits: dict[str, str | int] | None = msgspec.field(default=None, name="usualLimits")


def _cpu_of(allocation: Allocation) -> Allocation:
    return Allocation(
        _only_cpu(allocation.requests or NO_AMOUNTS), _only_cpu(allocation.limits or NO_AMOUNTS)
    )


def _only_cpu(amounts: Resources) -> Resources:
    return {kind: amount for kind, amount in amounts.items() if kind is Resource.CPU}


def _format_amounts(amounts: Resources | None) -> dict[str, str]:
    given = amounts or NO_AMOUNTS
    return {kind: quantities.format_amount(kind, given[kind]) for kind in BOTH if kind in given}


def _parse_amounts(texts: dict[str, str | int] | None) -> Resources:
    given = texts or {}
    amounts = {
        kind: quantities.parse_amount(kind, str(given[kind])) for kind in BOTH if kind in given
    }
    if any(amount < 0 for amount in amounts.values()):
        raise ValueError("nobody asked for less than nothing")
    return amounts
