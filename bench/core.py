"""One tick of the histograms, ours beside the original's, on the same samples in the same run.

A tick is one sample for every container and three percentiles of every histogram. The original is
a small Go program on its own module (`peer/`): one decaying histogram object per container. Both
sides take turns, tick by tick. What counts is CPU time, and what each side holds in memory; before
any figure is believed, every percentile and the weight of every bucket has to be equal.

Writes `results/core.json` and `results/core.md`. Needs Go.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

# One thread, as in production; has to be said before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from rig import building
from trimtab.core.buckets import CPU_BUCKETS
from trimtab.core.histogram import HistogramBank

HERE: Final = Path(__file__).parent
PEER: Final = building.Recipe("bench-peer", HERE / "peer")
QUANTILES: Final = (0.5, 0.9, 0.95)
START: Final = 1_767_225_600
"""2026-01-01: the first sample."""
STEP_SECONDS: Final = 60
WEIGHT: Final = 0.1
ROUNDS: Final = 15
EXTREMES: Final = (-3.8, 3.8)
"""The outermost of a sample a minute over eight days, in standard deviations."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Workload:
    """So many containers, whose usage spreads around a mean of each one's own."""

    name: str
    containers: int
    spread: float
    """The standard deviation of the logarithm of the usage."""
    history_ticks: int = 240
    """So many samples of each container before anything is measured."""
    history_minutes: int = 48
    """So far apart, each in place of that many minutes' samples: eight days in all."""


WORKLOADS: Final = (
    Workload("narrow", 10_000, 0.15),
    Workload("narrow", 100_000, 0.15),
    Workload("wide", 10_000, 1.0),
    Workload("wide", 100_000, 1.0),
    Workload("narrow, after one hour", 100_000, 0.15, history_ticks=60, history_minutes=1),
)


@dataclass(frozen=True, slots=True)
class Tick:
    """One sample for each container: cores, and seconds since the epoch."""

    values: Floats
    times: Floats
    weight: float


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU milliseconds of one tick."""

    intake: float
    percentiles: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.intake + self.percentiles


@dataclass(frozen=True, slots=True)
class Side:
    """What one side needed: medians over the rounds, and the cheapest and dearest round."""

    intake_ms: float
    percentiles_ms: float
    total_ms: float
    least_ms: float
    most_ms: float
    bytes_per_histogram: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides on one workload, and how many times more the original needs."""

    workload: Workload
    ours: Side
    original: Side
    cpu_ratio: float
    memory_ratio: float


def draw_ticks(workload: Workload) -> Iterator[Tick]:
    """The history of a workload, then the ticks to be measured; the same in every run."""
    random = np.random.default_rng(20260101)
    mean = np.log(0.1) + random.normal(0.0, 1.2, workload.containers)
    moment = START
    steps = [workload.history_minutes] * workload.history_ticks + [1] * ROUNDS
    for number, minutes in enumerate(steps):
        moment += minutes * STEP_SECONDS
        noise = random.normal(0.0, workload.spread, workload.containers)
        if minutes > 1 and number < len(EXTREMES):
            noise[:] = EXTREMES[number] * workload.spread
        jitter = random.integers(0, STEP_SECONDS, workload.containers)
        yield Tick(np.exp(mean + noise), (moment + jitter).astype(np.float64), minutes * WEIGHT)


def write_tick(tick: Tick, directory: Path) -> Path:
    """A file of all values, then all times."""
    path = directory / "tick"
    np.concatenate((tick.values, tick.times)).tofile(path)
    return path


class Peer:
    """The running Go program."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path) -> None:
        self.scratch = scratch
        """Where files for both sides are written."""
        self._process = process

    def ask(self, *words: object) -> list[float]:
        """The numbers that answer one command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().split()
        if not answer:
            raise SystemExit("bench: the Go program stopped; its own message is above")
        return [float(number) for number in answer]

    def open(self, containers: int) -> float:
        """Make new histograms, and tell how many bytes each of them holds."""
        return self.ask("open", containers, CPU_BUCKETS.maximum, CPU_BUCKETS.first)[0]

    def tick(self, path: Path, weight: float) -> Cost:
        """Do one tick with the samples of a file and tell its cost."""
        intake, percentiles = self.ask("tick", path, weight)
        return Cost(intake / 1e6, percentiles / 1e6)

    def dump(self) -> Floats:
        """A line for each histogram: the total, the percentiles, the weight of each bucket."""
        path = self.scratch / "dump"
        self.ask("dump", path)
        return np.fromfile(path).reshape(-1, 1 + len(QUANTILES) + CPU_BUCKETS.count)


