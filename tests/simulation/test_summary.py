from dataclasses import replace
from datetime import timedelta

from trimtab.simulation.checks.inspector import Violation
from trimtab.simulation.run import RunReport, RunSummary
from trimtab.simulation.world.virtual_time import START

FINE = RunReport(7, "d" * 64, timedelta(hours=12), {"PodEvicted": 1200, "PodGone": 3}, ())
QUIET, PACE = (Violation(rule, START, "told") for rule in ("Quiet", "EvictionRate"))


def test_a_summary_adds_up_days_and_what_happened_in_them() -> None:
    summary = RunSummary()
    for _ in range(3):
        summary.add(FINE)

    assert list(summary.lines()) == [
        "1.5 simulated days: 3,600 evictions, 0 resizes, 0 OOM kills",
        "3 passed, 0 failed",
    ]


def test_rules_that_were_broken_are_told_with_how_often_and_in_how_many_runs() -> None:
    summary = RunSummary()
    summary.add(FINE)
    summary.add(replace(FINE, violations=(QUIET, QUIET, PACE)))
    summary.add(replace(FINE, violations=(QUIET,)))

    assert list(summary.lines())[1:] == [
        "Quiet: broken in 2 of 3 runs, 3 in all",
        "EvictionRate: broken in 1 of 3 runs, 1 in all",
        "1 passed, 2 failed",
    ]
