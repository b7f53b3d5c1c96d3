"""Outcomes of a plan for one pod: evict it, resize it, end its boost or hold it."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from trimtab.core.changes.change import Change
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Pod, TargetResources
from trimtab.core.model.resources import Resources


class Place(NamedTuple):
    """A node with room for the successor of a pod."""

    node_name: str
    needed: Resources
    """Amounts that the successor takes of the node beyond what the pod takes of it."""


@dataclass(frozen=True, slots=True)
class Evict:
    """The pod is evicted, so that its successor gets the recommended size."""

    pod: Pod
    autoscaler: AutoscalerName
    change: Change
    quick_oom: bool = False
    wanted: TargetResources = field(default_factory=dict)
    """Resources that its successor should have."""
    place: Place | None = field(default=None, compare=False)
    """The room that the plan sets aside for its successor; None if it looks for none."""


@dataclass(frozen=True, slots=True)
class Resize:
    """The pod is resized in place."""

    pod: Pod
    autoscaler: AutoscalerName
    wanted: TargetResources
    change: Change
    quick_oom: bool = False
    disturbs: bool = field(default=False, compare=False)
    """True if it restarts a container that may be at work, which is a disruption (D17)."""


class EndOfBoost(StrEnum):
    """Why a startup boost ends; the value names it to users."""

    OVER = "BoostOver"
    """The pod is ready, and the boost's duration has passed since."""
    HARD_LIMIT = "BoostTooLong"
    """It started so long ago that no boost of it may last (D8)."""
    UNWANTED = "BoostUnwanted"
    """No autoscaler governs the pod any more, or the one that does boosts it no more."""
    UNSCHEDULABLE = "BoostUnschedulable"
    """There is no room for the boosted pod on any node (F26)."""
    CROWDED = "BoostsCrowded"
    """More pods of its node are boosted than may be."""
    QUOTA_SHORT = "BoostQuotaShort"
    """It fills a ResourceQuota that missing pods of the namespace need."""


@dataclass(frozen=True, slots=True)
class Unboost:
    """The startup boost of some containers ends."""

    pod: Pod
    autoscaler: AutoscalerName | None
    """None if no autoscaler governs the pod any more."""
    containers: tuple[str, ...]
    """The containers whose boost is over."""
    wanted: TargetResources
    """The CPU to ask for; nothing once the kubelet reports it, and then the marks are removed."""
    cause: EndOfBoost = field(default=EndOfBoost.OVER, compare=False)
    note: str = field(default="", compare=False)
    """Bound that the end meets, for people; empty where it goes back to the usual size."""

    @property
    def is_reported(self) -> bool:
        """True if the kubelet reports the smaller size, so that the boost has ended."""
        return not self.wanted


Act: TypeAlias = Evict | Resize | Unboost
"""Change that the updater makes to a pod."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The pod is left as it is."""

    pod: Pod
    autoscaler: AutoscalerName | None
    reason: HoldReason
    change: Change | None = None
    """The change that it needs, as far as measured."""
    withheld: Act | None = None
    """The act that the reason prevents, where it was decided."""
    wanted: TargetResources | None = field(default=None, compare=False)
    """Resources that its containers should have, if it is held although it needs a change."""
    until: datetime | None = field(default=None, compare=False)
    """Time of the next check that may differ although nothing happens, where known."""
    detail: str = ""
    """Why the kubelet, the API server or a quota refuses the change, as far as known."""


Outcome: TypeAlias = Act | Hold


def wanted_in_the_end(outcome: Outcome) -> TargetResources | None:
    """Return the resources that the pod's containers should have; None if not determined."""
    if isinstance(outcome, Hold) and outcome.wanted is None and outcome.withheld is not None:
        return outcome.withheld.wanted
    return outcome.wanted
