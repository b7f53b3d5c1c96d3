"""What is told of one recommender for many containers; the original has no part in this."""

from collections.abc import Iterator
from typing import Final

from bench import scoring, tables
from bench.tables import Growth, Unit
from rig.fake_node import Json

_HEAD: Final = """
## One recommender for many containers

A recommender whose API server is played within its own process: lists are answered by pages made on
the spot, writes are taken, and its clock goes on by a minute from tick to tick. All else is the
product. It starts with full checkpoints; the original has no part in this. Of ticks after the first
one it is the median of ten.

| Containers | Autoscalers | The most memory | CPU: until all is listed | first tick | each tick |
|--:|--:|--:|--:|--:|--:|
"""
_COSTS: Final = {
    "peak_bytes": "The most memory",
    "cpu_seconds_to_list": "CPU until all is listed",
    "cpu_seconds_of_first_tick": "CPU of the first tick",
    "cpu_seconds_per_tick": "CPU of each tick",
}


def tell(capacity: Json) -> Iterator[str]:
    """What was measured, as Markdown."""
    yield _HEAD
    yield from map(_format_run, capacity["runs"])
    yield "\n" + tables.format_growths(list_growths(capacity))


def list_growths(capacity: Json) -> Iterator[Growth]:
    """How the costs grow with the number of containers."""
    sizes = sorted(run["containers"] for run in capacity["runs"])
    for name, title in _COSTS.items() if len(sizes) > 1 else ():
        slope = scoring.exponent({run["containers"]: run[name] for run in capacity["runs"]})
        yield Growth(title, "containers", sizes, slope, None)


def _format_run(run: Json) -> str:
    count = f"{run['containers']:,}".replace(",", " ")
    return (
        f"| {count} | {run['autoscalers']:.0f} | {Unit.MEBIBYTES.tell(run['peak_bytes'])} "
        f"| {run['cpu_seconds_to_list']:.1f} s | {run['cpu_seconds_of_first_tick']:.1f} s "
        f"| {run['cpu_seconds_per_tick']:.2f} s |\n"
    )
