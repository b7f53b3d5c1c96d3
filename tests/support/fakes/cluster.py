"""The one cluster in memory for tests of components: the simulated cluster, at once.

A change is visible as soon as the write returns, unless a test stalls the watches. A request fails
where a test asks for it. Everything else is done by the simulated API server.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Concatenate, ParamSpec, TypeVar

from trimtab.api.kinds.checkpoints import Checkpoint, decode_checkpoint, encode_checkpoint
from trimtab.cluster.errors import ClusterError, UnreachableError
from trimtab.simulation.api_server.connection import Disturbance, SimulatedConnection
from trimtab.simulation.api_server.port import SimulatedCluster
from trimtab.simulation.api_server.requests import Request
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.world.virtual_time import VirtualClock
from trimtab.simulation.world.world import World

P = ParamSpec("P")
_T = TypeVar("_T")


class RefusedError(ClusterError):
    """An error that a test asks for."""


class FakeCluster(SimulatedCluster):
    """The port to a simulated cluster; tests change its attributes to let things go wrong.

    Requests are named as the methods of `Serving`: `evict`, `patch_pod`, `save_checkpoint`.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.truth = World(clock=clock, random=Random(1))
        """All objects, whatever the stores show."""
        self.line = SimulatedConnection("test", Random(1), usual=Disturbance())
        super().__init__(self.truth, Serving(self.truth), self.line, clock=clock)
        self.view_age: timedelta | None = timedelta()
        self.refusals: dict[str, list[ClusterError]] = defaultdict(list)
        """Errors of the next requests, by the name of the request."""
        self.failing: set[str] = set()
        """Requests that fail now: a name, or a name, a space and the name of an object."""
        self.mute: set[str] = set()
        """Requests that have their effect and get no answer."""
        self.requests: Counter[str] = Counter()
        """Number of requests by name, refused ones too."""

    def stall(self, *resources: str) -> None:
        """Let the watches of these resources deliver nothing until they are resumed."""
        self.line.disturbances.append(Disturbance(stalled=frozenset(resources)))

    def resume(self) -> None:
        """Let all watches deliver what happened meanwhile."""
        self.line.disturbances.clear()
        for view in self._views:
            view.look()

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        # What does not survive the way over the wire is lost.
        await super().save_checkpoint(decode_checkpoint(encode_checkpoint(checkpoint)))

    def age(self) -> timedelta | None:
        return self.view_age

    def arrive(self, name: str, about: str = "") -> None:
        """Count a request, and raise the error that a test asks for."""
        self.requests[name] += 1
        if self.refusals[name]:
            raise self.refusals[name].pop(0)
        if not self.failing.isdisjoint({name, f"{name} {about}"}):
            raise RefusedError(f"{name} {about}")

    async def _ask(
        self,
        request: Request,
        act: Callable[Concatenate[str, P], _T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> _T:
        name = act.__name__
        self.arrive(name, request.name)
        answer = await super()._ask(request, act, *args, **kwargs)
        if name in self.mute:
            raise UnreachableError(name, "no answer in time")
        return answer
