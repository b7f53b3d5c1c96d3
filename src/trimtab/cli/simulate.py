"""`trimtab simulate`: bad days for the real components, in a simulated cluster, from a seed."""

import gc
import os
import sys
from collections.abc import Iterable
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from trimtab.cli.process import GARBAGE_THRESHOLDS
from trimtab.cli.usage import UsageError
from trimtab.simulation.fleet import run_many
from trimtab.simulation.runs import Report, describe_run, run_seed
from trimtab.simulation.scenarios import Size


def simulate(
    *,
    seed: int = 1,
    seeds: int = 1,
    hours: int | None = None,
    jobs: int | None = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Whether the components did nothing wrong: 0 if so, else 1, with what they did.

    Args:
        seed: The first seed. One seed is one run, on any machine.
        seeds: How many seeds to run, one after the other from the first.
        hours: How many simulated hours faults come and go; drawn from the seed if not given.
        jobs: How many runs at a time; as many as there are cores if not given.
        quiet: Tell no progress.
    """
    _check(seeds=seeds, hours=hours, jobs=jobs)
    size = Size() if hours is None else Size(disturbed_hours=(hours, hours))
    run = partial(run_seed, size=size)
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    if seeds == 1:
        sys.stdout.write("\n".join(describe_run(seed, size)) + "\n")
        sys.stdout.flush()
        report = run(seed)
        sys.stdout.write("\n".join(report.lines()) + "\n")
        return int(bool(report.violations))
    reports = run_many(run, range(seed, seed + seeds), jobs=min(seeds, jobs or os.cpu_count() or 1))
    failed = tell_reports(reports, seeds, is_quiet=quiet)
    sys.stdout.write(f"{seeds - failed} passed, {failed} failed\n")
    return int(failed > 0)


def tell_reports(reports: Iterable[Report], total: int, *, is_quiet: bool) -> int:
    """Tell of each run that failed as soon as it has; how many did."""
    failed = 0
    for count, report in enumerate(reports, start=1):
        if report.violations:
            failed += 1
            lead = "" if is_quiet else "\r"
            sys.stdout.write(lead + "\n".join(report.lines()) + "\n")
            sys.stdout.flush()
        if not is_quiet:
            sys.stderr.write(f"\r{count} of {total} seeds, {failed} failed")
            sys.stderr.flush()
    if not is_quiet:
        sys.stderr.write("\n")
    return failed


def _check(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be at least 1, not {value}")
