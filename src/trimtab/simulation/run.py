"""Runs: one seed, one scenario, the whole stack, and the violations that checkers report.

A run has two parts. In the first part faults begin and end. In the second part everything works
again, all loads are constant, and the cluster has to come to rest.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Final

from trimtab.simulation.checks.inspector import Inspector, Violation
from trimtab.simulation.components import REAL, Stack
from trimtab.simulation.faults import injection, kinds
from trimtab.simulation.faults.hazards import endanger
from trimtab.simulation.faults.kinds import HAZARDS, Fault
from trimtab.simulation.nodes.kubelet import KubeletSettings
from trimtab.simulation.scenarios import Scenario, Size, draw_scenario
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world import virtual_time

STEP: Final = timedelta(minutes=1)
"""Interval at which checkers judge the state of the world."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a run."""

    seed: int
    digest: str
    """Hash of all facts, equal for every run of the seed."""
    simulated: timedelta
    facts: Mapping[str, int]
    """Number of facts of each kind."""
    violations: tuple[Violation, ...]

    def lines(self) -> list[str]:
        """Return the report as text."""
        happened = ", ".join(f"{count} {kind}" for kind, count in sorted(self.facts.items()))
        verdict = f"{len(self.violations)} violations" if self.violations else "all well"
        digest = self.digest[:16]
        return [
            f"seed {self.seed}: {verdict} in {self.simulated}; {happened}; digest {digest}",
            *(f"  {violation}" for violation in self.violations),
        ]


def run_seed(seed: int, size: Size, stack: Stack = REAL) -> RunReport:
    """Run one seed and return its report."""
    scenario, faults = _draw(seed, size, stack)
    return virtual_time.run_virtually(run_scenario(scenario, faults, stack))


def describe_run(seed: int, size: Size, stack: Stack = REAL) -> list[str]:
    """Return the scenario and the faults of a seed as text, without running it."""
    scenario, faults = _draw(seed, size, stack)
    modes = ", ".join(sorted({autoscaler.mode for autoscaler in scenario.autoscalers}))
    drawn = (
        f"seed {seed}: {len(scenario.nodes)} nodes, {len(scenario.workloads)} workloads, "
        f"{len(scenario.autoscalers)} autoscalers ({modes}), {len(scenario.budgets)} budgets, "
        f"{len(scenario.quotas)} quotas, {len(scenario.limit_ranges)} limit ranges; "
        f"{len(faults)} faults in {scenario.disturbed}, "
        f"then {scenario.settling} to settle and {scenario.quiet} of quiet"
    )
    return [drawn, *(f"  {fault}" for fault in faults)]


async def run_scenario(scenario: Scenario, faults: Sequence[Fault], stack: Stack) -> RunReport:
    """Run one scenario with these faults and return its report."""
    random = Random(scenario.seed)
    kubelet = KubeletSettings(period=scenario.kubelet_period)
    async with Simulation(random=random, kubelet=kubelet) as simulation:
        inspector = Inspector(simulation.world, stack.rules)
        simulation.furnish(scenario)
        for name, component in stack.build(simulation).items():
            simulation.add(name, component)
        breaking = asyncio.create_task(_break_one_by_one(simulation, faults))
        await _pass(simulation, inspector, scenario.disturbed + STEP)
        await breaking
        simulation.kubelet.hold_loads()
        await _pass(simulation, inspector, scenario.settling)
        inspector.expect_quiet()
        await _pass(simulation, inspector, scenario.quiet)
        return RunReport(
            scenario.seed,
            simulation.journal.digest(),
            simulation.clock.elapsed(),
            simulation.journal.counts(),
            (*inspector.violations(), *_failures(simulation)),
        )


def _draw(seed: int, size: Size, stack: Stack) -> tuple[Scenario, tuple[Fault, ...]]:
    scenario = draw_scenario(seed, size)
    usual = kinds.draw_faults(Random(~seed), stack.names, until=scenario.disturbed)
    if not size.hazard_share:
        return scenario, usual
    scenario = endanger(scenario, Random(f"hazards of {seed}"), size.hazard_share)
    hazards = kinds.draw_faults(
        Random(f"hazards during {seed}"),
        stack.names,
        until=scenario.disturbed,
        per_hour=size.hazard_share,
        kinds=HAZARDS,
    )
    return scenario, (*usual, *hazards)


async def _pass(simulation: Simulation, inspector: Inspector, span: timedelta) -> None:
    """Let time pass, with all checks at each step."""
    until = simulation.clock.elapsed() + span
    while simulation.clock.elapsed() < until:
        await simulation.clock.sleep(STEP)
        simulation.check()
        inspector.inspect()


def _failures(simulation: Simulation) -> list[Violation]:
    """Return a violation for each component that ended by itself."""
    now = simulation.world.now()
    return [
        Violation("Running", now, f"{name} ended: {failure!r}")
        for name, failure in simulation.failures().items()
    ]


async def _break_one_by_one(simulation: Simulation, faults: Sequence[Fault]) -> None:
    async with asyncio.TaskGroup() as group:
        for fault in faults:
            group.create_task(_break_for_a_while(simulation, fault))


async def _break_for_a_while(simulation: Simulation, fault: Fault) -> None:
    await simulation.clock.sleep(fault.begins)
    mend = injection.break_now(simulation, fault)
    await simulation.clock.sleep(fault.lasts)
    mend()


def run_many(
    run: Callable[[int], RunReport], seeds: Sequence[int], *, jobs: int
) -> Iterator[RunReport]:
    """Yield the reports of all seeds, each as soon as it is ready."""
    if jobs == 1:
        yield from map(run, seeds)
        return
    # Ctrl-C reaches all processes of a terminal. A run would treat it as the failure of a task, and
    # the pool would wait for all runs that have begun.
    by_default = (signal.SIGINT, signal.SIG_DFL)
    with ProcessPoolExecutor(jobs, initializer=signal.signal, initargs=by_default) as pool:
        waiting = [pool.submit(run, seed) for seed in seeds]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            # A caller that stops early does not wait for the rest.
            pool.shutdown(wait=False, cancel_futures=True)


TOLD: Final = {
    "PodEvicted": "evictions",
    "PodResized": "resizes",
    "ContainerKilled": "OOM kills",
}
"""The most important kinds of facts, with their names in the summary."""


@dataclass(slots=True)
class RunSummary:
    """Totals over the reports of many runs."""

    runs: int = 0
    failed: int = 0
    simulated: timedelta = timedelta()
    facts: Counter[str] = field(default_factory=Counter)
    runs_by_rule: Counter[str] = field(default_factory=Counter)
    """Number of runs in which each rule was broken."""
    violations_by_rule: Counter[str] = field(default_factory=Counter)

    def add(self, report: RunReport) -> None:
        """Add the report of one run."""
        self.runs += 1
        self.failed += bool(report.violations)
        self.simulated += report.simulated
        self.facts.update(report.facts)
        rules = [violation.checker for violation in report.violations]
        self.violations_by_rule.update(rules)
        self.runs_by_rule.update(set(rules))

    def lines(self) -> Iterator[str]:
        """Yield the summary as text; the last line is the verdict."""
        happened = ", ".join(f"{self.facts[kind]:,} {name}" for kind, name in TOLD.items())
        yield f"{self.simulated / timedelta(days=1):,.1f} simulated days: {happened}"
        for rule, count in self.violations_by_rule.most_common():
            runs = self.runs_by_rule[rule]
            yield f"{rule}: broken in {runs:,} of {self.runs:,} runs, {count:,} in all"
        yield f"{self.runs - self.failed} passed, {self.failed} failed"
