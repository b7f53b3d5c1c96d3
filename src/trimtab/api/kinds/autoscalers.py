"""Autoscalers: from VerticalPodAutoscaler objects to the record that decisions read.

A stored object may hold unknown values (written while no webhook ran, or by a later version). An
unknown value then has the smallest effect: an unknown update mode acts like Off, and an unknown
resource is ignored. Only values that cannot be read at all, such as a bad quantity, are errors.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.kinds.autoscaler_wire import decode_wire
from trimtab.api.kinds.selectors import convert_selector
from trimtab.api.wire import codec, metadata, quantities, times
from trimtab.api.wire.codec import Written
from trimtab.api.wire.metadata import NO_METADATA
from trimtab.core.model import autoscalers as core
from trimtab.core.model.autoscalers import Autoscaler, Condition, ContainerRecommendation
from trimtab.core.model.resources import BOTH, Resource, Resources

_Choice = TypeVar("_Choice", bound=StrEnum)
_MOST_SHOWN: Final = 50
"""Characters of an unknown mode that are kept."""


def decode_autoscaler(data: bytes) -> core.Autoscaler:
    """Return the autoscaler in the JSON of one VerticalPodAutoscaler."""
    return convert_autoscaler(decode_wire(data))


def convert_autoscaler(source: wire.VerticalPodAutoscaler) -> core.Autoscaler:
    """Return the autoscaler that a wire record describes."""
    meta = source.metadata or NO_METADATA
    spec = source.spec or wire.Spec()
    status = source.status or wire.Status()
    policy = spec.update_policy or wire.UpdatePolicy()
    return core.Autoscaler(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        created_at=times.decode_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        annotations=metadata.text_map(meta.annotations),
        target=_convert_target(spec.target_ref),
        selector=convert_selector(spec.selector, "spec.selector"),
        mode=_convert_update_mode(policy.update_mode),
        min_replicas=policy.min_replicas,
        requirements=tuple(map(_convert_requirement, policy.eviction_requirements or ())),
        quick_oom_threshold=_seconds(policy.evict_after_oom_seconds),
        policies=_convert_policies(spec.resource_policy),
        recommenders=tuple(entry.name or "" for entry in spec.recommenders or ()),
        boost=_convert_boost(spec.startup_boost, "spec.startupBoost.cpu"),
        recommendation=_convert_recommendation(status.recommendation),
        conditions=codec.convert_each(status.conditions, _convert_condition, "status.conditions"),
        observed_generation=status.observed_generation,
        unknown_mode=_shorten_unknown_mode(policy.update_mode),
    )


def _convert_target(source: wire.Target | None) -> core.TargetReference | None:
    if source is None:
        return None
    return core.TargetReference(source.kind or "", source.name or "", source.api_version or "")


def _convert_update_mode(text: str | None) -> core.UpdateMode:
    if not text:
        return core.UpdateMode.RECREATE
    return _known(core.UpdateMode, text) or core.UpdateMode.OFF


def _shorten_unknown_mode(text: str | None) -> str:
    """Return the start of a mode that is unknown here; a tenant may choose any length."""
    return text[:_MOST_SHOWN] if text and _known(core.UpdateMode, text) is None else ""


def _convert_requirement(source: wire.Requirement) -> core.EvictionRequirement:
    return core.EvictionRequirement(
        _known_resources(source.resources or ()),
        _known(core.ChangeDirection, source.change_requirement),
    )


def _convert_policies(source: wire.ResourcePolicy | None) -> tuple[core.ContainerPolicy, ...]:
    if source is None:
        return ()
    path = "spec.resourcePolicy.containerPolicies"
    return core.ContainerPolicies(
        codec.convert_each(source.container_policies, _convert_policy, path)
    )


def _convert_policy(source: wire.ContainerPolicy, path: str) -> core.ContainerPolicy:
    resources = source.controlled_resources
    return core.ContainerPolicy(
        container_name=source.container_name or "",
        mode=_known(core.ContainerMode, source.mode) or core.ContainerMode.AUTO,
        min_allowed=quantities.decode_amount_map(source.min_allowed, f"{path}.minAllowed") or {},
        max_allowed=quantities.decode_amount_map(source.max_allowed, f"{path}.maxAllowed") or {},
        controlled_resources=BOTH if resources is None else _known_resources(resources),
        controlled_values=_known(core.ControlledValues, source.controlled_values)
        or core.ControlledValues.REQUESTS_AND_LIMITS,
        oom_bump_up_ratio=_ratio(source.oom_bump_up_ratio, f"{path}.oomBumpUpRatio"),
        oom_min_bump_up_bytes=_given_amount(
            Resource.MEMORY, source.oom_min_bump_up, f"{path}.oomMinBumpUp"
        ),
        memory_interval=_seconds(source.memory_aggregation_interval_seconds),
        memory_interval_count=source.memory_aggregation_interval_count,
        boost=_convert_boost(source.startup_boost, f"{path}.startupBoost.cpu"),
    )


def _convert_boost(source: wire.StartupBoost | None, path: str) -> core.CpuBoost | None:
    if source is None or source.cpu is None:
        return None
    boost = source.cpu
    return core.CpuBoost(
        type=boost.type or core.BoostType.FACTOR,
        factor=boost.factor,
        quantity_millicores=_given_amount(Resource.CPU, boost.quantity, f"{path}.quantity"),
        duration=_convert_boost_duration(boost, path),
    )


def _convert_boost_duration(boost: wire.CpuBoost, path: str) -> timedelta | None:
    # Validation refuses two different times; in an object that slipped past it, the original's
    # own field takes effect.
    if boost.duration_seconds is not None:
        return _seconds(boost.duration_seconds)
    return (
        None
        if boost.duration is None
        else times.decode_duration(boost.duration, f"{path}.duration")
    )


def _convert_recommendation(
    source: wire.Recommendation | None,
) -> tuple[core.ContainerRecommendation, ...] | None:
    if source is None:
        return None
    path = "status.recommendation.containerRecommendations"
    return codec.convert_each(
        source.container_recommendations, _convert_container_recommendation, path
    )


def _convert_container_recommendation(
    source: wire.ContainerRecommendation, path: str
) -> core.ContainerRecommendation:
    return core.ContainerRecommendation(
        container_name=source.container_name or "",
        target=quantities.decode_amount_map(source.target, f"{path}.target") or {},
        lower_bound=quantities.decode_amount_map(source.lower_bound, f"{path}.lowerBound"),
        upper_bound=quantities.decode_amount_map(source.upper_bound, f"{path}.upperBound"),
        uncapped_target=quantities.decode_amount_map(
            source.uncapped_target, f"{path}.uncappedTarget"
        ),
    )


def _convert_condition(source: wire.Condition, path: str) -> core.Condition:
    return core.Condition(
        type=source.type or "",
        status=source.status or "",
        reason=source.reason or "",
        message=source.message or "",
        last_transition_time=times.decode_time(
            source.last_transition_time, f"{path}.lastTransitionTime"
        ),
    )


def _known(choices: type[_Choice], text: str | None) -> _Choice | None:
    return next((choice for choice in choices if choice == text), None)


def _known_resources(names: tuple[str, ...]) -> tuple[Resource, ...]:
    return tuple(Resource(name) for name in names if name in BOTH)


def _seconds(count: int | None) -> timedelta | None:
    return None if count is None else timedelta(seconds=count)


def _given_amount(resource: Resource, raw: msgspec.Raw, path: str) -> int | None:
    return quantities.decode_amount(resource, raw, path) if quantities.is_given(raw) else None


def _ratio(raw: msgspec.Raw, path: str) -> float | None:
    # The original reads the ratio in thousandths, as if it were CPU.
    thousandths = _given_amount(Resource.CPU, raw, path)
    return None if thousandths is None else thousandths / 1000


class _Container(Written, frozen=True, kw_only=True):
    container_name: str = ""
    target: dict[str, str]
    lower_bound: dict[str, str] = msgspec.field(default_factory=dict)
    upper_bound: dict[str, str] = msgspec.field(default_factory=dict)
    uncapped_target: dict[str, str] = msgspec.field(default_factory=dict)


class _Recommendation(Written, frozen=True, kw_only=True):
    container_recommendations: list[_Container] = msgspec.field(default_factory=list)


class _Condition(Written, frozen=True, kw_only=True):
    type: str
    status: str
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class _Status(Written, frozen=True, kw_only=True):
    recommendation: _Recommendation | None = None
    conditions: list[_Condition] = msgspec.field(default_factory=list)
    observed_generation: int | None = None


def encode_status_patch(
    recommendation: Sequence[ContainerRecommendation] | None,
    conditions: Sequence[Condition],
    *,
    observed_generation: int | None = None,
) -> bytes:
    """Return the JSON Patch that replaces the whole status of an autoscaler.

    Without containers, the recommendation is an empty object; None omits it.
    """
    status = _Status(
        recommendation=_write_recommendation(recommendation),
        conditions=[_write_condition(condition) for condition in conditions],
        observed_generation=observed_generation,
    )
    return codec.encode([{"op": "add", "path": "/status", "value": status}])


def encode_conditions_patch(autoscaler: Autoscaler, conditions: Sequence[Condition]) -> bytes:
    """Return the JSON Patch that replaces the conditions of this version of an autoscaler only."""
    seen = {"op": "test", "path": "/metadata/resourceVersion", "value": autoscaler.resource_version}
    written = [_write_condition(condition) for condition in conditions]
    if autoscaler.recommendation is None and not autoscaler.conditions:
        # The object may have no status, and JSON Patch cannot add to a missing parent.
        status = _Status(conditions=written, observed_generation=autoscaler.observed_generation)
        return codec.encode([seen, {"op": "add", "path": "/status", "value": status}])
    return codec.encode([seen, {"op": "add", "path": "/status/conditions", "value": written}])


def _write_recommendation(
    recommendation: Sequence[ContainerRecommendation] | None,
) -> _Recommendation | None:
    if recommendation is None:
        return None
    return _Recommendation(container_recommendations=[_write_container(c) for c in recommendation])


def _write_container(container: ContainerRecommendation) -> _Container:
    return _Container(
        container_name=container.container_name,
        target=quantities.encode_amounts(container.target),
        lower_bound=_write_bound(container.lower_bound),
        upper_bound=_write_bound(container.upper_bound),
        uncapped_target=_write_bound(container.uncapped_target),
    )


def _write_bound(amounts: Resources | None) -> dict[str, str]:
    return {} if amounts is None else quantities.encode_amounts(amounts)


def _write_condition(condition: Condition) -> _Condition:
    changed_at = condition.last_transition_time
    return _Condition(
        type=condition.type,
        status=condition.status,
        last_transition_time=None if changed_at is None else times.format_time(changed_at),
        reason=condition.reason,
        message=condition.message,
    )
