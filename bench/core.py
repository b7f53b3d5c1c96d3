"""One tick of the histograms, ours beside the original's, on the same samples in the same run.

A tick is one sample for every container and three percentiles of every histogram. The original is
a small Go program on its own module (`peer/`): one decaying histogram object per container. Both
sides take turns, tick by tick. What counts is CPU time, and what each side holds in memory; before
any figure is believed, every percentile and the weight of every bucket has to be equal.

Writes `results/core.json` and the page of benchmarks; fails if a ratio got clearly worse. Needs Go.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

# One thread, as in production; has to be said before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from bench import contests, core_tables, interrupts, scoring
from bench.recording import Record
from bench.scoring import Entry, Side
from bench.telling import say
from rig import building
from rig.progress import format_span
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS

HERE: Final = Path(__file__).parent
PEER: Final = building.Recipe("bench-peer", HERE / "peer")
QUANTILES: Final = (0.5, 0.9, 0.95)
START: Final = 1_767_225_600
"""2026-01-01: the first sample."""
STEP_SECONDS: Final = 60
WEIGHT: Final = 0.1
ROUNDS: Final = 3
TICKS_PER_ROUND: Final = 5
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
    """CPU seconds of one tick."""

    intake: float
    percentiles: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.intake + self.percentiles


def draw_ticks(workload: Workload) -> Iterator[Tick]:
    """The history of a workload, then the ticks to be measured; the same in every run."""
    random = np.random.default_rng(20260101)
    mean = np.log(0.1) + random.normal(0.0, 1.2, workload.containers)
    moment = START
    steps = [workload.history_minutes] * workload.history_ticks + [1] * ROUNDS * TICKS_PER_ROUND
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
        return Cost(intake / 1e9, percentiles / 1e9)

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
    return Cost(middle - start, time.process_time() - middle)


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


def compare(workload: Workload, peer: Peer) -> list[Entry]:
    """Both sides on one workload, taking turns, round by round."""
    bank = HistogramBank(CPU_BUCKETS, timedelta(days=1), QUANTILES)
    bank.allocate(workload.containers)
    held = {Side.ORIGINAL: peer.open(workload.containers)}
    costs: dict[Side, list[Cost]] = {side: [] for side in Side}
    for number, tick in enumerate(draw_ticks(workload)):
        path = write_tick(tick, peer.scratch)
        # The one that goes second finds other things in the caches: so each does in turn.
        if number % 2:
            costs[Side.OURS].append(tick_ours(bank, path, tick.weight))
        costs[Side.ORIGINAL].append(peer.tick(path, tick.weight))
        if not number % 2:
            costs[Side.OURS].append(tick_ours(bank, path, tick.weight))
    if differences := differing(bank, peer.dump()):
        raise SystemExit(f"bench: {workload}: differ from the original: {', '.join(differences)}")
    held[Side.OURS] = bank.bytes_held / workload.containers
    measured = {side: found[workload.history_ticks :] for side, found in costs.items()}
    return [
        Entry(workload.name, workload.containers, number, side, values)
        for side in Side
        for number, values in enumerate(list_rounds(measured[side], held[side]), start=1)
    ]


def list_rounds(costs: Sequence[Cost], bytes_each: float) -> Iterator[dict[str, float]]:
    """What one side needed in each round: medians of its ticks."""
    for start in range(0, len(costs), TICKS_PER_ROUND):
        ticks = costs[start : start + TICKS_PER_ROUND]
        yield {
            "cpu": statistics.median(each.total for each in ticks),
            "intake_cpu": statistics.median(each.intake for each in ticks),
            "percentiles_cpu": statistics.median(each.percentiles for each in ticks),
            "bytes": bytes_each,
        }


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print and record; 1 if a ratio got worse, 2 if the original cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m bench.core")
    parser.add_argument("--accept", action="store_true", help="write down even what got worse")
    given = parser.parse_args(arguments)
    try:
        program = building.build(PEER)
    except building.BuildError as error:
        say(str(error))
        return 2
    machine = scoring.describe_machine()
    record = Record(core_tables.SECTION, machine=machine, accepts_worse=given.accept)
    with interrupts.raised():
        return contests.run(record, lambda: measure_all(program, record))


def measure_all(program: Path, record: Record) -> None:
    """All workloads, each recorded as soon as it is through."""
    with running_peer(program) as peer:
        for number, workload in enumerate(WORKLOADS, start=1):
            title = f"{workload.containers} histograms, {workload.name}"
            say(f"{number} of {len(WORKLOADS)}: {title}")
            began = time.monotonic()
            record.add(compare(workload, peer))
            say(f"{title}: {format_span(time.monotonic() - began)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
