"""How long a container takes to get ready: some time in any case, and CPU time that it has to use.

The more CPU it may use, the sooner it is ready; a resize on the way changes how soon that will be.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Self

from trimtab.core.pods import Allocation
from trimtab.core.records import dataclass
from trimtab.core.resources import Resource, Resources
from trimtab.simulation.objects import Startup


def limit_of(allocation: Allocation, resource: Resource) -> int | None:
    """How much a container may use; a limit of zero is none, for the kubelet as for the kernel."""
    limits: Resources = allocation.limits or {}
    return limits.get(resource) or None


@dataclass(frozen=True, slots=True)
class Start:
    """A start that is under way."""

    startup: Startup
    counted_from: datetime
    """When the work that is left begins, or began."""
    cpu_seconds_left: float
    millicores: int
    """What it may use."""

    @classmethod
    def begin(cls, startup: Startup, now: datetime, allocation: Allocation) -> Self:
        """The start of a container that begins to run now."""
        millicores = _usable(startup, allocation)
        return cls(startup, now + startup.delay, startup.work_cpu_seconds, millicores)

    @property
    def ready_at(self) -> datetime:
        """When the container will be ready, if nothing changes."""
        seconds = self.cpu_seconds_left * 1000 / self.millicores
        return self.counted_from + timedelta(seconds=seconds)

    @property
    def burnt_millicores(self) -> int:
        """What the start would use, as long as there is work to do."""
        return self.startup.max_millicores if self.startup.work_cpu_seconds else 0

    def resized(self, now: datetime, allocation: Allocation) -> Self:
        """The same start with other resources from now on."""
        worked = max(now - self.counted_from, timedelta()) / timedelta(seconds=1)
        left = max(self.cpu_seconds_left - worked * self.millicores / 1000, 0.0)
        return replace(
            self,
            counted_from=max(now, self.counted_from),
            cpu_seconds_left=left,
            millicores=_usable(self.startup, allocation),
        )


def _usable(startup: Startup, allocation: Allocation) -> int:
    limit = limit_of(allocation, Resource.CPU)
    most = startup.max_millicores
    return max(1, most if limit is None else min(most, limit))
