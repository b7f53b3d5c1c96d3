"""The lease that says: new pods get their size.

It is renewed only while the admission controller's own test passes; updaters that see it grow old
stop evicting. Several replicas renew the same lease, so that another was faster is no failure.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from trimtab.admission.settings import AdmissionSettings
from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import ClusterError, ConflictError
from trimtab.cluster.ports import Clock


class StatusLeases(Protocol):
    """The acts that are needed here."""

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """The lease as it is on the server, if there is one."""

    async def write_lease(self, lease: Lease) -> Lease:
        """Create the lease or replace the version that it names; ConflictError if another did."""


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
        """Why it could not be written last time; None if it could, or should not be."""
        self.failed_tests = 0

    async def run(self) -> None:
        """Renew the lease at every interval, for ever; the first time after one of them."""
        while True:
            await self._clock.sleep(self._settings.status_lease_interval)
            await self.renew()

    async def renew(self) -> bool:
        """Write the lease if the test passes; whether somebody has just written it."""
        if not await self._passes_test():
            self.failed_tests += 1
            return False
        try:
            await self._write()
        except ConflictError:
            # Another replica did what we wanted to do.
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
