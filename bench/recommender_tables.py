"""The recommender's part of the page of benchmarks: what is told of it, and in which words."""

from typing import Final

from bench.sections import Section
from bench.tables import Measure, Table, Unit

_SMALL: Final = "Memory and CPU of small clusters"
_NEW: Final = "New clusters"
SECTION: Final = Section(
    "recommender",
    "The recommender",
    head="""\
Both as processes on one real API server, with the same objects: autoscalers with two pods of two
containers each. No controller and no kubelet runs, the pods are written as running, and usage comes
from a small metrics API behind the API server, so that nothing but the two sides and the server
uses the cores. Ticks come every 5 to 20 seconds instead of every minute; ours saves everything once
in ten ticks, as it does by default, and all ten are measured, while of the original, which does the
same in each, it is three, or one beyond 1 000. Limits are how many requests a second a side allows
itself: *lifted* is as many as it likes; *default* is 50 for both, and is measured on demand
(`--limits default`). The original waits for a whole interval before its first tick; that wait is
taken off its times. Histories are eight days old where nothing else is said. What the API server
does by itself meanwhile is in its CPU. Reads of a tick are those that are answered at once; watches
are opened anew by their age, however many ticks that is, and are counted below, where the whole
stack is.
""",
    tables=(
        Table(
            (
                Measure("settled_cpu", "CPU per tick", Unit.SECONDS),
                Measure(
                    "settled_server_cpu", "CPU of the API server and etcd per tick", Unit.SECONDS
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
    ),
    bounds="""\
What bounds them, by profiles (cProfile, 3 000 autoscalers):

- *A tick in the long run.* A third goes into checkpoints (a tenth of them each time: drafting,
  one request each, and the watch event that comes back), somewhat less into decoding usage, a
  quarter into statuses, the rest into autoscalers and pods. All of it is linear. The original
  walks all pods for each autoscaler when it writes checkpoints.
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
