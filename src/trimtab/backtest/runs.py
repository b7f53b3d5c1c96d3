"""Runs: contenders in scenarios over all workloads, on as many cores as there are.

Workloads do not know of each other, so they can be replayed in any company: the results are the
same to the bit, however the work is divided.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeAlias

from trimtab.backtest.contenders import Contender, make_policy, starting_requests
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


def run_all(runs: Sequence[Run], demand: Demand, *, jobs: int, tell: Progress) -> list[Tally]:
    """What became of each run."""
    shards = list(_shards(demand, jobs))
    parts = [(run, shard) for run in range(len(runs)) for shard in range(len(shards))]
    tallies: dict[tuple[int, int], Tally] = {}
    for part, tally in _play(runs, shards, parts, jobs):
        tallies[part] = tally
        tell(len(tallies), len(parts))
    return [join([tallies[run, each] for each in range(len(shards))]) for run in range(len(runs))]


def play(run: Run, demand: Demand) -> Tally:
    """What became of some workloads in one run."""
    requests = starting_requests(run.contender, demand, run.scenario)
    fleet = Fleet(requests, limits_of(requests, run.scenario))
    policy = make_policy(run.contender, demand)
    return Replay(demand, fleet, policy, Tally(len(demand))).run()


def _play(
    runs: Sequence[Run],
    shards: Sequence[Demand],
    parts: Sequence[tuple[int, int]],
    jobs: int,
) -> Iterator[tuple[tuple[int, int], Tally]]:
    if jobs == 1:
        for run, shard in parts:
            yield (run, shard), play(runs[run], shards[shard])
        return
    # Spawned, so that no lock of a thread of ours is copied.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        pending: dict[Future[Tally], tuple[int, int]] = {
            pool.submit(play, runs[run], shards[shard]): (run, shard) for run, shard in parts
        }
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield pending.pop(future), future.result()


def _shards(demand: Demand, jobs: int) -> Iterator[Demand]:
    """The workloads dealt out to so many, long and short ones alike."""
    count = min(jobs, len(demand)) or 1
    size = -(-len(demand) // count)
    for begin in range(0, len(demand), size):
        yield demand.only(slice(begin, begin + size))
