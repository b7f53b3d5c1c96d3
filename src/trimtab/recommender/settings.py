"""What an operator may tune about the recommender; the defaults are the original's flags."""

from dataclasses import dataclass, field
from datetime import timedelta

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
    """How much of the past is asked for, and how stubbornly."""

    length: timedelta = timedelta(days=8)
    """So far back it goes."""
    resolution: timedelta = timedelta(hours=1)
    """So far apart samples are."""
    patience: timedelta = timedelta(seconds=10)
    """The first tick waits for it, but no longer than this."""
    workers: int = 4
    """So many namespaces are read at once."""
    most_samples: int = 100_000
    """So many samples are asked for at once, more or less."""
    first_delay: timedelta = timedelta(seconds=5)
    """When it is tried again for the first time; each further time after twice as long."""
    longest_delay: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        for name in ("length", "resolution", "patience", "first_delay", "longest_delay"):
            validation.require_interval(name, getattr(self, name))
        validation.require_at_least("workers", self.workers, 1)
        validation.require_at_least("most_samples", self.most_samples, 1)

    def delay(self, failures: int) -> timedelta:
        """How long to wait after so many failures in a row."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        return min(self.first_delay * (1 << doublings), self.longest_delay)


@dataclass(frozen=True, slots=True)
class RecommenderSettings:
    """The settings of the recommender, made of those of the decisions that it asks for."""

    name: str = _DEFAULT_NAME
    """Autoscalers that name it are served; `default` serves those that name nobody too."""
    interval: timedelta = timedelta(minutes=1)
    """From the start of one tick to the start of the next."""
    namespace: str = ""
    """The only namespace that is served; empty for all."""
    ignored_namespaces: frozenset[str] = frozenset()
    """Namespaces whose autoscalers are left alone."""
    memory_saver: bool = False
    """Whether only pods are tracked that some autoscaler is for."""
    update_worker_count: int = 10
    """So many writes are under way at once."""
    checkpoint_rotation: timedelta = timedelta(minutes=10)
    """Within this time histories are saved that change a recommendation, others within three times
    as long."""
    checkpoints_timeout: timedelta = timedelta(minutes=1)
    """After this time in one tick no further status, and no further checkpoint, is written."""
    checkpoints_gc_interval: timedelta = timedelta(minutes=10)
    """How often it is looked for checkpoints of autoscalers that are no more."""
    garbage_interval: timedelta = timedelta(hours=1)
    """How often histories are looked through for what can be forgotten."""
    stale_after: timedelta = timedelta(minutes=5)
    """A running container of which no sample came for so long is said to be stale."""
    oom_ceiling_bytes: int = MAX_AMOUNT
    """No OOM kill proves a need above this, nor above what the largest node has to give."""
    hpa_conflict: HpaConflict = HpaConflict.HOLD
    """What is said where a horizontal autoscaler scales on what is recommended."""
    usage: UsageSettings = field(default_factory=UsageSettings)
    recommendations: RecommendationSettings = field(default_factory=RecommendationSettings)
    publishing: PublishingSettings = field(default_factory=PublishingSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
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
        """Whether anything in the namespace is our business."""
        return namespace not in self.ignored_namespaces and self.namespace in ("", namespace)

    def serves(self, autoscaler: Autoscaler) -> bool:
        """Whether it is for us to recommend something to an autoscaler."""
        named = autoscaler.recommenders or (_DEFAULT_NAME,)
        return self.name in named and self.covers(autoscaler.namespace)
