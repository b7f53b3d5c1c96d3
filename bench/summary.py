"""The first table of the page: what a cluster feels, the least flattering line first."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from bench import scoring, tables
from bench.admission_tables import COLD, GOVERNED, STARTED, WARM
from bench.contestants import Limits
from bench.findings import Findings
from bench.recommender_tables import join_group
from bench.scoring import Score
from bench.stack_tables import IDLE
from bench.tables import Unit
from bench.updater_tables import Task
from bench.workloads import Swing

SIZE: Final = 1000
_HEAD: Final = f"""
## In short

{SIZE} autoscalers of two pods with two containers each. The least flattering line stands first. A
line says under which conditions it holds; what ours owes to caches or to a rotation is named. Where
more is better the ratio is turned round, so that more than 1 is ours everywhere.

| | Conditions | Trimtab | original | original ÷ Trimtab |
|---|---|--:|--:|--:|
"""
_NOT_MEASURED: Final = """
Not measured yet:

"""
_NARROW: Final = join_group(Limits.LIFTED, Swing.NARROW)
_WIDE: Final = join_group(Limits.LIFTED, Swing.WIDE)
_CACHED: Final = "pods of 100 workloads in turn: ours finds its answers in a cache"
_NO_CACHE: Final = "pods of all workloads in random order, none seen before"
_SOME_CACHE: Final = "pods of all workloads in random order, each seen once"
_STEADY: Final = "steady usage; of checkpoints ours writes a part in each tick"
_SWINGING: Final = "usage ±50 %; of checkpoints ours writes a part in each tick"


@dataclass(frozen=True, slots=True)
class Point:
    """A line of the table: a measure of a section under some conditions."""

    section: str
    name: str
    group: str
    unit: Unit
    title: str
    conditions: str
    more_is_better: bool = False


def _list_recommender() -> Iterator[Point]:
    server = "Recommender: CPU of the API server and etcd per tick"
    for group, words in ((_NARROW, _STEADY), (_WIDE, _SWINGING)):
        point = partial(Point, "recommender", group=group, conditions=words)
        yield point("settled_cpu", unit=Unit.SECONDS, title="Recommender: CPU per tick")
        yield point("settled_writes", unit=Unit.COUNT, title="Recommender: API writes per tick")
        yield point("settled_server_cpu", unit=Unit.SECONDS, title=server)
    point = partial(Point, "recommender", group=_NARROW)
    young = "histories minutes old"
    title = "Recommender: CPU per tick"
    yield point("young_cpu", unit=Unit.SECONDS, title=title, conditions=young)
    title = "Recommender: resident memory"
    yield point("resident", unit=Unit.MEBIBYTES, title=title, conditions="steady usage")
    title = "Recommender: CPU until all is recommended"
    yield point("first_cpu", unit=Unit.SECONDS, title=title, conditions="a new cluster")


def _list_updater() -> Iterator[Point]:
    title = "Updater: from the first eviction to the last"
    point = partial(Point, "updater", unit=Unit.SECONDS)
    alone, together = "limits lifted, no controllers", "limits lifted, controllers replace pods"
    yield point("seconds", Task.ALL, title=title, conditions=alone)
    yield point("seconds", Task.ALL_CONTROLLED, title=title, conditions=together)
    title = "Updater: CPU from the start to the first eviction"
    yield point("planning_cpu", Task.ALL, title=title, conditions="all objects are read first")
    yield Point(
        "updater",
        "in_first_minute",
        Task.ALL_BY_DEFAULT,
        Unit.COUNT,
        "Updater: evicted within a minute of the first",
        "default limits of both; ours holds back by choice",
        more_is_better=True,
    )


def _list_webhook() -> Iterator[Point]:
    cpu, half = "Webhook: CPU per 1 000 requests", "Webhook: half are answered within"
    point = partial(Point, "admission")
    for group, words in ((GOVERNED, _CACHED), (COLD, _NO_CACHE), (WARM, _SOME_CACHE)):
        yield point("cpu", group, Unit.SECONDS, cpu, words)
        yield point("p50", group, Unit.MILLISECONDS, half, words)
    yield point("p99", COLD, Unit.MILLISECONDS, "Webhook: 99 % are answered within", _NO_CACHE)
    yield point("cpu", STARTED, Unit.SECONDS, "Webhook: CPU until the first patch", "a start")


def _list_stack() -> Iterator[Point]:
    server = "All components: CPU of the API server and etcd per minute"
    point = partial(Point, "stack", group=IDLE, conditions="nothing to do")
    yield point("cpu", unit=Unit.SECONDS, title="All components: CPU per minute")
    yield point("server_cpu", unit=Unit.SECONDS, title=server)
    yield point("writes", unit=Unit.COUNT, title="All components: API writes per minute")
    yield point("resident", unit=Unit.MEBIBYTES, title="All components: resident memory")


POINTS: Final = (*_list_recommender(), *_list_updater(), *_list_webhook(), *_list_stack())


def tell(found: Findings) -> Iterator[str]:
    """The table as Markdown, and which of its lines were not measured."""
    lines, missing = [], []
    for point in POINTS:
        entries = found.entries[point.section]
        if (point.group, SIZE) in scoring.list_cases(entries, point.name):
            lines.append(_format(point, scoring.score(entries, (point.group, SIZE), point.name)))
        else:
            missing.append(f"- {point.title}: {point.conditions}\n")
    if lines:
        yield _HEAD
        yield from (line for _, line in sorted(lines))
    if missing:
        yield _NOT_MEASURED
        yield from missing


def _format(point: Point, score: Score) -> tuple[float, str]:
    """A line, and the ratio by which it is placed."""
    ratios = [1 / each for each in score.ratios] if point.more_is_better else score.ratios
    told = [
        point.title,
        point.conditions,
        point.unit.tell(score.ours),
        point.unit.tell(score.original),
        tables.format_ratios(ratios),
    ]
    return statistics.median(ratios), f"| {' | '.join(told)} |\n"
