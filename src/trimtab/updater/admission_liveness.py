"""Liveness of the admission controller, which gives new pods their size.

It renews a lease. The times in it come from another clock than ours. They only count at the first
look, and at the first after a long time. Otherwise the time counts for which we have seen no
renewal.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Clock
from trimtab.updater.reports import AdmissionAbsence
from trimtab.updater.settings import UpdaterSettings

_ANSWER_LIFE: Final = timedelta(seconds=5)
"""Time for which an answer is kept: pods may change several times a second."""
_MOST_BETWEEN_LOOKS: Final = 1.5
"""Maximum number of timeouts between two looks for a renewal between them to be recent: one
tick, which may be a little late."""


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class LeaseReader(Protocol):
    """Interface for the one read that is needed here."""

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """Fetch the lease from the server, if there is one."""


class AdmissionLiveness:
    """Checks the status lease of the admission controller."""

    def __init__(self, leases: LeaseReader, settings: UpdaterSettings, clock: Clock) -> None:
        self._leases = leases
        self._settings = settings
        self._clock = clock
        self._seen: Lease | None = None
        self._unchanged_since = _NEVER
        self._looked_at = _NEVER
        self._absence: AdmissionAbsence | None = None
        self._answered_at: datetime | None = None

    async def is_alive(self) -> bool:
        """Return True if a pod created now would get its size; False if the lease is unread."""
        return await self.find_absence() is None

    async def find_absence(self) -> AdmissionAbsence | None:
        """Return the reason why a pod created now would not get its size; None if it would."""
        settings = self._settings
        if not settings.uses_admission_status:
            return None
        now, answered = self._clock.now(), self._answered_at
        if answered is None or not timedelta() <= now - answered < _ANSWER_LIFE:
            self._absence, self._answered_at = await self._look(), now
        return self._absence

    async def _look(self) -> AdmissionAbsence | None:
        settings = self._settings
        place = settings.admission_lease_namespace, settings.admission_lease_name
        try:
            lease = await self._leases.fetch_lease(*place)
        except ClusterError:
            return AdmissionAbsence.UNREAD
        if lease is None:
            return AdmissionAbsence.UNREAD
        return None if self._is_fresh(lease) else AdmissionAbsence.STALE

    def _is_fresh(self, lease: Lease) -> bool:
        now, timeout = self._clock.now(), self._settings.admission_lease_timeout
        if lease != self._seen:
            has_watched = now - self._looked_at <= _MOST_BETWEEN_LOOKS * timeout
            self._seen = lease
            self._unchanged_since = now if has_watched else _last_sign(lease, now, timeout)
        self._looked_at = now
        return now - self._unchanged_since < timeout


def _last_sign(lease: Lease, now: datetime, timeout: timedelta) -> datetime:
    """Return when the lease was last written, by its own times; never in the future."""
    signs = [sign for sign in (lease.renewed_at, lease.created_at) if sign is not None]
    return min(max(signs, default=now - timeout), now)
