"""The VerticalPodAutoscaler as it stands on the wire.

Choices are plain text and quantities are raw, so that validation can report all mistakes at once.
Absent fields are None, or `NOT_GIVEN` for a quantity.
"""

from typing import Final

import msgspec

from trimtab.api.kinds.selectors import LabelSelector
from trimtab.api.wire import codec
from trimtab.api.wire.codec import Int32, Int64, Wire
from trimtab.api.wire.metadata import Metadata
from trimtab.api.wire.quantities import NOT_GIVEN


class Target(Wire, frozen=True, kw_only=True):
    """`spec.targetRef`."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None


class Requirement(Wire, frozen=True, kw_only=True):
    """One entry of `spec.updatePolicy.evictionRequirements`."""

    resources: tuple[str, ...] | None = None
    change_requirement: str | None = None


class UpdatePolicy(Wire, frozen=True, kw_only=True):
    """`spec.updatePolicy`."""

    update_mode: str | None = None
    min_replicas: Int32 | None = None
    eviction_requirements: tuple[Requirement, ...] | None = None
    evict_after_oom_seconds: Int32 | None = msgspec.field(default=None, name="evictAfterOOMSeconds")


class CpuBoost(Wire, frozen=True, kw_only=True):
    """`startupBoost.cpu`; its duration stands in either of two fields."""

    type: str | None = None
    factor: Int32 | None = None
    quantity: msgspec.Raw = NOT_GIVEN
    duration: str | None = None
    duration_seconds: Int32 | None = None


class StartupBoost(Wire, frozen=True, kw_only=True):
    """`startupBoost` of the spec or of a container policy."""

    cpu: CpuBoost | None = None


class ContainerPolicy(Wire, frozen=True, kw_only=True):
    """One entry of `spec.resourcePolicy.containerPolicies`."""

    container_name: str | None = None
    mode: str | None = None
    min_allowed: dict[str, msgspec.Raw] | None = None
    max_allowed: dict[str, msgspec.Raw] | None = None
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: str | None = None
    oom_bump_up_ratio: msgspec.Raw = NOT_GIVEN
    oom_min_bump_up: msgspec.Raw = NOT_GIVEN
    memory_aggregation_interval_seconds: Int32 | None = None
    memory_aggregation_interval_count: Int64 | None = None
    startup_boost: StartupBoost | None = None


class ResourcePolicy(Wire, frozen=True, kw_only=True):
    """`spec.resourcePolicy`."""

    container_policies: tuple[ContainerPolicy, ...] | None = None


class Recommender(Wire, frozen=True, kw_only=True):
    """One entry of `spec.recommenders`."""

    name: str | None = None


class Spec(Wire, frozen=True, kw_only=True):
    """`spec`."""

    target_ref: Target | None = None
    selector: LabelSelector | None = None
    update_policy: UpdatePolicy | None = None
    resource_policy: ResourcePolicy | None = None
    recommenders: tuple[Recommender, ...] | None = None
    startup_boost: StartupBoost | None = None


class ContainerRecommendation(Wire, frozen=True, kw_only=True):
    """One entry of `status.recommendation.containerRecommendations`."""

    container_name: str | None = None
    target: dict[str, msgspec.Raw] | None = None
    lower_bound: dict[str, msgspec.Raw] | None = None
    upper_bound: dict[str, msgspec.Raw] | None = None
    uncapped_target: dict[str, msgspec.Raw] | None = None


class Recommendation(Wire, frozen=True, kw_only=True):
    """`status.recommendation`."""

    container_recommendations: tuple[ContainerRecommendation, ...] | None = None


class Condition(Wire, frozen=True, kw_only=True):
    """One entry of `status.conditions`."""

    type: str | None = None
    status: str | None = None
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class Status(Wire, frozen=True, kw_only=True):
    """`status`."""

    recommendation: Recommendation | None = None
    conditions: tuple[Condition, ...] | None = None
    observed_generation: Int64 | None = None


class VerticalPodAutoscaler(Wire, frozen=True, kw_only=True):
    """The whole object."""

    metadata: Metadata | None = None
    spec: Spec | None = None
    status: Status | None = None


class _Specified(Wire, frozen=True, kw_only=True):
    spec: msgspec.Raw = NOT_GIVEN


_DECODER: Final = msgspec.json.Decoder(VerticalPodAutoscaler)
_SPEC_DECODER: Final = msgspec.json.Decoder(_Specified)


def has_same_spec(data: bytes, other: bytes) -> bool:
    """Return True if the specs of two objects are written alike, whether or not they are valid."""
    return codec.decode(_SPEC_DECODER, data).spec == codec.decode(_SPEC_DECODER, other).spec


def decode_wire(data: bytes) -> VerticalPodAutoscaler:
    """Return the object as it stands in the JSON, not validated."""
    return codec.decode(_DECODER, data)
