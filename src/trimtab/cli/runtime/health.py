"""Health: whether a component still does its work, and whether it can.

Liveness is about us: a loop that hangs or fails again and again is best started anew. So is a
process that could not read a required kind for a quarter of an hour: what it holds on to may be
what is wrong. Readiness is about the world: views that are missing or old, and rights that nobody
gave us (F43). Starting anew would not help there, so the reason is told instead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
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
"""A view that is older is not to be acted on; on a quiet day it is up to two minutes old."""
_OWN_KINDS: Final = "/apis/autoscaling.k8s.io/"
_LOOK_AGAIN: Final = timedelta(seconds=10)

_logger: Final = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ObstacleReport:
    """What is said when there are obstacles, and when there are none any more."""

    begins: str
    ends: str


NOT_READY: Final = ObstacleReport("not ready", "ready again")
HALF_BLIND: Final = ObstacleReport("works without seeing everything", "sees everything again")
"""Of what is good to know and keeps nobody from work."""


@dataclass(slots=True)
class Heartbeat:
    """When the loop of a component last did its work; asked only while it has to."""

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
            self._last = None

    def beat(self) -> None:
        """The loop has done its work once more."""
        self._last = self.elapsed()

    def flaws(self) -> list[str]:
        """Why we are not healthy; nothing if we are."""
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
        """Take a timeout, which is zero for a watchdog that never complains."""
        self._look = look
        self._elapsed = elapsed
        self._timeout = timeout
        self._began_at = elapsed()
        self._last: dict[str, tuple[datetime | None, timedelta]] = {}
        """By path when the view was current by the wall clock, and when that was seen."""

    def flaws(self) -> list[str]:
        """Return the kinds that were not read for too long, with what is in the way."""
        if self._timeout <= timedelta():
            return []
        return [text for read in self._look() if (text := self._flaw(read))]

    def _flaw(self, read: RequiredRead) -> str:
        now = self._elapsed()
        current_at, seen_at = self._last.get(read.path, (None, self._began_at))
        # A server that says no has answered; another process would get the same answer.
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
    """What readiness looks at of a cluster."""

    def age(self) -> timedelta | None:
        """How old the oldest view is; None before everything has been listed once."""

    def problems(self) -> Mapping[str, Exception]:
        """What keeps us from seeing or acting now, by where."""


def list_obstacles(view: ReadinessView, others: Iterable[Exception] = ()) -> list[str]:
    """Why a component cannot do its work now, one reason each; empty if it can.

    `others` are problems that the cluster does not know of: of an election, say. What passes by
    itself is not told as long as the views are fresh.
    """
    problems = view.problems()
    errors = [*problems.values(), *others]
    rights = [_name_right(one) for one in errors if _lacks_right(one)]
    rivals = [str(error) for error in errors if isinstance(error, RivalError)]
    flaw = _flaw(view.age())
    causes = [_tell(where, problem) for where, problem in problems.items()] if flaw else []
    return list(dict.fromkeys([*rights, *rivals, *([flaw] if flaw else []), *causes]))


def list_shortcomings(found: Mapping[str, Exception]) -> list[str]:
    """What a component works without, one line each, given what went wrong by where it is."""
    return [
        _name_right(error) if _lacks_right(error) else f"{where}: {error}"
        for where, error in found.items()
    ]


async def watch_obstacles(
    look: Callable[[], list[str]], clock: Clock, news: ObstacleReport = NOT_READY
) -> NoReturn:
    """Log what keeps a component from its work whenever that is news, until cancelled.

    Who waits for a lease that it may not even read does nothing that could be logged otherwise.
    """
    told: list[str] = []
    while True:
        # Not at once: in the first moments nothing has been listed, and that passes by itself.
        await clock.sleep(_LOOK_AGAIN)
        obstacles = look()
        if obstacles and obstacles != told:
            _logger.warning(news.begins, obstacles=obstacles)
        elif told and not obstacles:
            _logger.info(news.ends)
        told = obstacles


def _tell(where: str, problem: Exception) -> str:
    if isinstance(problem, NotFoundError) and where.startswith(_OWN_KINDS):
        # Whoever tries it for the first time meets this first.
        return f"{where}: {CRDS_MISSING}"
    return f"{where}: {problem}"


def _lacks_right(error: Exception) -> TypeGuard[ForbiddenError]:
    # A full quota or a policy forbids things too, but no role would help.
    return isinstance(error, ForbiddenError) and error.right is not None


def _name_right(refusal: ForbiddenError) -> str:
    return f"missing right: {refusal.right}"


def _flaw(age: timedelta | None) -> str:
    if age is None:
        return "not everything has been listed yet"
    if age > OLDEST_VIEW:
        return f"nothing was heard of the cluster for {age.total_seconds():.0f} s"
    return ""
