"""Pictures of a demo that never ran, for whatever shows them."""

from datetime import timedelta

from support.makers.records import MIB, NOW

from trimtab.core.model.resources import Resource
from trimtab.simulation.demo.news import DemoEvent, DemoEventKind
from trimtab.simulation.demo.picture import DemoRow, Gauge, Picture

GIB = 1024 * MIB
CORES = Gauge(used=100, requested=200, asked=1000, target=200, lower_bound=150, upper_bound=123_000)
MEMORY = Gauge(
    used=2 * GIB, requested=GIB, asked=GIB // 2, target=None, lower_bound=None, upper_bound=None
)


def a_row(title: str = "web", **fields: object) -> DemoRow:
    usual: dict[str, object] = {
        "habit": "busy by day",
        "pods": 3,
        "is_boosted": False,
        "gauges": {Resource.CPU: CORES, Resource.MEMORY: MEMORY},
    }
    return DemoRow(title, **(usual | fields))  # type: ignore[arg-type]


def a_picture(*news: DemoEvent, rows: int = 6, elapsed: timedelta = timedelta(hours=1)) -> Picture:
    return Picture(
        now=NOW,
        elapsed=elapsed,
        rows=tuple(a_row(f"part-{number}") for number in range(rows)),
        asked={Resource.CPU: 16_250, Resource.MEMORY: 24 * GIB},
        requested={Resource.CPU: 3_740, Resource.MEMORY: 9 * GIB},
        saved_hours={Resource.CPU: 250_000.4, Resource.MEMORY: 300.4 * GIB},
        counts=dict.fromkeys(DemoEventKind, 123),
        news=news,
    )


def some_news(kind: DemoEventKind = DemoEventKind.RESIZED, **fields: object) -> DemoEvent:
    usual: dict[str, object] = {
        "before": {Resource.CPU: 12_000, Resource.MEMORY: 12 * GIB},
        "after": {Resource.CPU: 340, Resource.MEMORY: 5 * GIB},
        "pod": "database-0",
        "times": 12,
    }
    return DemoEvent(NOW, "db leader", kind, **(usual | fields))  # type: ignore[arg-type]
