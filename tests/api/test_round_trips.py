"""Records written to the wire as a client would write them are decoded to the same records."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from support.makers.wire_examples import Json, encoded

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.limits import decode_limit_range
from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.quantities import encode_amounts
from trimtab.api.wire.times import format_duration, format_time
from trimtab.core.model.autoscalers import (
    Autoscaler,
    BoostType,
    ChangeDirection,
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    CpuBoost,
    EvictionRequirement,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.limit_ranges import OF_LIMIT_RANGES, LimitRangeItem
from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    OwnerReference,
    Pod,
    PodPhase,
    Termination,
)
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource, Resources

NAMES = st.text("abcdefgh-0123456789", min_size=1, max_size=8)
TEXTS = st.dictionaries(NAMES, st.text(max_size=5), max_size=3)
TIMES = st.datetimes(datetime(2000, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)
SECONDS = st.integers(0, 2**31 - 1).map(lambda count: timedelta(seconds=count))
AMOUNTS = st.dictionaries(st.sampled_from(Resource), st.integers(0, MAX_AMOUNT))
ALLOCATIONS = st.builds(Allocation, st.none() | AMOUNTS, st.none() | AMOUNTS)
TERMINATIONS = st.builds(
    Termination, st.sampled_from(["OOMKilled", "Error"]), st.none() | TIMES, st.none() | TIMES
)
OWNERS = st.builds(OwnerReference, NAMES, NAMES, NAMES, NAMES)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    split = draw(st.integers(0, len(names)))
    regular = [
        draw(containers(name, index, ContainerKind.REGULAR))
        for index, name in enumerate(names[:split])
    ]
    sidecars = [
        draw(containers(name, index, ContainerKind.SIDECAR))
        for index, name in enumerate(names[split:])
    ]
    annotations = draw(TEXTS)
    return Pod(
        namespace=draw(NAMES),
        name=draw(NAMES),
        uid=draw(NAMES),
        labels=draw(TEXTS),
        annotations=annotations,
        has_empty_annotations=not annotations and draw(st.booleans()),
        owner=draw(st.none() | OWNERS),
        phase=draw(st.sampled_from(PodPhase)),
        containers=(*regular, *sidecars),
        created_at=draw(st.none() | TIMES),
        started_at=draw(st.none() | TIMES),
        ready_since=draw(st.none() | TIMES),
        is_deleting=draw(st.booleans()),
        node_name=draw(NAMES),
        # On the wire each map of resources names a device, too.
        has_unseen_demands=any(
            each.spec.requests is not None or each.spec.limits is not None
            for each in (*regular, *sidecars)
        ),
    )


@st.composite
def containers(draw: st.DrawFn, name: str, index: int, kind: ContainerKind) -> Container:
    is_running = draw(st.booleans())
    spec, status = draw(ALLOCATIONS), draw(st.none() | ALLOCATIONS)
    return Container(
        name=name,
        index=index,
        kind=kind,
        spec=spec,
        status=None if status is None else naming_all(status, spec),
        restarts_on_resize=draw(st.frozensets(st.sampled_from(BOTH))),
        restart_count=draw(st.integers(0, 1000)),
        is_running=is_running,
        termination=None if is_running else draw(st.none() | TERMINATIONS),
        last_termination=draw(st.none() | TERMINATIONS),
    )


def naming_all(status: Allocation, spec: Allocation) -> Allocation:
    """The status of a kubelet that reports all that the spec names."""
    return Allocation(
        {**spec.requests, **(status.requests or {})} if spec.requests else status.requests,
        {**spec.limits, **(status.limits or {})} if spec.limits else status.limits,
    )


def wire_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def wire_amounts(amounts: Resources | None) -> Json:
    return None if amounts is None else {**encode_amounts(amounts), "nvidia.com/gpu": "1"}


def wire_allocation(allocation: Allocation | None) -> Json:
    if allocation is None:
        return None
    return {
        "requests": wire_amounts(allocation.requests),
        "limits": wire_amounts(allocation.limits),
    }


def wire_state(*, is_running: bool, termination: Termination | None) -> Json:
    terminated = termination and {
        "reason": termination.reason,
        "exitCode": 137,
        "startedAt": wire_time(termination.started_at),
        "finishedAt": wire_time(termination.finished_at),
    }
    return {"running": {} if is_running else None, "terminated": terminated}


def wire_resize_policy(container: Container, kind: Resource) -> Json:
    restarts = kind in container.restarts_on_resize
    policy = "RestartContainer" if restarts else "NotRequired"
    return {"resourceName": kind.value, "restartPolicy": policy}


def wire_container(container: Container) -> Json:
    return {
        "name": container.name,
        "image": "registry.example/app:1",
        "resources": wire_allocation(container.spec),
        "resizePolicy": [wire_resize_policy(container, kind) for kind in BOTH],
        "restartPolicy": "Always" if container.kind is ContainerKind.SIDECAR else None,
    }


def wire_container_status(container: Container) -> Json:
    return {
        "name": container.name,
        "restartCount": container.restart_count,
        "resources": wire_allocation(container.status),
        "state": wire_state(is_running=container.is_running, termination=container.termination),
        "lastState": wire_state(is_running=False, termination=container.last_termination),
    }


def wire_owner(owner: OwnerReference | None) -> Json:
    if owner is None:
        return []
    fields = {"kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}
    return [{"apiVersion": owner.api_version, **fields}]


def wire_pod(pod: Pod) -> Json:
    regular = [each for each in pod.containers if each.kind is ContainerKind.REGULAR]
    sidecars = [each for each in pod.containers if each.kind is ContainerKind.SIDECAR]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": wire_time(pod.ready_since)}
    return {
        "metadata": {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "labels": pod.labels,
            "annotations": pod.annotations or ({} if pod.has_empty_annotations else None),
            "ownerReferences": wire_owner(pod.owner),
            "creationTimestamp": wire_time(pod.created_at),
            "deletionTimestamp": "2026-01-01T00:00:00Z" if pod.is_deleting else None,
        },
        "spec": {
            "nodeName": pod.node_name,
            "containers": [wire_container(each) for each in regular],
            "initContainers": [wire_container(each) for each in sidecars],
        },
        "status": {
            "phase": pod.phase,
            "startTime": wire_time(pod.started_at),
            "conditions": [ready] if pod.ready_since else None,
            "containerStatuses": [wire_container_status(each) for each in regular],
            "initContainerStatuses": [wire_container_status(each) for each in sidecars],
        },
    }


@settings(max_examples=60)
@given(pods())
def test_any_pod_on_the_wire_is_decoded_to_itself(pod: Pod) -> None:
    assert decode_pod(encoded(wire_pod(pod))) == pod


BOOSTS = st.builds(
    CpuBoost,
    st.sampled_from(BoostType).map(str),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(0, MAX_AMOUNT),
    st.none() | SECONDS,
)
POLICIES = st.builds(
    ContainerPolicy,
    container_name=NAMES,
    mode=st.sampled_from(ContainerMode),
    min_allowed=AMOUNTS,
    max_allowed=AMOUNTS,
    controlled_resources=st.lists(st.sampled_from(Resource), max_size=2).map(tuple),
    controlled_values=st.sampled_from(ControlledValues),
    oom_bump_up_ratio=st.none() | st.integers(1000, 10**6).map(lambda milli: milli / 1000),
    oom_min_bump_up_bytes=st.none() | st.integers(0, MAX_AMOUNT),
    memory_interval=st.none() | SECONDS,
    memory_interval_count=st.none() | st.integers(1, 2**63 - 1),
    boost=st.none() | BOOSTS,
)
REQUIREMENTS = st.builds(
    EvictionRequirement,
    st.lists(st.sampled_from(Resource), max_size=2).map(tuple),
    st.sampled_from(ChangeDirection),
)
AUTOSCALERS = st.builds(
    Autoscaler,
    namespace=NAMES,
    name=NAMES,
    generation=st.integers(0, 2**63 - 1),
    created_at=st.none() | TIMES,
    target=st.none() | st.builds(TargetReference, NAMES, NAMES, NAMES),
    mode=st.sampled_from(UpdateMode),
    min_replicas=st.none() | st.integers(-(2**31), 2**31 - 1),
    requirements=st.lists(REQUIREMENTS, max_size=2).map(tuple),
    quick_oom_threshold=st.none() | SECONDS,
    policies=st.lists(POLICIES, max_size=2).map(tuple),
    recommenders=st.lists(NAMES, max_size=2).map(tuple),
    boost=st.none() | BOOSTS,
)


def whole_seconds(span: timedelta | None) -> int | None:
    return None if span is None else span // timedelta(seconds=1)


def wire_boost(boost: CpuBoost | None, *, in_seconds: bool) -> Json:
    if boost is None:
        return None
    millicores = boost.quantity_millicores
    duration = None if boost.duration is None else format_duration(boost.duration)
    return {
        "cpu": {
            "type": boost.type,
            "factor": boost.factor,
            "quantity": None if millicores is None else f"{millicores}m",
            "duration": None if in_seconds else duration,
            "durationSeconds": whole_seconds(boost.duration) if in_seconds else None,
        }
    }


def wire_policy(policy: ContainerPolicy) -> Json:
    return {
        "containerName": policy.container_name,
        "mode": policy.mode,
        "minAllowed": wire_amounts(policy.min_allowed),
        "maxAllowed": wire_amounts(policy.max_allowed),
        "controlledResources": policy.controlled_resources,
        "controlledValues": policy.controlled_values,
        "oomBumpUpRatio": policy.oom_bump_up_ratio,
        "oomMinBumpUp": policy.oom_min_bump_up_bytes,
        "memoryAggregationIntervalSeconds": whole_seconds(policy.memory_interval),
        "memoryAggregationIntervalCount": policy.memory_interval_count,
        "startupBoost": wire_boost(policy.boost, in_seconds=True),
    }


def wire_autoscaler(autoscaler: Autoscaler) -> Json:
    target = autoscaler.target and {
        "apiVersion": autoscaler.target.api_version,
        "kind": autoscaler.target.kind,
        "name": autoscaler.target.name,
    }
    requirements = [
        {"resources": each.resources, "changeRequirement": each.direction}
        for each in autoscaler.requirements
    ]
    return {
        "metadata": {
            "namespace": autoscaler.namespace,
            "name": autoscaler.name,
            "generation": autoscaler.generation,
            "creationTimestamp": wire_time(autoscaler.created_at),
        },
        "spec": {
            "targetRef": target,
            "updatePolicy": {
                "updateMode": autoscaler.mode,
                "minReplicas": autoscaler.min_replicas,
                "evictAfterOOMSeconds": whole_seconds(autoscaler.quick_oom_threshold),
                "evictionRequirements": requirements,
            },
            "resourcePolicy": {"containerPolicies": list(map(wire_policy, autoscaler.policies))},
            "recommenders": [{"name": name} for name in autoscaler.recommenders],
            "startupBoost": wire_boost(autoscaler.boost, in_seconds=False),
        },
    }


@settings(max_examples=60)
@given(AUTOSCALERS)
def test_any_autoscaler_on_the_wire_is_decoded_to_itself(autoscaler: Autoscaler) -> None:
    assert decode_autoscaler(encoded(wire_autoscaler(autoscaler))) == autoscaler


ITEMS = st.builds(
    LimitRangeItem, st.sampled_from(OF_LIMIT_RANGES), AMOUNTS, AMOUNTS, st.none() | AMOUNTS
)


def wire_item(item: LimitRangeItem) -> Json:
    return {
        "type": item.type,
        "min": wire_amounts(item.min),
        "max": wire_amounts(item.max),
        "default": wire_amounts(item.default),
    }


@given(st.lists(ITEMS, max_size=3))
def test_any_limit_range_on_the_wire_is_decoded_to_itself(items: list[LimitRangeItem]) -> None:
    data = encoded({"spec": {"limits": list(map(wire_item, items))}})

    assert decode_limit_range(data) == tuple(items)
