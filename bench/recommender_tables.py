"""The recommender's part of the page of benchmarks: what is told of it, and in which words."""

from collections.abc import Iterator, Sequence
from typing import Final

from bench import scoring
from bench.contestants import Limits
from bench.scoring import Entry
from bench.sections import Section
from bench.tables import Measure, Table, Unit
from bench.workloads import Swing

_SMALL: Final = "Memory and CPU of small clusters"
_NEW: Final = "New clusters"
_WIDE: Final = ", usage ±50 %"


def join_group(limits: Limits, swing: Swing) -> str:
    """Name the conditions of a turn."""
    return limits + (_WIDE if swing is Swing.WIDE else "")


def split_group(group: str) -> tuple[Limits, Swing]:
    """Read the conditions of a turn."""
    swing = Swing.WIDE if group.endswith(_WIDE) else Swing.NARROW
    return Limits(group.removesuffix(_WIDE)), swing


SECTION: Final = Section(
    "recommender",
    "The recommender",
    head="""\
Both as processes on one real API server, with the same objects: autoscalers with two pods of two
containers each. No controller and no kubelet runs, the pods are written as running, and usage comes
from a small metrics API behind the API server, so that nothing but the two sides and the server
uses the cores. Ticks come every 3 to 10 seconds instead of every minute. Ours has a *rotation*: it
writes checkpoints whose recommendation changed once in ten ticks, and all others once in thirty.
All thirty are measured, while of the original, which writes everything in each, it is three, or one
beyond 1 000. Limits are how many requests a second a side allows itself: *lifted* is as many as it
likes; *default* is 50 for both, and is measured on demand (`--limits default`). *Usage ±50 %* is
drawn anew for every container and tick between half and one and a half times its average, CPU and
memory alike; elsewhere CPU spreads by 15 % and memory hardly moves. Both sides log at `--v=3`, the
least at which the log of the original shows its ticks. The original waits for a whole interval
before its first tick; that wait is taken off its times. Histories are eight days old where nothing
else is said. Reads of a tick are those that are answered at once; watches are opened anew by their
age, however many ticks that is, and are counted below, where the whole stack is.
""",
    tables=(
        Table(
            (
                Measure("settled_cpu", "CPU per tick", Unit.SECONDS),
                Measure(
                    "settled_server_cpu", "CPU of the API server and etcd per tick", Unit.SECONDS
                ),
                Measure(
                    "settled_caused_cpu",
                    "the same without what both use by themselves",
                    Unit.SECONDS,
                ),
                Measure("settled_writes", "API writes per tick", Unit.COUNT),
                Measure("settled_reads", "API reads per tick", Unit.COUNT),
                Measure("settled_seconds", "A tick lasts", Unit.SECONDS, is_judged=False),
                Measure("resident", "Resident memory", Unit.MEBIBYTES, bound=_SMALL),
                Measure("peak", "The most memory", Unit.MEBIBYTES, bound=_SMALL),
                Measure("young_cpu", "CPU per tick, histories minutes old", Unit.SECONDS),
                Measure("young_writes", "API writes per tick, histories minutes old", Unit.COUNT),
                Measure(
                    "first_seconds",
                    "New cluster: all recommended after",
                    Unit.SECONDS,
                    is_judged=False,
                    bound=_NEW,
                ),
                Measure("first_cpu", "New cluster: CPU until then", Unit.SECONDS, bound=_SMALL),
                Measure(
                    "restart_seconds",
                    "Restart: first tick done after",
                    Unit.SECONDS,
                    is_judged=False,
                    bound=_NEW,
                ),
                Measure("restart_cpu", "Restart: CPU until then", Unit.SECONDS, bound=_SMALL),
            )
        ),
        Table(
            (
                Measure("settled_logged", "Bytes logged per tick", Unit.BYTES),
                Measure(
                    "server_idle_cpu",
                    "CPU of the API server and etcd by themselves, per minute",
                    Unit.SECONDS,
                ),
            ),
            has_ratios=False,
        ),
    ),
    bounds="""\
What bounds them, by profiles (cProfile, 3 000 autoscalers):

- *A tick in the long run.* A third goes into checkpoints (a tenth of them each time: drafting,
  one request each, and the watch event that comes back), somewhat less into decoding usage, a
  quarter into statuses, the rest into autoscalers and pods. All of it is linear. The original
  walks all pods for each autoscaler when it writes checkpoints. These shares are from before
  decision 0052, when a tick wrote about three times as many checkpoints.
- *Usage that swings.* What a tick computes costs nearly the same; what it writes made the
  difference. Each new peak of a memory window that has just begun lifts a lower bound. Ours writes
  that at once where it passes a request, and in turn otherwise. While windows are young it saves
  changed checkpoints once in ten ticks; an hour later both kinds of usage cost about the same
  ([counted](#what-the-recommender-writes-in-the-long-run)).
- *A tick of young histories.* Bounds halve with the second sample, so every status is written, as
  the original does in every tick. What is left is the price of a request in Python.
- *Memory and CPU of small clusters.* Before its first line of work our process has spent 0.3 s of
  CPU on imports and holds 48 MiB: 21 for the interpreter with its event loop and TLS, 12 for numpy,
  7 for our own modules, the rest for decoding, logs and metrics. Connections, the objects of 100
  autoscalers and the first tick add 14. Making the classes of our records was a third of the time
  once, and is a tenth now (decision 0041). These figures are from before decision 0048: since then
  the parser of command lines adds about 0.1 s and 3 MiB.
- *New clusters.* The same imports come first, at restarts, too; then the API server takes the
  statuses, ten at a time, as fast as it can on the cores that both share. The figures leave out
  that the original waits for a minute by default before it begins.
""",
)


_OLD: Final = """
*Older figures* are those of {cases}.
They were measured over ten ticks of ours, with usage that repeated after eight. Ours wrote every
checkpoint within ten ticks then (before decision 0052).
"""


def tell(entries: Sequence[Entry]) -> Iterator[str]:
    """All of the section, and which of its figures were measured in an older way."""
    older = [entry for entry in entries if "settled_caused_cpu" not in entry.values]
    cases = ", ".join(f"{size} {group}" for group, size in scoring.list_cases(older))
    yield from SECTION.tell(entries, [_OLD.format(cases=cases)] if older else [])
