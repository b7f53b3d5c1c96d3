"""What a backtest costs: a month of 1 000 workloads under one policy, from a file to the answer.

    python -m bench.backtest

Usage is made up from a seed, a value every five minutes: daily waves with noise on it, and of CPU
now and then much more. The command runs as a user would start it, on all cores; the file is written
before. The time that passes is what the user waits, and depends on the machine; CPU seconds are
those of all its processes.
"""

import csv
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from bench.telling import say
from rig.progress import format_span
from trimtab.core.histogram.buckets import Ints

WORKLOADS: Final = 1_000
STEP_SECONDS: Final = 300
STEPS: Final = 30 * 24 * 12
BEGIN: Final = 1_767_225_600
SEED: Final = 1
_DAY: Final = 24 * 12


def main() -> int:
    """Write the usage, replay it, and tell what it took."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "month.csv"
        _write(trace)
        say(f"{WORKLOADS} workloads, {STEPS} values of each")
        trimtab = Path(sys.executable).with_name("trimtab")
        began = time.monotonic()
        command = [str(trimtab), "backtest", "--trace", str(trace), "--policy", "trimtab"]
        code = subprocess.run(command, check=False).returncode
        passed = time.monotonic() - began
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"took {format_span(passed)}, {spent.ru_utime + spent.ru_stime:.0f} CPU seconds")
    return code


def _write(trace: Path) -> None:
    dice = np.random.default_rng(SEED)
    with trace.open("w", encoding="utf-8", newline="") as lines:
        rows = csv.writer(lines)
        rows.writerow(("workload", "resource", "start_unix", "step_seconds", "source_id", "values"))
        for number in range(WORKLOADS):
            for kind, usual, unrest in (("cpu_millicores", 400, 1.0), ("memory_mib", 800, 0.05)):
                values = " ".join(map(str, _usage(dice, usual, unrest).tolist()))
                rows.writerow((f"workload-{number}", kind, BEGIN, STEP_SECONDS, number, values))


def _usage(dice: np.random.Generator, usual: int, unrest: float) -> Ints:
    """What one workload uses over time."""
    base = usual * dice.lognormal(0, 1)
    phase = dice.uniform(0, 2 * np.pi)
    wave = 1 + dice.uniform(0, 0.6) * np.sin(2 * np.pi * np.arange(STEPS) / _DAY + phase)
    bursts = 1 + (dice.random(STEPS) < 1 / _DAY) * dice.exponential(unrest, STEPS)
    noise = dice.lognormal(0, 0.1 * unrest, STEPS)
    return np.maximum(base * wave * bursts * noise, 1).astype(np.int64)


if __name__ == "__main__":
    sys.exit(main())
