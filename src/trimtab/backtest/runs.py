"""Runs: contenders in scenarios over all workloads, on as many cores as there are.

Workloads do not know of each other, so they can be replayed in any company: the results are the
same to the bit, however the work is divided.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeAlias

from trimtab.backtest import course
from trimtab.backtest.contenders import Contender, make_policy, starting_requests
from trimtab.backtest.course import Course
from trimtab.backtest.demand import Demand
from trimtab.backtest.fleet import Fleet
from trimtab.backtest.replay import Replay
from trimtab.backtest.scenarios import Scenario, limits_of
from trimtab.backtest.tally import Tally, join


@dataclass(frozen=True, slots=True)
class Run:
    """One contender in one scenario."""

    contender: Contender
    scenario: Scenario


Progress: TypeAlias = Callable[[int, int], None]
"""Is told how many parts of the work are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of some workloads in one run."""

    tally: Tally
    course: Course
    """Empty unless somebody wants to see it."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Who does the work."""

    jobs: int
    """How many parts are replayed at once."""
    pool: Executor | None = None
    """Processes somewhere else; those of this machine if there are none."""


def run_all(
    runs: Sequence[Run], demand: Demand, *, crew: Crew, tell: Progress, keeps_course: bool = False
) -> list[Outcome]:
    """What became of each run."""
    # Most of what a move costs does not depend on how many make it: no more shards than needed.
    shards = list(_shards(demand, -(-crew.jobs // max(len(runs), 1))))
    parts = [(run, shard) for run in range(len(runs)) for shard in range(len(shards))]
    stretch = course.stretch(demand) if keeps_course else 0
    outcomes: dict[tuple[int, int], Outcome] = {}
    for part, outcome in _play(runs, shards, parts, stretch, crew):
        outcomes[part] = outcome
        tell(len(outcomes), len(parts))
    return [_join([outcomes[run, each] for each in range(len(shards))]) for run in range(len(runs))]


def play(run: Run, demand: Demand, stretch: int = 0) -> Outcome:
    """What became of some workloads in one run, drawn in stretches of so many steps if any."""
    requests = starting_requests(run.contender, demand, run.scenario)
    fleet = Fleet(requests, limits_of(requests, demand, run.scenario))
    policy = make_policy(run.contender, demand)
    stretches = -(-len(demand.amounts) // stretch) if stretch else 0
    drawn = course.blank(stretches, stretch, len(demand))
    tally = Tally(len(demand))
    Replay(demand, fleet, policy, tally, course=drawn if stretch else None).run()
    return Outcome(tally, drawn)


def _join(outcomes: Sequence[Outcome]) -> Outcome:
    return Outcome(
        join([outcome.tally for outcome in outcomes]),
        course.join_courses([outcome.course for outcome in outcomes]),
    )


def _play(
    runs: Sequence[Run],
    shards: Sequence[Demand],
    parts: Sequence[tuple[int, int]],
    stretch: int,
    crew: Crew,
) -> Iterator[tuple[tuple[int, int], Outcome]]:
    if crew.jobs == 1 and crew.pool is None:
        for run, shard in parts:
            yield (run, shard), play(runs[run], shards[shard], stretch)
        return
    with _pool(crew) as pool:
        pending: dict[Future[Outcome], tuple[int, int]] = {
            pool.submit(play, runs[run], shards[shard], stretch): (run, shard)
            for run, shard in parts
        }
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield pending.pop(future), future.result()


@contextmanager
def _pool(crew: Crew) -> Iterator[Executor]:
    if crew.pool is not None:
        yield crew.pool
        return
    # Spawned, so that no lock of a thread of ours is copied.
    with ProcessPoolExecutor(crew.jobs, mp_context=get_context("spawn")) as pool:
        yield pool


def _shards(demand: Demand, count: int) -> Iterator[Demand]:
    """The workloads dealt out to so many, long and short ones alike."""
    count = min(count, len(demand)) or 1
    size = -(-len(demand) // count)
    for begin in range(0, len(demand), size):
        yield demand.only(slice(begin, begin + size))
