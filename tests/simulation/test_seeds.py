"""The whole stack under faults: seeds that are always run, seeds that once failed, fresh ones."""

from dataclasses import replace
from typing import TypeAlias

import pytest

from trimtab.core.model.estimation import Estimator
from trimtab.simulation import components
from trimtab.simulation.run import RunReport, run_seed
from trimtab.simulation.scenarios import Size

BRIEF = Size(workloads=(2, 4), disturbed_hours=(2, 3))
AS_THEN = replace(BRIEF, horizontal_share=0, hazard_share=0)
"""The same as when the seeds below failed: nothing was scaled horizontally."""
TROUBLE_ONLY = Size(settling_hours=0, quiet_hours=0, horizontal_share=0, hazard_share=0)
"""The usual runs of then up to the moment at which all faults have ended."""
UNTIL_MENDED = Size(settling_hours=0, quiet_hours=0, hazard_share=0)
"""The same with horizontal autoscalers, and without hazards."""
DANGEROUS = Size(settling_hours=0, quiet_hours=0)
"""The usual runs of now, with hazards, up to that moment."""
FIRST_HOUR = replace(DANGEROUS, disturbed_hours=(1, 1))
THREE_HOURS = Size(disturbed_hours=(3, 3), horizontal_share=0, hazard_share=0)

Run: TypeAlias = tuple[int, Size]

pytestmark = pytest.mark.long


def name(run: Run) -> str:
    return f"seed {run[0]}"


def assert_clean(report: RunReport) -> None:
    assert report.violations == (), "\n".join(report.lines())


@pytest.mark.parametrize("run", [(seed, BRIEF) for seed in [1, 2, 3, 4]], ids=name)
def test_no_rule_is_broken_in_the_runs_of_the_usual_seeds(run: Run) -> None:
    assert_clean(run_seed(*run))


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            (3, TROUBLE_ONLY),
            id="seed 3: a recommender that crashes forgets no memory of a job that has ended",
        ),
        pytest.param(
            (9, TROUBLE_ONLY),
            id="seed 9: a recommender that was cut off writes over nothing when it leads again",
        ),
        pytest.param(
            (34, TROUBLE_ONLY),
            id="seed 34: a pod whose labels flap has a window for each set of them",
        ),
        pytest.param(
            (69, TROUBLE_ONLY),
            id="seed 69: pods that restart wait for each other though answers are lost",
        ),
        pytest.param(
            (93, TROUBLE_ONLY), id="seed 93: readings of no memory make no history lighter"
        ),
        pytest.param(
            (101, DANGEROUS),
            id="seed 101: a limit range keeps out no boost, and a copied status changes no limit",
        ),
        pytest.param(
            (102, DANGEROUS),
            id="seed 102: no pod is resized beyond its node, or evicted while others are down",
        ),
        pytest.param(
            (105, DANGEROUS),
            id="seed 105: boosts end without other changes, and crash loops are helped at once",
        ),
        pytest.param(
            (107, DANGEROUS),
            id="seed 107: growth in place waits neither for budgets nor cool-downs",
        ),
        pytest.param(
            (108, DANGEROUS),
            id="seed 108: no new size is too large for a quota, and crash loops are helped",
        ),
        pytest.param(
            (110, THREE_HOURS),
            id="seed 110: an updater that crashes remembers whom it has just disturbed",
        ),
        pytest.param((150, UNTIL_MENDED), id="seed 150: a full quota keeps no pod boosted"),
        pytest.param(
            (293, UNTIL_MENDED),
            id="seed 293: no pod is restarted while the answer about another is under way",
        ),
        pytest.param(
            (442, UNTIL_MENDED), id="seed 442: new jobs do not hide that evictions change nothing"
        ),
        pytest.param(
            (503, THREE_HOURS),
            id="seed 503: a recommender that crashes counts no kill again and again",
        ),
        # A quota was full for a quarter of an hour: nobody waited for the successors any more.
        pytest.param(
            (564, Size(settling_hours=1, quiet_hours=0, hazard_share=0)),
            id="seed 564: a successor that comes late is not up before it is ready",
        ),
        pytest.param(
            (592, Size(quiet_hours=1, hazard_share=0)),
            id="seed 592: kills of a pod that never runs move no target to and fro",
        ),
        pytest.param(
            (663, UNTIL_MENDED),
            id="seed 663: what was read before a pod was there is not counted again",
        ),
        pytest.param(
            (677, UNTIL_MENDED),
            id="seed 677: a resize that restarts a container makes no older kill larger",
        ),
        pytest.param(
            (20070, FIRST_HOUR),
            id="seed 20070: pods that several budgets select are rescued from OOM kills in place",
        ),
        pytest.param(
            (596883236, AS_THEN),
            id="seed 596883236: admission that restarts knows the owners of the first pods",
        ),
        pytest.param(
            (700010, TROUBLE_ONLY),
            id="seed 700010: an updater that was cut off asks how old a new lease is",
        ),
        pytest.param(
            (720000, TROUBLE_ONLY),
            id="seed 720000: an updater with a stale view ends no boost twice",
        ),
    ],
)
def test_a_seed_that_once_failed(run: Run) -> None:
    assert_clean(run_seed(*run))


@pytest.mark.parametrize(
    "run", [(seed, replace(BRIEF, horizontal_share=0.8)) for seed in [11, 12]], ids=name
)
def test_no_rule_is_broken_where_most_workloads_are_scaled_horizontally(run: Run) -> None:
    assert_clean(run_seed(*run))


def test_no_rule_is_broken_in_the_run_of_a_fresh_seed(fresh_seed: int) -> None:
    assert_clean(run_seed(fresh_seed, BRIEF))


@pytest.mark.parametrize("run", [(seed, BRIEF) for seed in [3, 4, 9]], ids=name)
def test_no_rule_is_broken_where_targets_are_held_by_their_cost(run: Run) -> None:
    assert_clean(run_seed(*run, components.with_estimator(Estimator.COST)))
