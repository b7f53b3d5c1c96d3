"""What stands on the page of benchmarks of what a recommender writes in the long run."""

from collections.abc import Iterator
from typing import Final

from rig.fake_node import Json

_HEAD: Final = """
## What the recommender writes in the long run

Counted, not timed: averages per tick of {autoscalers} autoscalers of two containers, in a process
whose API server is played (`python -m bench.writes`), at commit `{commit}`. Usage never repeats;
*wide* is anywhere between half and one and a half times the average, for CPU and memory. In the
first ticks after a start memory windows have just begun, and their peaks still rise. The original
writes every status and every checkpoint in each tick: {of_the_original} objects.

| Usage | | Statuses | Checkpoints | Both | KiB | Writes of the original ÷ Trimtab |
|---|---|--:|--:|--:|--:|--:|
"""
_BOUNDS: Final = """
What bounds it: a status is written at once where a target changed or a bound passed a request, and
within ten minutes or an hour otherwise; a checkpoint once in ten minutes where a recommendation
changed, and once in thirty otherwise (decision
[0052](decisions/0052-bounds-are-written-where-they-pass-a-request.md)). So in the long run the
rotation of checkpoints is most of it, and how far usage swings hardly matters.
"""


def tell(found: Json) -> Iterator[str]:
    """All of it as Markdown; nothing if nothing was counted."""
    if not found:
        return
    yield _HEAD.format(**found)
    for run in found["runs"]:
        both = run["statuses"] + run["checkpoints"]
        told = [
            run["swing"],
            run["ticks"],
            *(f"{run[name]:.0f}" for name in ("statuses", "checkpoints")),
            f"{both:.0f}",
            f"{run['bytes'] / 1024:.0f}",
            f"**{found['of_the_original'] / both:.0f}**",
        ]
        yield f"| {' | '.join(told)} |\n"
    yield _BOUNDS
