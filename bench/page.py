"""The page of benchmarks, made of the results that are written down: never typed.

python -m bench.page
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import (
    admission_tables,
    capacity_tables,
    core_tables,
    findings,
    goals,
    recommender_tables,
    stack_tables,
    summary,
    updater_tables,
    writes_tables,
)
from bench.findings import Findings
from bench.sections import RESULTS

PAGE: Final = Path(__file__).parents[1] / "docs/benchmarks.md"
_HEAD: Final = """\
# Benchmarks

Trimtab and the original, version 1.8.1, side by side. `make bench` measures both in one run, in
turns, and writes this page from the files in `bench/results`; `make bench BENCH=--short` tries all
of it in minutes, `make bench BENCH=--in-short` renews the first table but for the stack at rest,
and `make bench BENCH='--parts updater --sizes 100 --rounds 5'` renews a part. A ratio says **how
many times more the original needs**; it is taken within a round, and told as the median of the
rounds with the least and the most. CPU seconds, requests and bytes mean something on any machine;
the time that passes depends on what else the machine does, and is not judged.

A round is written down as soon as both sides are through, in place of all that was known of its
size and conditions, so rounds of two runs never mix, and a run that is interrupted keeps what was
complete. A ratio of which even the best round is more than a tenth worse than the recorded median
fails the run; of that size and those conditions nothing is written then, unless `--accept` is
given.
"""
_STORE: Final = """
## Stored pods

A pod of {wire_bytes_per_pod} bytes on the wire takes {stored_bytes_per_pod} bytes in a store;
{pods} of them are listed in {cpu_seconds_to_fill} s of CPU.
"""


def format_page(folder: Path = RESULTS) -> str:
    """The page that the results in a folder make."""
    return "".join(_tell(findings.read(folder)))


def _tell(found: Findings) -> Iterator[str]:
    yield _HEAD
    yield from summary.tell(found)
    yield from goals.tell(found)
    yield from recommender_tables.tell(found.entries["recommender"])
    yield from updater_tables.tell(found.entries["updater"], found.planning)
    yield from admission_tables.SECTION.tell(found.entries["admission"])
    yield from stack_tables.tell(found.entries["stack"])
    yield from core_tables.SECTION.tell(found.entries["core"])
    yield from writes_tables.tell(found.writes)
    yield from capacity_tables.tell(found.capacity)
    yield _STORE.format(**found.store)


def write() -> None:
    """Write the page anew."""
    PAGE.write_text(format_page(), encoding="utf-8")


if __name__ == "__main__":
    write()
