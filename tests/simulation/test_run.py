import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from trimtab.cluster.errors import ClusterError
from trimtab.simulation.components import Stack
from trimtab.simulation.processes import Component, ProcessSurroundings
from trimtab.simulation.run import RunReport, describe_run, run_many, run_seed
from trimtab.simulation.scenarios import Size

SHORT = Size(workloads=(2, 3), disturbed_hours=(1, 1), settling_hours=0, quiet_hours=0)
PROGRAM = """
from trimtab.simulation.run import run_seed
from trimtab.simulation.scenarios import Size
size = Size(workloads=(2, 3), disturbed_hours=(1, 1), settling_hours=0, quiet_hours=0)
print(run_seed({seed}, size).digest)
"""


async def do_nothing(surroundings: ProcessSurroundings) -> None:
    while True:
        await surroundings.clock.sleep(timedelta(hours=1))


async def evict_everything(surroundings: ProcessSurroundings) -> None:
    while True:
        for pod in surroundings.cluster.pods:
            with suppress(ClusterError):
                await surroundings.cluster.evict(pod)
        await surroundings.clock.sleep(timedelta(seconds=10))


async def die(surroundings: ProcessSurroundings) -> None:
    await surroundings.clock.sleep(timedelta(minutes=1))
    raise ArithmeticError("a bug")


def a_stack(component: Component) -> Stack:
    return Stack(("updater",), lambda _simulation: {"updater": component})


def digest(seed: int, **environment: str) -> str:
    """What a run in a process of its own comes to."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(seed=seed)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("seed", [3, 11])
def test_one_seed_is_one_run_whatever_the_process_and_the_processor(seed: int) -> None:
    plain = run_seed(seed, SHORT).digest
    hashed = digest(seed, PYTHONHASHSEED="7")
    # numpy then computes as it would on a processor without vectors.
    scalar = digest(
        seed, PYTHONHASHSEED="8", NPY_DISABLE_CPU_FEATURES="AVX512F AVX512_SKX AVX2 FMA3"
    )

    assert plain == hashed == scalar


def test_different_seeds_are_different_runs() -> None:
    assert run_seed(1, SHORT).digest != run_seed(2, SHORT).digest


def test_components_that_do_nothing_break_no_rule() -> None:
    report = run_seed(4, SHORT, a_stack(do_nothing))

    assert report.violations == ()
    assert report.facts["PodCreated"] > 0
    assert "all well" in report.lines()[0]


def test_an_updater_that_evicts_everything_is_caught() -> None:
    report = run_seed(4, replace(SHORT, hazard_share=0), a_stack(evict_everything))

    caught = {violation.checker for violation in report.violations}
    assert {"AdmissionAlive", "Futility", "Modes"} <= caught
    assert len(report.lines()) == len(report.violations) + 1


def test_a_component_that_ends_by_itself_has_broken_a_rule() -> None:
    report = run_seed(4, SHORT, a_stack(die))

    assert [str(violation) for violation in report.violations] == [
        "Mon 01:01:00 Running: updater ended: ArithmeticError('a bug')"
    ]


def test_the_first_line_tells_the_seed_and_what_was_drawn() -> None:
    first, *faults = describe_run(5, SHORT)

    assert first.startswith("seed 5: ")
    assert f"{len(faults)} faults in 1:00:00" in first


@pytest.mark.parametrize("jobs", [1, 2])
def test_many_seeds_are_all_run_one_by_one_or_at_once(jobs: int) -> None:
    reports = {report.seed: report for report in run_many(run_briefly, range(3), jobs=jobs)}

    assert sorted(reports) == [0, 1, 2]
    assert reports[2].digest == run_briefly(2).digest


def run_briefly(seed: int) -> RunReport:
    return run_seed(seed, SHORT, a_stack(do_nothing))
