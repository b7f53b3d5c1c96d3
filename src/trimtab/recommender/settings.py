"""Settings of the recommender; the defaults are those of the original's flags."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from trimtab.core.model import validation
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import MAX_AMOUNT
from trimtab.core.recommendation.status_changes import PublishingSettings
from trimtab.core.usage.aggregates import UsageSettings

_DEFAULT_NAME = "default"
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """Extent of the history to read, and its retries."""

    length: timedelta = timedelta(days=8)
    """Time span of the history."""
    resolution: timedelta = timedelta(hours=1)
    """Time between two samples."""
    patience: timedelta = timedelta(seconds=10)
    """Maximum time for which the first tick waits for history."""
    workers: int = 4
    """Number of namespaces that are read concurrently."""
    most_samples: int = 100_000
    """Approximate maximum number of samples per query."""
    first_delay: timedelta = timedelta(seconds=5)
    """Delay before the first retry; each further delay is twice as long."""
    longest_delay: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        for name in ("length", "resolution", "patience", "first_delay", "longest_delay"):
            validation.require_interval(name, getattr(self, name))
        validation.require_at_least("workers", self.workers, 1)
        validation.require_at_least("most_samples", self.most_samples, 1)

    def delay(self, failures: int) -> timedelta:
        """Return the delay before the next attempt, after this many failures in a row."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        return min(self.first_delay * (1 << doublings), self.longest_delay)


class PressureOrigin(StrEnum):
    """A source of signals of pressure; users write the value."""

    NONE = "none"
    PROMETHEUS = "prometheus"
    KUBELET = "kubelet"
    """The kubelets' own metrics, through the API server."""


@dataclass(frozen=True, slots=True)
class PressureReadSettings:
    """The source of signals of pressure, and the rhythm in which it is read."""

    origin: PressureOrigin = PressureOrigin.NONE
    interval: timedelta = timedelta(minutes=1)
    """Time from the end of one read to the start of the next."""
    timeout: timedelta = timedelta(seconds=30)
    """Maximum time of one read."""

    def __post_init__(self) -> None:
        validation.require_interval("interval", self.interval)
        validation.require_interval("timeout", self.timeout)


@dataclass(frozen=True, slots=True)
class RecommenderSettings:
    """Settings of the recommender, including those of the decisions in `core`."""

    name: str = _DEFAULT_NAME
    """Autoscalers that name it are served; `default` also serves those that name no recommender."""
    interval: timedelta = timedelta(minutes=1)
    """Time from the start of one tick to the start of the next."""
    namespace: str = ""
    """The only namespace that is served; empty for all."""
    ignored_namespaces: frozenset[str] = frozenset()
    """Namespaces whose autoscalers are ignored."""
    memory_saver: bool = False
    """True to track only pods that some autoscaler selects."""
    update_worker_count: int = 10
    """Number of concurrent writes."""
    checkpoint_rotation: timedelta = timedelta(minutes=10)
    """Time within which histories that change a recommendation are saved.

    Other histories are saved within three times as long.
    """
    checkpoints_timeout: timedelta = timedelta(minutes=1)
    """Time in one tick after which no further status, and no further checkpoint, is written."""
    checkpoints_gc_interval: timedelta = timedelta(minutes=10)
    """Time between two searches for checkpoints of deleted autoscalers."""
    garbage_interval: timedelta = timedelta(hours=1)
    """Time between two collections of histories that can be dropped."""
    stale_after: timedelta = timedelta(minutes=5)
    """Time without a sample after which a running container is reported as stale."""
    oom_ceiling_bytes: int = MAX_AMOUNT
    """Maximum memory need that an OOM kill proves; the largest node's memory limits it further."""
    hpa_conflict: HpaConflict = HpaConflict.HOLD
    """Reaction to an HPA that scales on a recommended resource."""
    usage: UsageSettings = field(default_factory=UsageSettings)
    recommendations: RecommendationSettings = field(default_factory=RecommendationSettings)
    publishing: PublishingSettings = field(default_factory=PublishingSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    pressure: PressureReadSettings = field(default_factory=PressureReadSettings)
    gates: FeatureGates = field(default_factory=FeatureGates)

    def __post_init__(self) -> None:
        for name in (
            "interval",
            "checkpoint_rotation",
            "checkpoints_timeout",
            "checkpoints_gc_interval",
            "garbage_interval",
            "stale_after",
        ):
            validation.require_interval(name, getattr(self, name))
        validation.require_at_least("update_worker_count", self.update_worker_count, 1)
        validation.require_at_least("oom_ceiling_bytes", self.oom_ceiling_bytes, 1)
        validation.require_one_scope(self.namespace, self.ignored_namespaces)

    def covers(self, namespace: str) -> bool:
        """True if the recommender works in the namespace."""
        return namespace not in self.ignored_namespaces and self.namespace in ("", namespace)

    def serves(self, autoscaler: Autoscaler) -> bool:
        """True if the recommender publishes recommendations for the autoscaler."""
        named = autoscaler.recommenders or (_DEFAULT_NAME,)
        return self.name in named and self.covers(autoscaler.namespace)
