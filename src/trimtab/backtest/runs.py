"""Runs: contenders in scenarios over all workloads, on as many cores as there are.

Workloads do not know of each other, so they can be replayed in any company: the results are the
same to the bit, however the work is divided.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from trimtab.backtest import course
from trimtab.backtest.contenders import Contender, make_policy, starting_requests
from trimtab.backtest.course import Course
from trimtab.backtest.crews import Crew, Part, Progress, finish
from trimtab.backtest.demand import Demand
from trimtab.backtest.fleet import Fleet
from trimtab.backtest.replay import Replay
from trimtab.backtest.scenarios import Scenario, limits_of
from trimtab.backtest.tally import Tally, join
from trimtab.core.records import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """One contender in one scenario."""

    contender: Contender
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of some workloads in one run."""

    tally: Tally
    course: Course
    """Empty unless somebody wants to see it."""


def run_all(
    runs: Sequence[Run], demand: Demand, *, crew: Crew, tell: Progress, keeps_course: bool = False
) -> list[Outcome]:
    """What became of each run."""
    # Most of what a move costs does not depend on how many make it: no more shards than needed.
    shards = list(_shards(demand, -(-crew.jobs // max(len(runs), 1))))
    stretch = course.stretch(demand) if keeps_course else 0
    parts = [
        Part(partial(play, run, shard, stretch), shard.days) for run in runs for shard in shards
    ]
    outcomes = finish(parts, crew, tell)
    count = len(shards)
    return [_join(outcomes[begin : begin + count]) for begin in range(0, len(outcomes), count)]


def play(
    run: Run, demand: Demand, stretch: int = 0, *, after_day: Callable[[], None] = lambda: None
) -> Outcome:
    """What became of some workloads in one run, drawn in stretches of so many steps if any."""
    requests = starting_requests(run.contender, demand, run.scenario)
    fleet = Fleet(requests, limits_of(requests, demand, run.scenario))
    policy = make_policy(run.contender, demand)
    stretches = -(-len(demand.amounts) // stretch) if stretch else 0
    drawn = course.blank(stretches, stretch, len(demand))
    tally = Tally(len(demand))
    noted = drawn if stretch else None
    Replay(demand, fleet, policy, tally, course=noted, after_day=after_day).run()
    return Outcome(tally, drawn)


def _join(outcomes: Sequence[Outcome]) -> Outcome:
    return Outcome(
        join([outcome.tally for outcome in outcomes]),
        course.join_courses([outcome.course for outcome in outcomes]),
    )


def _shards(demand: Demand, count: int) -> Iterator[Demand]:
    """The workloads dealt out to so many, long and short ones alike."""
    count = min(count, len(demand)) or 1
    size = -(-len(demand) // count)
    for begin in range(0, len(demand), size):
        yield demand.only(slice(begin, begin + size))
