"""What the recommender knows between two ticks, and nothing about how it comes by it."""

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
    """A status that was written, and over which version of the object."""

    status: StatusText
    over: Autoscaler
    at: datetime


@dataclass(slots=True)
class AutoscalerState:
    """An autoscaler that we recommend for, or did until it named somebody else."""

    autoscaler: Autoscaler
    """As its store holds it."""
    learned: Autoscaler
    """The same without its status, which changes whenever we write it."""
    verdict: Selector | Unsupported
    turn: Turn
    tried_at: datetime = NEVER
    """When we last wrote its status, or tried to."""
    is_ours: bool = True
    is_restored: bool = False
    """Whether its checkpoints were looked for."""
    saved: frozenset[str] = frozenset()
    """Containers of which something is stored."""
    is_about_others: bool = False
    """Whether what is stored of it describes other pods than it is for now."""
    counted_until: datetime | None = None
    """Up to then OOM kills are in what was restored."""
    relearning: frozenset[str] = frozenset()
    """Containers whose history was lost and is still too short to be believed."""
    history_of: Selector | None = None
    """The pods whose history was taken in; None while there is none, or nobody to ask for it."""
    fetches_history: bool | None = None
    """Whether its history is outstanding; None if there is nobody to ask for it."""
    history_problem: str = ""
    """Why its history could not be read."""
    history_missed_at: datetime | None = None
    """Since when its history is outstanding."""
    recommendation: PublishedRecommendation = field(default_factory=PublishedRecommendation)
    settled: tuple[ConditionInputs, Autoscaler] | None = None
    """From what and for which version it was last found that nothing is to be written."""
    written: WrittenStatus | None = None

    @property
    def name(self) -> AutoscalerName:
        """The autoscaler's identity."""
        return self.autoscaler.identity

    @property
    def is_young(self) -> bool:
        """Whether it recommends something for a container of which nothing was ever saved."""
        known = self.recommendation.containers
        return any(one.container_name not in self.saved for one in known)

    @property
    def unsupported(self) -> Unsupported | None:
        """What is wrong with its configuration, if anything is."""
        return self.verdict if isinstance(self.verdict, Unsupported) else None


@dataclass(slots=True)
class PodView:
    """The pods as they were last seen."""

    given: list[Pod] = field(default_factory=list)
    """All pods that there are, as they were last looked through."""
    present: dict[PodKey, Pod] = field(default_factory=dict)
    """Those of them that are our business and have begun."""
    tracked: dict[PodKey, Pod] = field(default_factory=dict)
    unmatched: dict[PodKey, Pod] = field(default_factory=dict)
    """Pods that are not tracked because no autoscaler is for them (memory saver)."""
    ended: set[PodName] = field(default_factory=set)
    """Those among the tracked that succeeded or failed."""
    leaving: set[PodName] = field(default_factory=set)
    """Those that are tracked only until the kills seen of them are counted."""
    counted_kills: dict[Place, datetime | None] = field(default_factory=dict)
    """The last kill of each container that was counted, by us or before a restart.

    None of one that was remembered over a restart and never killed.
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
        """No OOM kill proves a need above this."""
        self.selection_changed = False
        """Whether another pod may be of interest since pods were last loaded."""

    @property
    def served(self) -> dict[AutoscalerName, AutoscalerState]:
        """The autoscalers that are ours now."""
        return {name: subject for name, subject in self.subjects.items() if subject.is_ours}
