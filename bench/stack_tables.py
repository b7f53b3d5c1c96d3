"""The whole stack's part of the page of benchmarks: what is told of it, and in which words."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from bench.scoring import Entry
from bench.sections import Section
from bench.tables import Measure, Table, Unit

IDLE: Final = "idle"
"""The group of the entries."""
COSTS: Final = Table(
    (
        Measure("cpu", "CPU per minute", Unit.SECONDS),
        Measure("recommender_cpu", "of it the recommender", Unit.SECONDS),
        Measure("updater_cpu", "of it the updater", Unit.SECONDS),
        Measure("webhook_cpu", "of it the webhook", Unit.SECONDS),
        Measure("server_cpu", "CPU of the API server and etcd per minute", Unit.SECONDS),
        Measure("writes", "API writes per minute", Unit.COUNT),
        Measure("reads", "API reads per minute", Unit.COUNT),
        Measure("resident", "Resident memory", Unit.MEBIBYTES),
        Measure("peak", "The most memory", Unit.MEBIBYTES),
    ),
    "The stack is",
)
STATES: Final = Table(
    (
        Measure("watches", "Watches that are open", Unit.COUNT),
        Measure("evicted", "Evicted meanwhile", Unit.COUNT),
    ),
    "The stack is",
    has_ratios=False,
)
SECTION: Final = Section(
    "stack",
    "The whole stack at rest",
    head="""\
Recommender, updater and webhook of a side together, by their default flags, on the same API server
and objects, for {minutes:g} minutes from the middle between the recommender's first tick and its
second. All histories are eight days old, all statuses tell what our recommender made of them, and
every pod has that and a little more, so nothing should have to be done; nobody creates pods while a
side is watched. The webhook's memory is that of all its processes. Reads are those that are
answered at once, and the watches that are open, each as one read in the time that it lasts on
average: 7.5 minutes of the original's, 45 of ours, but 1.5 of events.
""",
    tables=(COSTS, STATES),
    bounds="""\
What bounds it: two thirds of ours is the recommender, which reads all usage once a minute and
writes a tenth of the checkpoints; a fifth is the updater, which reads what the recommender wrote
and looks at what changed. The original writes every status and every checkpoint in every tick.
Evictions are counted from the start on, and cost little of what is told here. They are of pods
whose bounds have moved by a bucket or two since they were sized, or are one number, the least that
is ever recommended: both sides find them outside, and differ in how fast they act on it.
""",
)


def tell(entries: Sequence[Entry]) -> Iterator[str]:
    """What was measured, as Markdown, with for how long."""
    minutes = min((entry.values["minutes"] for entry in entries), default=0)
    return replace(SECTION, head=SECTION.head.format(minutes=minutes)).tell(entries)
