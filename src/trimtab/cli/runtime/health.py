"""Health of a component: liveness, and readiness for its work.

Liveness is about the process. A restart helps a loop that hangs or fails again and again. It also
helps a process that could not read a required kind for a quarter of an hour, since its own
connections may be the cause. Readiness is about the surroundings: missing or old views, and missing
permissions (F43). A restart would not help there, so the probe reports the reason.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NoReturn, Protocol, TypeGuard

import structlog

from trimtab.cli.runtime.cluster_problems import CRDS_MISSING
from trimtab.cluster.errors import ForbiddenError, NotFoundError, RivalError
from trimtab.cluster.live.cluster import RequiredRead
from trimtab.cluster.ports import Clock

OLDEST_VIEW: Final = timedelta(minutes=5)
"""Maximum age of a view that is acted on; in a quiet cluster it is up to two minutes old."""
_OWN_KINDS: Final = "/apis/autoscaling.k8s.io/"
_LOOK_AGAIN: Final = timedelta(seconds=10)

_logger: Final = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ObstacleReport:
    """Log messages for the begin of obstacles, and for their end."""

    begins: str
    ends: str


NOT_READY: Final = ObstacleReport("not ready", "ready again")
HALF_BLIND: Final = ObstacleReport("works without seeing everything", "sees everything again")
"""Messages for optional reads that fail, which prevent no work."""


@dataclass(slots=True)
class Heartbeat:
    """Time since the loop of a component last succeeded; checked only while it is expected to."""

    elapsed: Callable[[], timedelta]
    timeout: timedelta
    _last: timedelta | None = field(default=None, init=False)

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Expect the loop to beat for as long as the block lasts."""
        self._last = self.elapsed()
        try:
            yield
        finally:
            # Outside the block silence is no flaw: a replica without the lease does not tick.
            self._last = None

    async def watch(self, run: Callable[[], Awaitable[object]]) -> None:
        """Run a loop, and expect it to beat for as long as it runs."""
        with self.expected():
            await run()

    def beat(self) -> None:
        """Record that the loop has succeeded."""
        self._last = self.elapsed()

    def flaws(self) -> list[str]:
        """Return why the loop is unhealthy; empty if it is healthy."""
        silent = timedelta() if self._last is None else self.elapsed() - self._last
        if silent <= self.timeout:
            return []
        return [f"no tick succeeded for {silent.total_seconds():.0f} s"]


class ReadWatchdog:
    """Finds required kinds that were not read for too long, on a clock that cannot be set."""

    def __init__(
        self,
        look: Callable[[], Iterable[RequiredRead]],
        elapsed: Callable[[], timedelta],
        timeout: timedelta,
    ) -> None:
        """Take a timeout; zero switches the watchdog off."""
        self._look = look
        self._elapsed = elapsed
        self._timeout = timeout
        self._began_at = elapsed()
        self._last: dict[str, tuple[datetime | None, timedelta]] = {}
        """By path, the wall-clock time of the last read, and when it was noticed."""

    def flaws(self) -> list[str]:
        """Return the kinds that were not read for too long, with the problem of each."""
        if self._timeout <= timedelta():
            return []
        return [text for read in self._look() if (text := self._flaw(read))]

    def _flaw(self, read: RequiredRead) -> str:
        now = self._elapsed()
        # The wall clock can be set. So only a change of `current_at` counts, at the time of its
        # notice.
        current_at, seen_at = self._last.get(read.path, (None, self._began_at))
        # A refusal is an answer: a restarted process would get the same one.
        is_refused = isinstance(read.problem, ForbiddenError | NotFoundError)
        if is_refused or read.current_at != current_at:
            seen_at = now
        self._last[read.path] = read.current_at, seen_at
        silent = now - seen_at
        if silent <= self._timeout:
            return ""
        cause = f": {read.problem}" if read.problem else ""
        return f"{read.path} could not be read for {silent.total_seconds():.0f} s{cause}"


async def wait_for_flaws(look: Callable[[], list[str]], clock: Clock) -> list[str]:
    """Return the flaws once there are any."""
    while not (flaws := look()):
        await clock.sleep(_LOOK_AGAIN)
    return flaws


class ReadinessView(Protocol):
    """The part of a cluster that readiness depends on."""

    def age(self) -> timedelta | None:
        """Return the age of the oldest view; None before everything was listed once."""

    def problems(self) -> Mapping[str, Exception]:
        """Return the problems of reads by path, and missing permissions by act."""


def list_obstacles(view: ReadinessView, others: Iterable[Exception] = ()) -> list[str]:
    """Return why a component cannot do its work now, one line each; empty if it can.

    `others` are problems that the cluster does not know of: of an election, say. Problems that may
    pass by themselves are left out as long as the views are fresh.
    """
    problems = view.problems()
    errors = [*problems.values(), *others]
    rights = [_name_right(one) for one in errors if _lacks_right(one)]
    rivals = [str(error) for error in errors if isinstance(error, RivalError)]
    flaw = _flaw(view.age())
    causes = [_describe(where, problem) for where, problem in problems.items()] if flaw else []
    # Several reads may lack the same right.
    return list(dict.fromkeys([*rights, *rivals, *([flaw] if flaw else []), *causes]))


def list_shortcomings(found: Mapping[str, Exception]) -> list[str]:
    """Return a line for each optional read that failed, from the errors by path."""
    return [
        _name_right(error) if _lacks_right(error) else f"{where}: {error}"
        for where, error in found.items()
    ]


async def watch_obstacles(
    look: Callable[[], list[str]], clock: Clock, news: ObstacleReport = NOT_READY
) -> NoReturn:
    """Log the obstacles of a component whenever they change, until cancelled.

    A component that waits for a lease it may not read logs nothing else.
    """
    logged: list[str] = []
    while True:
        # Wait first: until the first listing ends there is always an obstacle.
        await clock.sleep(_LOOK_AGAIN)
        obstacles = look()
        if obstacles and obstacles != logged:
            _logger.warning(news.begins, obstacles=obstacles)
        elif logged and not obstacles:
            _logger.info(news.ends)
        logged = obstacles


def _describe(where: str, problem: Exception) -> str:
    if isinstance(problem, NotFoundError) and where.startswith(_OWN_KINDS):
        # First-time users often forget the CRDs.
        return f"{where}: {CRDS_MISSING}"
    return f"{where}: {problem}"


def _lacks_right(error: Exception) -> TypeGuard[ForbiddenError]:
    # A full quota or a policy also answers Forbidden, but no role would help.
    return isinstance(error, ForbiddenError) and error.right is not None


def _name_right(refusal: ForbiddenError) -> str:
    return f"missing right: {refusal.right}"


def _flaw(age: timedelta | None) -> str:
    if age is None:
        return "not everything has been listed yet"
    if age > OLDEST_VIEW:
        return f"no answer from the cluster for {age.total_seconds():.0f} s"
    return ""
