"""Recommendations of one container: their settings, their rounding and their caps.

Single numbers only: `recommendation/estimators.py` estimates, rounds and caps for all containers at
once, on arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from math import ceil
from typing import Final

from trimtab.core.model.autoscalers import ContainerPolicy, ContainerRecommendation
from trimtab.core.model.estimation import CostSettings, Estimator
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource, Resources
from trimtab.core.model.validation import (
    SettingsError,
    require_at_least,
    require_fraction,
    require_interval,
)

MIB: Final = 1024**2

_INTEGER_CPU_PREFIX: Final = "vpa-post-processor.kubernetes.io/"
_INTEGER_CPU_SUFFIX: Final = "_integerCPU"
_BINARY_UNITS: Final = (1024**4, 1024**3, 1024**2, 1024)


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """Settings for estimating one resource; the defaults are the original's flags."""

    pod_floor: int
    """Least amount for the containers of a pod together."""
    target_percentile: float = 0.9
    lower_percentile: float = 0.5
    upper_percentile: float = 0.95
    confidence_interval: timedelta = timedelta(days=1)
    rounding: int = 1
    """Amounts are rounded up to a multiple of this; 1 or less leaves them alone."""

    def __post_init__(self) -> None:
        require_at_least("pod_floor", self.pod_floor, 0)
        require_fraction("target_percentile", self.target_percentile)
        require_fraction("lower_percentile", self.lower_percentile)
        require_fraction("upper_percentile", self.upper_percentile)
        require_interval("confidence_interval", self.confidence_interval)
        if not self.rounding <= MAX_AMOUNT:
            raise SettingsError("rounding", self.rounding, f"is more than {MAX_AMOUNT}")

    @property
    def percentiles(self) -> tuple[float, float, float]:
        """The fractions of target, lower and upper bound, in the order of all estimates."""
        return self.target_percentile, self.lower_percentile, self.upper_percentile


@dataclass(frozen=True, slots=True)
class RecommendationSettings:
    """Settings of recommendations that an operator may tune."""

    cpu: ResourceSettings = ResourceSettings(pod_floor=25)
    memory: ResourceSettings = ResourceSettings(pod_floor=250 * MIB)
    margin_fraction: float = 0.15
    """Part of every estimate that is added to it."""
    humanize_memory: bool = False
    """True to round memory to two decimals of its binary unit (deprecated)."""
    integer_cpu: bool = False
    """True if autoscalers may ask for whole cores by annotation."""
    max_allowed: Resources = field(default_factory=dict)
    """The cap of a container whose policy has none for the resource."""
    estimator: Estimator = Estimator.PERCENTILE
    """The estimator of autoscalers that choose none."""
    cost: CostSettings = field(default_factory=CostSettings)

    def __post_init__(self) -> None:
        require_at_least("margin_fraction", self.margin_fraction, 0)
        for resource, amount in self.max_allowed.items():
            require_at_least(f"max_allowed.{resource}", amount, 0)

    def of(self, resource: Resource) -> ResourceSettings:
        """Return the settings of one resource."""
        return self.cpu if resource is Resource.CPU else self.memory


@dataclass(frozen=True, slots=True)
class PublishedRecommendation:
    """The recommendations in an autoscaler's status, and the containers that have none yet."""

    containers: tuple[ContainerRecommendation, ...] = ()
    """Sorted by container name."""
    without_samples: tuple[str, ...] = ()
    """Containers that exist but have no samples: they stay as they are."""

    @property
    def lacks_samples(self) -> bool:
        """True if nothing is recommended because there are no samples (condition `NoSamples`)."""
        return not self.containers and bool(self.without_samples)


@dataclass(frozen=True, slots=True)
class Caps:
    """The least and the most that is published of each resource, in the order of `BOTH`."""

    least: tuple[int, ...]
    """0 where there is none."""
    most: tuple[int, ...]
    """More than any amount where there is none."""


def caps_for(policy: ContainerPolicy | None, global_max: Resources) -> Caps:
    """Return the caps of a container.

    Zero and less means "no cap", also where it hides the global maximum.
    """
    least = {} if policy is None else policy.min_allowed
    most = global_max if policy is None else {**global_max, **policy.max_allowed}
    return Caps(_column(least, otherwise=0), _column(most, otherwise=MAX_AMOUNT))


def wants_integer_cpu(annotations: Mapping[str, str], container_name: str) -> bool:
    """Return True if the autoscaler asks for whole cores for the container."""
    return annotations.get(f"{_INTEGER_CPU_PREFIX}{container_name}{_INTEGER_CPU_SUFFIX}") == "true"


def humanize(memory_bytes: int) -> int:
    """Return the amount that two decimals of its binary unit stand for, in whole bytes."""
    for unit in _BINARY_UNITS:
        if memory_bytes >= unit:
            return ceil(Fraction(f"{memory_bytes / unit:.2f}") * unit)
    return memory_bytes


def _column(caps: Resources, *, otherwise: int) -> tuple[int, ...]:
    given = [caps.get(resource, 0) for resource in BOTH]
    return tuple(min(cap, MAX_AMOUNT) if cap > 0 else otherwise for cap in given)
