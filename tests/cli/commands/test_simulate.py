import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rig import waiting
from trimtab.cli.commands.simulate import print_reports
from trimtab.cli.main import main
from trimtab.simulation.checks.inspector import Violation
from trimtab.simulation.run import RunReport
from trimtab.simulation.world.virtual_time import START

FINE = RunReport(7, "d" * 64, timedelta(hours=1), {"PodCreated": 3}, ())
WRONG = replace(FINE, seed=8, violations=(Violation("Quiet", START, "updater evicted a/b"),))


def test_one_seed_tells_what_was_drawn_and_what_became_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["simulate", "--seed", "1", "--hours", "1"])

    first, *faults, last = capsys.readouterr().out.splitlines()
    assert code == 0
    assert first.startswith("seed 1: ")
    assert all(fault.startswith("  ") for fault in faults)
    assert last.startswith("seed 1: all well in ")
    assert "digest " in last


@pytest.mark.parametrize("flag", ["seeds", "hours", "jobs"])
def test_a_number_that_makes_no_sense_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    code = main(["simulate", f"--{flag}", "0"])
    problem = f"trimtab: --{flag} must be at least 1, not 0; see trimtab simulate --help\n"

    assert code == 2
    assert capsys.readouterr().err == problem


def test_of_many_seeds_those_that_failed_are_told_with_what_they_did(
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = print_reports([FINE, WRONG, FINE], 3, is_quiet=True)

    told = capsys.readouterr()
    assert summary.failed == 1
    assert told.out.splitlines() == WRONG.lines()
    assert told.err == ""


def test_of_many_seeds_it_is_told_how_far_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([FINE, WRONG], 2, is_quiet=False)

    told = capsys.readouterr()
    assert told.err.splitlines() == ["1 of 2 seeds, 0 failed", "2 of 2 seeds, 1 failed"]
    assert "Quiet: updater evicted a/b" in told.out


def test_many_seeds_end_with_what_they_come_to(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["simulate", "--seeds", "2", "--hours", "1", "--quiet"])

    days, verdict = capsys.readouterr().out.splitlines()
    assert code == 0
    assert days.startswith("0.7 simulated days: ")
    assert verdict == "2 passed, 0 failed"


def test_without_our_guards_rules_are_broken(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["simulate", "--seed", "7", "--hours", "1", "--rules", "original"])

    assert code == 1
    assert "CoolDown: " in capsys.readouterr().out


def test_rules_that_nobody_wrote_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["simulate", "--rules", "mine"])

    assert code == 2
    assert "--rules" in capsys.readouterr().err


def _count_at_work(process: int) -> int:
    """How many children have used a tenth of a second of CPU."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    stats = [Path(f"/proc/{each}/stat").read_text(encoding="ascii") for each in children]
    ticks = [int(stat.rpartition(")")[2].split()[11]) for stat in stats]
    return sum(10 * each > os.sysconf("SC_CLK_TCK") for each in ticks)


def test_ctrl_c_ends_many_runs_at_once() -> None:
    words = ["simulate", "--seeds", "4", "--jobs", "2", "--hours", "5000"]
    with subprocess.Popen(
        [Path(sys.executable).parent / "trimtab", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            waiting.wait_for(lambda: _count_at_work(process.pid), (2).__eq__, patience_seconds=60)
            # As a terminal does it: to all of its processes.
            os.killpg(process.pid, signal.SIGINT)
            _, problems = process.communicate(timeout=20)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    assert (process.returncode, problems) == (130, "")
