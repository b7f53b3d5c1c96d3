"""Runs: contenders in scenarios over all workloads, on as many cores as there are.

Workloads are independent, so they can be replayed in any grouping: the results are the same to
the bit, however the work is divided.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext
from ctypes import c_long
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from trimtab.backtest import timeline
from trimtab.backtest.contenders import Contender, make_policy, starting_requests
from trimtab.backtest.demand import Demand
from trimtab.backtest.fleet import Fleet, FleetSums, join
from trimtab.backtest.replay import Replay
from trimtab.backtest.scenarios import Scenario, limits_of
from trimtab.backtest.timeline import UsageTimeline

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

ResultT = TypeVar("ResultT")
_ResultT_co = TypeVar("_ResultT_co", covariant=True)

Progress: TypeAlias = Callable[[float], None]
"""Receives the share of the work that is done."""
_LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the progress of processes."""


class Work(Protocol[_ResultT_co]):
    """A part of the work, which any process can do."""

    def __call__(self, *, after_day: Callable[[], None]) -> _ResultT_co:
        """Do the work and return its result; call `after_day` at the end of each day."""
        ...


@dataclass(frozen=True, slots=True)
class WorkShare(Generic[ResultT]):
    """Some work, and how many days it has."""

    work: Work[ResultT]
    days: int


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """Processes that do the work."""

    jobs: int
    """Number of parts that are done at once."""
    pool: Executor | None = None
    """Processes somewhere else; without one, those of this machine are used."""


class _Days:
    """Number of days that are over; processes may share the count."""

    def __init__(self, shared: "Synchronized[int] | None" = None) -> None:
        self.shared = shared

    def note(self) -> None:
        """Count one more day."""
        if self.shared is not None:
            with self.shared.get_lock():
                self.shared.value += 1


def finish(
    parts: Sequence[WorkShare[ResultT]], workers: WorkerPool, report: Progress
) -> list[ResultT]:
    """Do all parts and return their results."""
    total = max(sum(part.days for part in parts), 1)
    if workers.jobs == 1 and workers.pool is None:
        return _finish_here(parts, lambda done: report(done / total))
    return _finish_elsewhere(parts, workers, lambda done: report(done / total))


def _finish_here(
    parts: Sequence[WorkShare[ResultT]], report: Callable[[int], None]
) -> list[ResultT]:
    days = count(1)
    return [part.work(after_day=lambda: report(next(days))) for part in parts]


def _finish_elsewhere(
    parts: Sequence[WorkShare[ResultT]], workers: WorkerPool, report: Callable[[int], None]
) -> list[ResultT]:
    context = get_context("spawn")  # So that no lock of a thread of ours is copied.
    days: Synchronized[int] = context.Value(c_long, 0)
    with (
        nullcontext(workers.pool)
        if workers.pool is not None
        else ProcessPoolExecutor(workers.jobs, context, initializer=_adopt, initargs=(days,))
    ) as pool:
        futures = [pool.submit(_perform, part.work) for part in parts]
        pending: set[Future[ResultT]] = set(futures)
        reported = 0
        while pending:
            _, pending = wait(pending, _LOOK_SECONDS, return_when=FIRST_COMPLETED)
            whole = zip(parts, futures, strict=True)
            # Processes on other machines count for themselves: of them only what is done is known.
            finished = sum(part.days for part, future in whole if future.done())
            if (done := max(days.value, finished)) > reported:
                reported = done
                report(done)
        return [future.result() for future in futures]


_HERE: Final = _Days()
"""Count of this process, for the process that sent the work."""


def _adopt(shared: "Synchronized[int]") -> None:
    _HERE.shared = shared


def _perform(work: Work[ResultT]) -> ResultT:
    return work(after_day=_HERE.note)


@dataclass(frozen=True, slots=True)
class Run:
    """One contender in one scenario."""

    contender: Contender
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Result of one run for some workloads."""

    tally: FleetSums
    timeline: UsageTimeline
    """Empty unless the timeline was asked for."""


def run_all(
    runs: Sequence[Run],
    demand: Demand,
    *,
    workers: WorkerPool,
    report: Progress,
    keeps_timeline: bool = False,
) -> list[RunOutcome]:
    """Play all runs and return their outcomes."""
    # Most of what a move costs does not depend on how many make it: no more shards than needed.
    shards = list(_shards(demand, -(-workers.jobs // max(len(runs), 1))))
    stretch = timeline.stretch(demand) if keeps_timeline else 0
    parts = [
        WorkShare(partial(play, run, shard, stretch), shard.days)
        for run in runs
        for shard in shards
    ]
    outcomes = finish(parts, workers, report)
    count = len(shards)
    return [_join(outcomes[begin : begin + count]) for begin in range(0, len(outcomes), count)]


def play(
    run: Run, demand: Demand, stretch: int = 0, *, after_day: Callable[[], None] = lambda: None
) -> RunOutcome:
    """Play one run over some workloads; `stretch` steps are drawn as one, none if zero."""
    requests = starting_requests(run.contender, demand, run.scenario)
    fleet = Fleet(requests, limits_of(requests, demand, run.scenario))
    policy = make_policy(run.contender, demand, fleet)
    stretches = -(-len(demand.amounts) // stretch) if stretch else 0
    drawn = timeline.blank(stretches, stretch, len(demand))
    tally = FleetSums(len(demand))
    noted = drawn if stretch else None
    Replay(demand, fleet, policy, tally, timeline=noted, after_day=after_day).run()
    return RunOutcome(tally, drawn)


def _join(outcomes: Sequence[RunOutcome]) -> RunOutcome:
    return RunOutcome(
        join([outcome.tally for outcome in outcomes]),
        timeline.join_timelines([outcome.timeline for outcome in outcomes]),
    )


def _shards(demand: Demand, count: int) -> Iterator[Demand]:
    """Divide the workloads into `count` groups, in their order."""
    count = min(count, len(demand)) or 1
    size = -(-len(demand) // count)
    for begin in range(0, len(demand), size):
        yield demand.only(slice(begin, begin + size))
