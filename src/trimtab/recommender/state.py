"""In-memory state of the recommender between two ticks, without any I/O."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.pods import Pod
from trimtab.core.model.recommendation import PublishedRecommendation
from trimtab.core.model.selectors import Selector
from trimtab.core.recommendation.conditions import ConditionInputs, Unsupported
from trimtab.core.recommendation.recommender import Publications
from trimtab.core.recommendation.status_changes import StatusText
from trimtab.core.usage.checkpoint_rotation import Turn
from trimtab.core.usage.cluster_usage import Place, Usage
from trimtab.core.usage.containers import PodName
from trimtab.recommender.oom_observer import OomWatch, PodKey
from trimtab.recommender.settings import RecommenderSettings

NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WrittenStatus:
    """A status that was written, and the version of the object that it was written over."""

    status: StatusText
    over: Autoscaler
    at: datetime


@dataclass(slots=True)
class AutoscalerState:
    """State of an autoscaler that is served, or was until it named another recommender."""

    autoscaler: Autoscaler
    """The autoscaler as its store holds it."""
    learned: Autoscaler
    """The same without its status, which changes with each write."""
    verdict: Selector | Unsupported
    turn: Turn
    tried_at: datetime = NEVER
    """Time of the last attempt to write its status."""
    is_ours: bool = True
    is_restored: bool = False
    """True once its checkpoints were looked for."""
    saved: frozenset[str] = frozenset()
    """Containers with a stored checkpoint."""
    is_about_others: bool = False
    """True if its stored checkpoints describe other pods than it selects now."""
    counted_until: datetime | None = None
    """OOM kills up to this time are included in what was restored."""
    relearning: frozenset[str] = frozenset()
    """Containers whose history was lost and is still too short to be trusted."""
    history_of: Selector | None = None
    """Selector of the pods whose history was loaded; None without history, or without a source."""
    fetches_history: bool | None = None
    """True while its history is outstanding; None if there is no history source."""
    history_problem: str = ""
    """Latest error of reading its history."""
    history_missed_at: datetime | None = None
    """Time since which its history is outstanding."""
    recommendation: PublishedRecommendation = field(default_factory=PublishedRecommendation)
    settled: tuple[ConditionInputs, Autoscaler] | None = None
    """Inputs and version for which the last check found nothing to write."""
    written: WrittenStatus | None = None

    @property
    def name(self) -> AutoscalerName:
        """Identity of the autoscaler."""
        return self.autoscaler.identity

    @property
    def is_young(self) -> bool:
        """True if it recommends something for a container that has no stored checkpoint."""
        known = self.recommendation.containers
        return any(one.container_name not in self.saved for one in known)

    @property
    def unsupported(self) -> Unsupported | None:
        """Flaw of its configuration; None if it is supported."""
        return self.verdict if isinstance(self.verdict, Unsupported) else None


@dataclass(slots=True)
class PodView:
    """The pods as they were last seen."""

    given: list[Pod] = field(default_factory=list)
    """All pods of the last load that found changes."""
    present: dict[PodKey, Pod] = field(default_factory=dict)
    """Pods in covered namespaces that have started, by key."""
    tracked: dict[PodKey, Pod] = field(default_factory=dict)
    unmatched: dict[PodKey, Pod] = field(default_factory=dict)
    """Pods that are not tracked because no autoscaler selects them (memory saver)."""
    ended: set[PodName] = field(default_factory=set)
    """Tracked pods that succeeded or failed."""
    leaving: set[PodName] = field(default_factory=set)
    """Pods that are tracked only until their observed kills are counted."""
    counted_kills: dict[Place, datetime | None] = field(default_factory=dict)
    """Time of the last counted kill of each container, in this process or before a restart.

    None for a container that was restored and was never killed.
    """


class RecommenderState:
    """Everything that was learned; it starts empty."""

    def __init__(self, settings: RecommenderSettings) -> None:
        self.usage = Usage(settings.usage, settings.recommendations)
        self.publications = Publications(self.usage, settings.recommendations)
        self.subjects: dict[AutoscalerName, AutoscalerState] = {}
        self.pods = PodView()
        self.oom_watch = OomWatch()
        self.oom_ceiling_bytes = settings.oom_ceiling_bytes
        """Maximum memory need that an OOM kill proves."""
        self.cost = settings.recommendations.cost
        """Constants of the cost-based estimator."""
        self.selection_changed = False
        """True if other pods may have become relevant since the last load of pods."""

    @property
    def served(self) -> dict[AutoscalerName, AutoscalerState]:
        """The autoscalers that are served now."""
        return {name: subject for name, subject in self.subjects.items() if subject.is_ours}
