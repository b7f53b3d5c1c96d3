"""The lease that announces that new pods get their size.

It is renewed only while the admission controller's self-test passes; updaters stop evicting once
it is stale. Several replicas renew the same lease, so a conflict is no failure.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from trimtab.admission.settings import AdmissionSettings
from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import ClusterError, ConflictError
from trimtab.cluster.ports import Clock


class StatusLeases(Protocol):
    """The API calls that the lease needs."""

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """Return the lease as it is on the server; None if there is none."""

    async def write_lease(self, lease: Lease) -> Lease:
        """Create the lease, or replace the version that it names; raises ConflictError."""


class StatusLease:
    """Keeps the status lease renewed."""

    def __init__(
        self,
        leases: StatusLeases,
        settings: AdmissionSettings,
        *,
        holder: str,
        clock: Clock,
        passes_test: Callable[[], Awaitable[bool]],
    ) -> None:
        self._leases = leases
        self._settings = settings
        self._holder = holder
        self._clock = clock
        self._passes_test = passes_test
        self.problem: Exception | None = None
        """Error of the last write; None if it succeeded."""
        self.failed_tests = 0

    async def run(self) -> None:
        """Renew the lease at every interval until cancelled; the first time after one interval."""
        while True:
            await self._clock.sleep(self._settings.status_lease_interval)
            await self.renew()

    async def renew(self) -> bool:
        """Write the lease if the test passes; return True if any replica has just written it."""
        if not await self._passes_test():
            self.failed_tests += 1
            return False
        try:
            await self._write()
        except ConflictError:
            # Another replica has just renewed the lease.
            pass
        except ClusterError as error:
            self.problem = error
            return False
        self.problem = None
        return True

    async def _write(self) -> None:
        settings, now = self._settings, self._clock.now()
        place = settings.status_lease_namespace, settings.status_lease_name
        found = await self._leases.fetch_lease(*place)
        lease = found or Lease(*place, duration=settings.status_lease_interval)
        await self._leases.write_lease(replace(lease, holder=self._holder, renewed_at=now))
