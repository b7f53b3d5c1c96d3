"""`trimtab simulate`: faults for the real components, in a simulated cluster, from a seed."""

import gc
import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Annotated, Final

from cyclopts import Parameter

from trimtab.cli.errors import UsageError
from trimtab.cli.flags.types import Count, Whole
from trimtab.cli.output import progress
from trimtab.cli.runtime.process import GARBAGE_THRESHOLDS
from trimtab.core.model.estimation import Estimator
from trimtab.simulation import components, run
from trimtab.simulation.components import ORIGINAL_RULES, Stack
from trimtab.simulation.run import RunReport, RunSummary
from trimtab.simulation.scenarios import Size


class RuleBook(StrEnum):
    """Rules that components follow."""

    TRIMTAB = "trimtab"
    ORIGINAL = "original"


_MOST_HOURS: Final = 10 * 365 * 24


def simulate(
    *,
    seed: Whole = 1,
    seeds: Whole = 1,
    hours: Count = None,
    jobs: Count = None,
    rules: RuleBook = RuleBook.TRIMTAB,
    estimator: Estimator = Estimator.PERCENTILE,
    quiet: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run seeds, and print each violation of a rule: 0 if there is none, else 1.

    Args:
        seed: The first seed. One seed is one run, on any machine.
        seeds: How many seeds to run, one after the other from the first.
        hours: How many simulated hours faults come and go; drawn from the seed if not given.
        jobs: How many runs at a time; as many as there are cores if not given.
        rules: By whose rules the components act. The original's, as far as settings can say them,
            lack our guards: what they let happen is reported as broken rules.
        estimator: The estimator of the recommender; the original's rules know `percentile` alone.
        quiet: Print no progress.
    """
    _check(seeds=seeds, hours=hours, jobs=jobs)
    size = Size() if hours is None else Size(disturbed_hours=(hours, hours))
    if rules is RuleBook.ORIGINAL and estimator is not Estimator.PERCENTILE:
        raise UsageError(f"--estimator {estimator} is not one of the original's rules")
    stack = _stack(rules, estimator)
    run_one = partial(_run, size=size, rules=rules, estimator=estimator)
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    if seeds == 1:
        sys.stdout.write("\n".join(run.describe_run(seed, size, stack)) + "\n")
        sys.stdout.flush()
        report = run_one(seed)
        sys.stdout.write("\n".join(report.lines()) + "\n")
        return int(bool(report.violations))
    reports = run.run_many(
        run_one, range(seed, seed + seeds), jobs=min(seeds, jobs or os.cpu_count() or 1)
    )
    summary = print_reports(reports, seeds, is_quiet=quiet)
    sys.stdout.write("\n".join(summary.lines()) + "\n")
    return int(summary.failed > 0)


def print_reports(reports: Iterable[RunReport], total: int, *, is_quiet: bool) -> RunSummary:
    """Print each failed run as soon as it ends; return the summary of all runs."""
    summary = RunSummary()
    with progress.shown(total, is_quiet=is_quiet) as shown:
        for report in reports:
            summary.add(report)
            if report.violations:
                shown.write("\n".join(report.lines()) + "\n")
            shown.show(summary.runs, f"{summary.runs} of {total} seeds, {summary.failed} failed")
    return summary


def _run(seed: int, *, size: Size, rules: RuleBook, estimator: Estimator) -> RunReport:
    # A stack cannot be sent to another process, but its name can.
    return run.run_seed(seed, size, _stack(rules, estimator))


def _stack(rules: RuleBook, estimator: Estimator) -> Stack:
    return components.with_estimator(estimator) if rules is RuleBook.TRIMTAB else ORIGINAL_RULES


def _check(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be at least 1, not {value}")
    hours = given.get("hours")
    if hours is not None and hours > _MOST_HOURS:
        raise UsageError(f"--hours must be at most {_MOST_HOURS}, not {hours}")