@contextmanager
def running_peer(program: Path) -> Iterator[Peer]:
    """The Go program from start to end."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        yield Peer(process, Path(scratch))
        assert process.stdin is not None
        process.stdin.close()


def tick_ours(bank: HistogramBank, path: Path, weight: float) -> Cost:
    """Do one tick with the samples of a file and tell its cost."""
    # Read by both sides right before they start: so neither is measured waking up.
    values, times = np.fromfile(path).reshape(2, -1)
    rows = np.arange(len(bank))
    start = time.process_time()
    bank.add(rows, values, weight, times)
    middle = time.process_time()
    bank.percentiles()
    return Cost(1e3 * (middle - start), 1e3 * (time.process_time() - middle))


def differing(bank: HistogramBank, dump: Floats) -> list[str]:
    """What is not equal, bit for bit, between our bank and the original's histograms."""
    rows = np.arange(len(bank))
    weights = np.zeros((len(rows), CPU_BUCKETS.count))
    for positions, buckets, found in bank.weights.spans(rows):
        weights[positions, buckets] = found
    theirs = np.split(dump, [1, 1 + len(QUANTILES)], axis=1)
    ours = (bank.total_weight(rows)[:, np.newaxis], bank.percentiles(), weights)
    names = ("totals", "percentiles", "bucket weights")
    counts = [int((mine != other).sum()) for mine, other in zip(ours, theirs, strict=True)]
    return [f"{count} {name}" for name, count in zip(names, counts, strict=True) if count]


def compare(workload: Workload, peer: Peer) -> Comparison:
    """Both sides on one workload, taking turns."""
    bank = HistogramBank(CPU_BUCKETS, timedelta(days=1), QUANTILES)
    bank.allocate(workload.containers)
    original_bytes = peer.open(workload.containers)
    ours: list[Cost] = []
    original: list[Cost] = []
    for number, tick in enumerate(draw_ticks(workload)):
        path = write_tick(tick, peer.scratch)
        # The one that goes second finds other things in the caches: so each does in turn.
        if number % 2:
            ours.append(tick_ours(bank, path, tick.weight))
        original.append(peer.tick(path, tick.weight))
        if not number % 2:
            ours.append(tick_ours(bank, path, tick.weight))
    if differences := differing(bank, peer.dump()):
        raise SystemExit(f"bench: {workload}: differ from the original: {', '.join(differences)}")
    return summarise(
        workload,
        ours=summarise_side(ours[-ROUNDS:], bank.bytes_held / workload.containers),
        original=summarise_side(original[-ROUNDS:], original_bytes),
    )


def summarise_side(costs: Sequence[Cost], bytes_per_histogram: float) -> Side:
    """Medians and spread of one side's rounds."""
    totals = [cost.total for cost in costs]
    return Side(
        intake_ms=statistics.median(cost.intake for cost in costs),
        percentiles_ms=statistics.median(cost.percentiles for cost in costs),
        total_ms=statistics.median(totals),
        least_ms=min(totals),
        most_ms=max(totals),
        bytes_per_histogram=bytes_per_histogram,
    )


def summarise(workload: Workload, *, ours: Side, original: Side) -> Comparison:
    """Both sides and their ratios."""
    return Comparison(
        workload=workload,
        ours=ours,
        original=original,
        cpu_ratio=original.total_ms / ours.total_ms,
        memory_ratio=original.bytes_per_histogram / ours.bytes_per_histogram,
    )


def format_table(comparisons: Sequence[Comparison]) -> str:
    """The comparisons as a Markdown table."""
    lines = [
        "| Histograms | Side | Samples | Percentiles | Tick (least to most) | Bytes each |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for found in comparisons:
        count = f"{found.workload.containers:,}".replace(",", " ")
        name = f"{count} {found.workload.name}"
        lines += [
            _format_side(name, "Trimtab", found.ours),
            _format_side("", "original", found.original),
            _format_ratios(found),
        ]
    return "\n".join(lines) + "\n"


def _format_ratios(found: Comparison) -> str:
    intake = found.original.intake_ms / found.ours.intake_ms
    percentiles = found.original.percentiles_ms / found.ours.percentiles_ms
    return (
        f"| | **ratio** | {intake:.1f} | {percentiles:.1f} "
        f"| **{found.cpu_ratio:.1f}** | **{found.memory_ratio:.1f}** |"
    )


def _format_side(name: str, side_name: str, side: Side) -> str:
    return (
        f"| {name} | {side_name} | {side.intake_ms:.2f} ms | {side.percentiles_ms:.2f} ms "
        f"| {side.total_ms:.2f} ms ({side.least_ms:.2f} to {side.most_ms:.2f}) "
        f"| {side.bytes_per_histogram:.0f} |"
    )


def format_page(comparisons: Sequence[Comparison]) -> str:
    """The page of results."""
    return (
        "# One tick of the histograms, beside the original\n\n"
        f"CPU time of one sample and {len(QUANTILES)} percentiles for every container, medians of "
        f"{ROUNDS} rounds in turn,\nafter eight days of history where nothing else is said. Every "
        "percentile and the weight of every bucket\nis equal, bit for bit. The ratios say how many "
        "times more the original needs. Written by `make bench`.\n\n" + format_table(comparisons)
    )


def write_results(comparisons: Sequence[Comparison], directory: Path) -> None:
    """Both files of results."""
    directory.mkdir(exist_ok=True)
    facts = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "rounds": ROUNDS,
        "comparisons": [asdict(found) for found in comparisons],
    }
    (directory / "core.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    (directory / "core.md").write_text(format_page(comparisons), encoding="utf-8")


def main() -> int:
    """Measure, print and write everything; 2 if the original cannot be built."""
    try:
        program = building.build(PEER)
    except building.BuildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    comparisons = []
    with running_peer(program) as peer:
        for workload in WORKLOADS:
            print(f"{workload.containers} {workload.name} histograms ...", flush=True)
            comparisons.append(compare(workload, peer))
    print(format_table(comparisons), end="")
    write_results(comparisons, HERE / "results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
