"""Checkers of targets that the estimator `cost` holds."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from simulation.toys import PublishTo, Scene, Stage, judge
from support.makers.records import MIB, a_recommendation, amounts

from trimtab.api.kinds.checkpoint_extras import SUPPLEMENT, encode_supplement
from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.estimation import ESTIMATOR_ANNOTATION, Estimator
from trimtab.core.usage.checkpoint_extras import Supplement
from trimtab.core.usage.saved_targets import SavedTarget, SavedTargets
from trimtab.simulation.checks.base import Rules
from trimtab.simulation.checks.counting import KillsCountedOnce
from trimtab.simulation.checks.histories import SteadyRestarts
from trimtab.simulation.world.facts import ContainerKilled, PodCreated, UsageTold
from trimtab.simulation.world.virtual_time import START

COST = Rules(estimator=Estimator.COST)


def explained(
    target: int,
    *,
    used: int = 0,
    kills: Sequence[int] = (),
    apart: timedelta = timedelta(minutes=10),
    requested: int = 0,
    **autoscaler: object,
) -> Scene:
    """A target follows after readings, and after kills at some limits."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(**autoscaler)
        pod = stage.put_pods(1)[0]
        spec = structs.replace(pod.containers[0].spec, requests=amounts(100, requested))
        pod = structs.replace(pod, containers=(structs.replace(pod.containers[0], spec=spec),))
        now = stage.world.now()
        stage.tell(PodCreated(now, pod, pod, (), webhook_answered=False))
        time = (now.timestamp(),)
        stage.tell(
            UsageTold(
                now,
                "recommender",
                UsageColumns(
                    ("default",), (pod.name,), ("app",), time, (100,), (used,), (True,), (True,)
                ),
            )
        )
        for limit in kills:
            stage.tell(ContainerKilled(stage.world.now(), pod, "app", limit, limit))
            await stage.wait(apart)
        await stage.play(PublishTo((a_recommendation(target=amounts(100, target)),)))

    return scene


@pytest.mark.parametrize(
    ("sin", "twin"),
    [
        pytest.param(
            explained(1400 * MIB, used=1000 * MIB),
            explained(1190 * MIB, used=1000 * MIB),
            id="usage explains itself with a margin",
        ),
        pytest.param(
            explained(3000 * MIB, kills=[1000 * MIB]),
            explained(2000 * MIB, kills=[1000 * MIB]),
            id="a kill explains twice as much",
        ),
        pytest.param(
            explained(3000 * MIB, kills=[1000 * MIB, 1000 * MIB]),
            explained(3000 * MIB, kills=[1000 * MIB, 1500 * MIB]),
            id="steps grow with the limits of a series",
        ),
        pytest.param(
            explained(4000 * MIB, kills=[1000 * MIB, 1500 * MIB], apart=timedelta(hours=2)),
            explained(3000 * MIB, kills=[1000 * MIB, 1500 * MIB], apart=timedelta(hours=2)),
            id="kills far apart are no series",
        ),
        pytest.param(
            explained(900 * MIB, requested=800 * MIB),
            explained(800 * MIB, requested=800 * MIB),
            id="a target starts at what pods request",
        ),
        pytest.param(
            explained(
                800 * MIB,
                requested=800 * MIB,
                annotations={ESTIMATOR_ANNOTATION: "percentile"},
            ),
            explained(800 * MIB, requested=800 * MIB),
            id="only of an autoscaler that holds targets",
        ),
    ],
)
def test_a_held_target_has_to_be_explained(sin: Scene, twin: Scene) -> None:
    assert judge(KillsCountedOnce, sin, COST)
    assert judge(KillsCountedOnce, twin, COST) == []


def restarted(target: int, *, changed: timedelta, is_settled: bool = True) -> Scene:
    """A recommender starts with 800 MiB held, changed so long ago, and publishes something."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(a_recommendation(target=amounts(240, 800 * MIB)))
        stage.put_pods(1)
        held = SavedTarget(800.0 * MIB, (START - changed).timestamp(), is_raised=True)
        now = START.timestamp()
        state = SavedTargets(now, now, memory=held, is_settled=is_settled)
        text = encode_supplement(Supplement(targets=state), START)
        checkpoint = Checkpoint("default", "web", "app", AggregateCheckpoint())
        stage.world.checkpoints.put(
            replace(checkpoint, annotations={SUPPLEMENT: text}, name="web-app")
        )
        entry = a_recommendation(target=amounts(240, target))
        await stage.play(PublishTo((entry,)), "recommender")

    return scene


@pytest.mark.parametrize(
    ("sin", "twin"),
    [
        pytest.param(
            restarted(700 * MIB, changed=timedelta(hours=20)),
            restarted(800 * MIB, changed=timedelta(hours=20)),
            id="a restart lowers nothing that was just changed",
        ),
        pytest.param(
            restarted(700 * MIB, changed=timedelta(hours=20)),
            restarted(700 * MIB, changed=timedelta(hours=37)),
            id="after a day and a half a target may fall",
        ),
        pytest.param(
            restarted(700 * MIB, changed=timedelta(hours=7)),
            restarted(700 * MIB, changed=timedelta(hours=7), is_settled=False),
            id="after the warm-up a first target may fall",
        ),
    ],
)
def test_a_restart_lowers_no_held_target(sin: Scene, twin: Scene) -> None:
    assert judge(SteadyRestarts, sin, COST)
    assert judge(SteadyRestarts, twin, COST) == []
