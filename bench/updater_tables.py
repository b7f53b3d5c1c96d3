"""The updater's part of the page of benchmarks: what is told of it, and in which words."""

from enum import StrEnum
from typing import Final

from bench.scoring import Measure, Table, Unit


class Task(StrEnum):
    """What is to be done: the groups of the updater's entries."""

    ALL = "all, limits lifted"
    ALL_BY_DEFAULT = "all, by default"
    NOTHING = "nothing"


CHANGING: Final = Table(
    (
        Measure("eviction_seconds", "100 evictions take", Unit.SECONDS, is_judged=False),
        Measure("seconds", "From the first to the last", Unit.SECONDS, is_judged=False),
        Measure("cpu", "CPU per 100 evictions", Unit.SECONDS),
        Measure("server_cpu", "CPU of the API server and etcd per 100", Unit.SECONDS),
        Measure("writes", "API writes per 100", Unit.COUNT),
        Measure("planning_cpu", "CPU from the start to the first eviction", Unit.SECONDS),
        Measure("peak", "The most memory", Unit.MEBIBYTES),
    ),
    "To be changed",
    (Task.ALL,),
)
PACE: Final = Table(
    (
        Measure("in_first_minute", "Evicted within a minute", Unit.COUNT),
        Measure("urgent_share", "The most urgent tenth among the first tenth", Unit.SHARE),
    ),
    "To be changed",
    (Task.ALL, Task.ALL_BY_DEFAULT),
    has_ratios=False,
)
RESTING: Final = Table(
    (
        Measure("cpu", "CPU per tick", Unit.SECONDS),
        Measure("resident", "Resident memory", Unit.MEBIBYTES),
        Measure("peak", "The most memory", Unit.MEBIBYTES),
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
ALL: Final = (CHANGING, PACE, RESTING, ASKING)
