"""Autoscalers: VerticalPodAutoscaler objects, decoded into the fields that decisions need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from trimtab.core.model.pods import says_paused
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.model.selectors import Selector

EVERY: Final = "*"
"""The name in a policy for all containers that no other policy names."""
"""The name of the policy for all containers without a policy of their own."""


class UpdateMode(StrEnum):
    """The way in which recommendations reach pods; a missing mode means Recreate."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    AUTO = "Auto"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"
    UPSCALE_ONLY = "UpscaleOnly"


class ContainerMode(StrEnum):
    """The switch that turns scaling of one container on or off."""

    AUTO = "Auto"
    OFF = "Off"


class ControlledValues(StrEnum):
    """The values that follow a recommendation: requests with limits, or requests only."""

    REQUESTS_AND_LIMITS = "RequestsAndLimits"
    REQUESTS_ONLY = "RequestsOnly"


class ChangeDirection(StrEnum):
    """The direction in which a requirement lets a resource change."""

    TARGET_HIGHER = "TargetHigherThanRequests"
    TARGET_LOWER = "TargetLowerThanRequests"


class BoostType(StrEnum):
    """The rule by which the boosted CPU follows from its base."""

    FACTOR = "Factor"
    QUANTITY = "Quantity"


class AutoscalerName(NamedTuple):
    """Identity of an autoscaler; a tuple for the same reason as the name of a workload."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class TargetReference:
    """The workload that an autoscaler is for."""

    kind: str
    name: str
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class EvictionRequirement:
    """One condition under which a running pod may be changed.

    It holds when at least one of its resources changes in its direction. A resource or a direction
    that is unknown is left out when decoded; what is left may be something that never holds.
    """

    resources: tuple[Resource, ...]
    direction: ChangeDirection | None


@dataclass(frozen=True, slots=True)
class CpuBoost:
    """Extra CPU while a pod starts, as the autoscaler asks for it (possibly malformed)."""

    type: str = BoostType.FACTOR
    factor: int | None = None
    quantity_millicores: int | None = None
    duration: timedelta | None = None
    """Time for which the boost outlasts the pod's becoming Ready; None where not given."""


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """The resource policy for one container, or for all others when its name is `*`."""

    container_name: str
    mode: ContainerMode = ContainerMode.AUTO
    min_allowed: Resources = field(default_factory=dict)
    max_allowed: Resources = field(default_factory=dict)
    controlled_resources: tuple[Resource, ...] = BOTH
    controlled_values: ControlledValues = ControlledValues.REQUESTS_AND_LIMITS
    oom_bump_up_ratio: float | None = None
    oom_min_bump_up_bytes: int | None = None
    memory_interval: timedelta | None = None
    memory_interval_count: int | None = None
    boost: CpuBoost | None = None


class ContainerPolicies(tuple[ContainerPolicy, ...]):  # noqa: SLOT001  # a tuple can have none
    """The policies of one autoscaler in their order, indexed by container name once.

    A pod looks up a policy several times per container: a search through a long list each time
    would let one large pod occupy the webhook for seconds.
    """

    @cached_property
    def by_name(self) -> Mapping[str, ContainerPolicy]:
        """The policies by name: of equal names the first counts, of several `*` the last."""
        found = {policy.container_name: policy for policy in reversed(self)}
        wildcards = [policy for policy in self if policy.container_name == EVERY]
        return {**found, EVERY: wildcards[-1]} if wildcards else found


@dataclass(frozen=True, slots=True)
class ContainerRecommendation:
    """The amounts recommended for one container; None where the object has no such map."""

    container_name: str
    target: Resources
    lower_bound: Resources | None = None
    upper_bound: Resources | None = None
    uncapped_target: Resources | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an autoscaler's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class Held(NamedTuple):
    """A resource that is recommended and not applied, of one container or of all (`*`)."""

    resource: Resource
    container_name: str = "*"


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """One VerticalPodAutoscaler object."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    created_at: datetime | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    target: TargetReference | None = None
    selector: Selector | None = None
    """`spec.selector`: selects some of the target's pods; None selects all of them."""
    mode: UpdateMode = UpdateMode.RECREATE
    min_replicas: int | None = None
    requirements: tuple[EvictionRequirement, ...] = ()
    quick_oom_threshold: timedelta | None = None
    policies: tuple[ContainerPolicy, ...] = ()
    recommenders: tuple[str, ...] = ()
    boost: CpuBoost | None = None
    recommendation: tuple[ContainerRecommendation, ...] | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    """The generation that the status is about; None if the status has none."""
    held: frozenset[Held] = frozenset()
    """Resources left to horizontal autoscalers; added by `hpa.Marking`, no part of the object."""
    unknown_mode: str = ""
    """An update mode that this version does not know, shortened; it acts like Off."""

    @property
    def identity(self) -> AutoscalerName:
        """Its namespace and name."""
        return AutoscalerName(self.namespace, self.name)

    @property
    def boosts(self) -> bool:
        """True if any of its containers may get a startup boost."""
        return self.boost is not None or any(policy.boost for policy in self.policies)


def is_paused(autoscaler: Autoscaler) -> bool:
    """Return True if an annotation of the autoscaler asks for a pause."""
    return says_paused(autoscaler.annotations)


def policy_for(
    policies: tuple[ContainerPolicy, ...], container_name: str
) -> ContainerPolicy | None:
    """Return the first policy that names the container, else the last one for `*`, else None."""
    if isinstance(policies, ContainerPolicies):
        by_name = policies.by_name
        return by_name.get(container_name) or by_name.get(EVERY)
    wildcard = None
    for policy in policies:
        if policy.container_name == container_name:
            return policy
        if policy.container_name == EVERY:
            wildcard = policy
    return wildcard


def scales(policies: tuple[ContainerPolicy, ...], container_name: str) -> bool:
    """Return True unless the policy of the container switches scaling off."""
    policy = policy_for(policies, container_name)
    return policy is None or policy.mode is not ContainerMode.OFF


def holds(autoscaler: Autoscaler, container_name: str, resource: Resource) -> bool:
    """Return True if the resource of the container must not change, whatever is recommended."""
    held = autoscaler.held
    return bool(held) and (Held(resource) in held or Held(resource, container_name) in held)


def effective_boost(autoscaler: Autoscaler, container_name: str) -> CpuBoost | None:
    """Return the boost of the container's own policy, else the boost of the autoscaler.

    The container's boost replaces the general one as a whole.
    """
    policy = policy_for(autoscaler.policies, container_name)
    if policy is not None and policy.boost is not None:
        return policy.boost
    return autoscaler.boost
