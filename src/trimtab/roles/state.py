"""What the role keeper keeps from tick to tick; nothing is decided here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.guards import rate_limit
from trimtab.core.guards.rate_limit import Pace, PaceSettings
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.roles import Role, Sighting

SHOWS_WITHIN: Final = timedelta(seconds=10)
"""What was written and does not show in the view after so long was undone by somebody."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A label that was written, and that the view may not show yet."""

    is_worn: bool
    at: datetime


class RolesMemory:
    """What was seen of leases, how fast each group may go on, and what was written."""

    def __init__(self, role: Role, settings: PaceSettings) -> None:
        self._role = role
        self._settings = settings
        self._written: dict[str, _Written] = {}
        self._paces: dict[WorkloadName, Pace] = {}
        self.sightings: Mapping[WorkloadName, Sighting] = {}

    def begin_anew(self) -> None:
        """Know nothing of leases that may have changed while nobody looked."""
        self.sightings = {}
        self._written.clear()

    def forget_others(self, groups: Iterable[WorkloadName]) -> None:
        """Forget all groups but these."""
        self._paces = {name: self._paces[name] for name in groups if name in self._paces}

    def pace(self, group: WorkloadName, now: datetime) -> Pace:
        """How fast a group may go on now; one that is new has all its tokens."""
        rested = Pace(now, now, float(self._settings.burst))
        return rate_limit.refill(self._paces.get(group, rested), self._settings, now)

    def write(self, group: WorkloadName, pod: Pod, now: datetime, *, is_worn: bool) -> None:
        """Remember that a pod got the role, or lost it."""
        self._written[pod.uid] = _Written(is_worn, now)
        if is_worn:
            self._paces[group] = rate_limit.spend(self.pace(group, now))

    def as_written(self, pods: Iterable[Pod], now: datetime) -> Sequence[Pod]:
        """The pods with labels that the view does not show yet."""
        return [self._amend(pod, now) for pod in pods]

    def _amend(self, pod: Pod, now: datetime) -> Pod:
        written, role = self._written.get(pod.uid), self._role
        if written is None:
            return pod
        if role.is_worn_by(pod) == written.is_worn or now - written.at > SHOWS_WITHIN:
            del self._written[pod.uid]
            return pod
        others = {key: value for key, value in pod.labels.items() if key != role.label}
        return replace(
            pod, labels={**others, role.label: role.value} if written.is_worn else others
        )
