"""State that the role keeper keeps from tick to tick; it makes no decisions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from trimtab.core.guards import rate_limit
from trimtab.core.guards.rate_limit import Pace, PaceSettings
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.roles import Role, Sighting

SHOWS_WITHIN: Final = timedelta(seconds=10)
"""A label that does not show in the view within this time was changed by another client."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A label that was written, and that the view may not show yet."""

    is_worn: bool
    at: datetime


class RolesMemory:
    """Sightings of leases, the rate limit of each group, and the labels that were written."""

    def __init__(self, role: Role, settings: PaceSettings) -> None:
        self._role = role
        self._settings = settings
        self._written: dict[str, _Written] = {}
        self._paces: dict[WorkloadName, Pace] = {}
        self.sightings: Mapping[WorkloadName, Sighting] = {}

    def begin_anew(self) -> None:
        """Forget leases and labels, which may have changed while another process led."""
        self.sightings = {}
        self._written.clear()

    def forget_others(self, groups: Iterable[WorkloadName]) -> None:
        """Forget the rate limits of all groups but these."""
        self._paces = {name: self._paces[name] for name in groups if name in self._paces}

    def pace(self, group: WorkloadName, now: datetime) -> Pace:
        """Return the rate limit of a group now; a new group has all its tokens."""
        rested = Pace(now, now, float(self._settings.burst))
        return rate_limit.refill(self._paces.get(group, rested), self._settings, now)

    def write(self, group: WorkloadName, pod: Pod, now: datetime, *, is_worn: bool) -> None:
        """Remember that a pod got the role, or lost it."""
        self._written[pod.uid] = _Written(is_worn, now)
        if is_worn:
            self._paces[group] = rate_limit.spend(self.pace(group, now))

    def as_written(self, pods: Iterable[Pod], now: datetime) -> Sequence[Pod]:
        """Return the pods with the labels that we wrote and that the view may not show yet."""
        return [self._amend(pod, now) for pod in pods]

    def _amend(self, pod: Pod, now: datetime) -> Pod:
        written, role = self._written.get(pod.uid), self._role
        if written is None:
            return pod
        if role.is_worn_by(pod) == written.is_worn or now - written.at > SHOWS_WITHIN:
            del self._written[pod.uid]
            return pod
        others = {key: value for key, value in pod.labels.items() if key != role.label}
        return structs.replace(
            pod, labels={**others, role.label: role.value} if written.is_worn else others
        )
