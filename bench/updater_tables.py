"""The updater's part of the page of benchmarks: what is told of it, and in which words."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from bench import scoring, tables
from bench.scoring import Entry
from bench.sections import Section
from bench.tables import Growth, Measure, Table, Unit
from rig.fake_node import Json


class Task(StrEnum):
    """What is to be done: the groups of the updater's entries."""

    ALL = "all, limits lifted"
    ALL_CONTROLLED = "all, limits lifted, controllers run"
    ALL_BY_DEFAULT = "all, by default"
    NOTHING = "nothing"


_EVICTIONS: Final = "Evictions"
_READS: Final = "Reads at the start"
_FIRST: Final = "CPU before the first eviction"
_SMALL: Final = "Memory of small clusters"
_TIMES: Final = (
    Measure(
        "eviction_seconds",
        "100 evictions take",
        Unit.SECONDS,
        is_judged=False,
        is_share=True,
        bound=_EVICTIONS,
    ),
    Measure(
        "seconds", "From the first to the last", Unit.SECONDS, is_judged=False, bound=_EVICTIONS
    ),
)
CHANGING: Final = Table(
    (
        *_TIMES,
        Measure("cpu", "CPU per 100 evictions", Unit.SECONDS, is_share=True, bound=_EVICTIONS),
        Measure(
            "server_cpu", "CPU of the API server and etcd per 100", Unit.SECONDS, is_share=True
        ),
        Measure("writes", "API writes per 100", Unit.COUNT, is_share=True, bound=_EVICTIONS),
        Measure("reads", "API reads from the start to the end", Unit.COUNT, bound=_READS),
        Measure(
            "planning_cpu", "CPU from the start to the first eviction", Unit.SECONDS, bound=_FIRST
        ),
        Measure("peak", "The most memory", Unit.MEBIBYTES, bound=_SMALL),
    ),
    "To be changed",
    (Task.ALL, Task.ALL_CONTROLLED),
)
PACE: Final = Table(
    (
        Measure("in_first_minute", "Evicted within a minute", Unit.COUNT),
        Measure("urgent_share", "The most urgent tenth among the first tenth", Unit.SHARE),
    ),
    "To be changed",
    (Task.ALL, Task.ALL_CONTROLLED, Task.ALL_BY_DEFAULT),
    has_ratios=False,
)
RESTING: Final = Table(
    (
        Measure("cpu", "CPU per tick", Unit.MILLISECONDS),
        Measure("resident", "Resident memory", Unit.MEBIBYTES, bound=_SMALL),
        Measure("peak", "The most memory", Unit.MEBIBYTES, bound=_SMALL),
    ),
    "To be changed",
    (Task.NOTHING,),
)
ASKING: Final = Table(
    (
        Measure("reads", "API reads per tick", Unit.COUNT),
        Measure("writes", "API writes per tick", Unit.COUNT),
    ),
    "To be changed",
    (Task.NOTHING,),
    has_ratios=False,
)
SECTION: Final = Section(
    "updater",
    "The updater",
    head="""\
Both as processes on one real API server, with the same objects: autoscalers with two pods of two
containers each, which run, and no controller. *All*: every pod is outside of its bounds. Nothing
replaces evicted pods, so each workload may lose one of its two, by the tolerance that both have;
that is the end. Where *controllers run*, the kube-controller-manager replaces them on the same
cores. No scheduler places the new pods, so the end is the same; API writes and the server's CPU are
then with what the controllers do. Both sides log at `--v=1`. *Limits lifted* is as many requests as
it likes for both, and for ours no rate limit of evictions and no slow start
(`--eviction-rate-limit=0 --eviction-slow-start=0s`); the original has no such limit by default. *By
default* both keep their limits, and are watched for a minute. Ticks come every minute, as by
default; the time before the first eviction is not counted. *Nothing*: every pod has what is
recommended, and ticks come every 2 to 10 seconds. No webhook runs, so both are told not to look for
one (`--use-admission-controller-status=false`). 3 000 autoscalers are measured on demand (`--sizes
3000`).
""",
    tables=(CHANGING, PACE, RESTING, ASKING),
    bounds="""\
What bounds them, by profiles (cProfile) and by what the API server uses:

- *Evictions.* The API server takes 100 ms for each, since it asks its store only so often how far
  that is; evictions under way share the wait. The original sends one after the other, ends with
  its interval, and begins anew in another order. Ours keeps 16 under way, the most urgent first
  (`--update-worker-count`), and is then bounded by the cores that it shares with the API server,
  which needs several times its CPU. An eviction is three writes for both: itself and two events;
  ours also tells on an autoscaler that its other pod has to wait.
- *By default* ours evicts one pod in ten seconds after a start, and one a second ten minutes
  later: that is a choice, not a bound.
- *A tick with nothing to do.* Half goes into finding the owners of pods and the targets of
  autoscalers, a third into the plan, which compares addresses where nothing changed, the rest into
  what is told of it. The original compares each pod with each autoscaler.
- *Reads at the start.* Ours lists objects of fourteen kinds, 500 at a time, then watches them;
  the original asks for ten kinds, and for list and watch of each in one request. Neither reads
  anything after that.
- *CPU before the first eviction.* 0.2 s goes into imports, the rest into reading all objects (80 µs
  a pod, of which decoding JSON is a tenth and making our records of it most) and into the first
  plan, which has to look at every pod (70 µs).
- *Memory of small clusters.* At 100 autoscalers nearly all of ours is the interpreter with its
  imports; what each further one adds is less than half of what it adds to the original.
""",
)
_PLANNING: Final = """
What planning costs ours, in CPU milliseconds of one process whose API server is simulated, medians
of {rounds} rounds. A plan is the pure decision; a turn is all that the updater does up to the first
request. *First* is after a start, *again* is with nothing new, *rewritten* is after the status of
every autoscaler was written.

| | Autoscalers | To be changed | first | again | rewritten |
|---|--:|---|--:|--:|--:|
"""


def tell(entries: Sequence[Entry], planning: Json) -> Iterator[str]:
    """What was measured, as Markdown."""
    return SECTION.tell(entries, tell_of_planning(planning))


def tell_of_planning(planning: Json) -> Iterator[str]:
    """What planning costs, and how that grows, as Markdown."""
    yield _PLANNING.format(rounds=planning["rounds"])
    yield from map(_format_line, sorted(planning["lines"], key=_order))
    yield "\n" + tables.format_growths(list_planning_growths(planning))


def list_planning_growths(planning: Json) -> Iterator[Growth]:
    """How the costs of planning grow; the original has no part in this."""
    for what, group in sorted({_order(line) for line in planning["lines"]}):
        lines = [line for line in planning["lines"] if _order(line) == (what, group)]
        sizes = sorted(line["autoscalers"] for line in lines)
        for name in lines[0]["costs"] if len(sizes) > 1 else ():
            costs = {line["autoscalers"]: line["costs"][name] for line in lines}
            slope = scoring.exponent(costs)
            yield Growth(f"Planning: {what}, {name}", group, sizes, slope, None)


def _order(line: Json) -> tuple[str, str]:
    return line["what"], line["to_be_changed"]


def _format_line(line: Json) -> str:
    told = " | ".join(f"{milliseconds:.0f} ms" for milliseconds in line["costs"].values())
    return f"| {line['what']} | {line['autoscalers']} | {line['to_be_changed']} | {told} |\n"
