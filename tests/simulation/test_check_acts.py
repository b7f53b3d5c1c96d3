"""Every checker of acts objects to its sin, and has nothing against the honest twin."""

from dataclasses import replace
from datetime import timedelta

import pytest
from makers import MIB, a_recommendation, amounts
from simulation.toys import (
    SELECTOR,
    ActWhenElected,
    EvictEverything,
    PublishTo,
    ResizeEverything,
    Scene,
    Stage,
    judge,
    set_amounts,
)

from trimtab.core.autoscalers import ContainerPolicy, ControlledValues, UpdateMode
from trimtab.core.boost import annotation_name
from trimtab.core.pods import Allocation, Container
from trimtab.simulation.check_bounds import RequestBounds
from trimtab.simulation.check_eviction_rate import EvictionRate
from trimtab.simulation.check_leaders import Leaders
from trimtab.simulation.check_modes import Modes
from trimtab.simulation.check_pod_budgets import PodBudgets
from trimtab.simulation.check_quiet import Quiet
from trimtab.simulation.facts import PodCreated, PodEvicted
from trimtab.simulation.objects import DisruptionBudget
from trimtab.simulation.rules import Checker

POLICY = ContainerPolicy("*", min_allowed=amounts(50, 64 * MIB), max_allowed=amounts(400))
LARGER = a_recommendation(target=amounts(200, 200 * MIB))
SMALLER = a_recommendation(target=amounts(50, 50 * MIB))
BOOSTED = {annotation_name("app"): "{}"}
BUDGET = DisruptionBudget("default", "web", SELECTOR, min_available=2)


def resized(
    requests: tuple[int | None, int | None],
    mode: UpdateMode = UpdateMode.IN_PLACE,
    policy: ContainerPolicy = POLICY,
    **pod: object,
) -> Scene:
    """A pod of 100m and 100Mi is resized in place under an autoscaler."""

    async def scene(stage: Stage) -> None:
        stage.put_pods(1, **pod)
        stage.put_autoscaler(LARGER, mode=mode, policies=(policy,))
        await stage.play(ResizeEverything(amounts(*requests)))

    return scene


def resized_after_an_edit(minutes_later: int) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_pods(1)
        before = stage.put_autoscaler(LARGER, mode=UpdateMode.IN_PLACE, policies=(POLICY,))
        await stage.wait(timedelta(hours=1))
        stricter = replace(POLICY, max_allowed=amounts(150))
        stage.world.change_autoscaler(replace(before, policies=(stricter,)))
        await stage.wait(timedelta(minutes=minutes_later))
        await stage.play(ResizeEverything(amounts(200)))

    return scene


def admitted(cpu: int, *, annotations: dict[str, str] | None = None) -> Scene:
    """A pod comes into the world with what admission gave it."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(LARGER, policies=(POLICY,))
        wanted = stage.put_pods(1)[0]
        pod = replace(wanted, annotations=annotations or {})
        patch = set_amounts(wanted, "requests", amounts(cpu))
        stage.tell(PodCreated(stage.world.now(), pod, pod, patch, webhook_answered=True))

    return scene


def evicted(mode: UpdateMode | None, recommendation: object = LARGER) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_pods(1)
        if mode is not None:
            stage.put_autoscaler(recommendation, mode=mode)  # type: ignore[arg-type]
        await stage.play(EvictEverything())

    return scene


def evicted_past_refusals(*, ready: int) -> Scene:
    """Somebody finds a way around the refusals of the eviction API."""

    async def scene(stage: Stage) -> None:
        pods = stage.put_pods(ready)
        stage.world.budgets.put(BUDGET)
        stage.tell(PodEvicted(stage.world.now(), "toy", pods[0]))

    return scene


def evicted_at_most(budget: DisruptionBudget, *, pods: int) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_pods(pods)
        stage.world.budgets.put(budget)
        await stage.play(EvictEverything())

    return scene


def evicted_every(pause: timedelta, *, pods: int) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_pods(pods)
        await stage.play(EvictEverything(pause))

    return scene


def two_terms(*, first_acts_until: int) -> Scene:
    """The second copy takes the lease from the first one after twenty seconds, and acts."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        acts = tuple(timedelta(seconds=at) for at in range(5, first_acts_until, 10))
        stage.start(ActWhenElected(timedelta(), acts), "first")
        takeover = timedelta(seconds=20)
        stage.start(ActWhenElected(takeover, (timedelta(seconds=23),)), "second")
        await stage.wait(timedelta(minutes=1))

    return scene


def restless(*, targets: tuple[int, ...], quiet_after: int, evicts: bool = False) -> Scene:
    """A recommender publishes one target after the other, and an updater may act on the last."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(LARGER)
        stage.put_pods(1)
        for number, target in enumerate(targets):
            if number == quiet_after:
                stage.inspector.expect_quiet()
            await stage.play(PublishTo((a_recommendation(target=amounts(target)),)))
        if evicts:
            await stage.play(EvictEverything())

    return scene


SINS = [
    pytest.param(
        RequestBounds, resized((None, 10 * MIB)), resized((None, 64 * MIB)), id="below minAllowed"
    ),
    pytest.param(RequestBounds, resized((500, None)), resized((400, None)), id="above maxAllowed"),
    pytest.param(
        RequestBounds,
        resized((500, None)),
        resized((500, None), annotations=BOOSTED),
        id="above maxAllowed without a boost",
    ),
    pytest.param(RequestBounds, admitted(500), admitted(300), id="admission above maxAllowed"),
    pytest.param(
        RequestBounds,
        admitted(500),
        admitted(500, annotations=BOOSTED),
        id="admission above maxAllowed without a boost",
    ),
    pytest.param(
        RequestBounds,
        resized_after_an_edit(11),
        resized_after_an_edit(1),
        id="by a policy that changed long ago",
    ),
    pytest.param(
        RequestBounds,
        resized(
            (40, None), policy=replace(POLICY, controlled_values=ControlledValues.REQUESTS_ONLY)
        ),
        resized(
            (40, None),
            policy=replace(POLICY, controlled_values=ControlledValues.REQUESTS_ONLY),
            containers=(Container("app", spec=Allocation(amounts(30, 1), amounts(40, 2))),),
        ),
        id="below minAllowed though the limit has room",
    ),
    pytest.param(
        Modes,
        resized((200, 50 * MIB), UpdateMode.UPSCALE_ONLY),
        resized((200, 100 * MIB), UpdateMode.UPSCALE_ONLY),
        id="UpscaleOnly shrinks",
    ),
    pytest.param(
        Modes,
        resized((50, 100 * MIB), UpdateMode.UPSCALE_ONLY),
        resized((50, 100 * MIB), UpdateMode.UPSCALE_ONLY, annotations=BOOSTED),
        id="UpscaleOnly takes CPU away that no boost gave",
    ),
    pytest.param(
        Modes,
        resized((200, None), UpdateMode.OFF),
        resized((200, None), UpdateMode.OFF, annotations=BOOSTED),
        id="Off resizes without a boost",
    ),
    pytest.param(
        Modes,
        resized((200, None), UpdateMode.RECREATE),
        resized((200, None), UpdateMode.IN_PLACE_OR_RECREATE),
        id="Recreate resizes",
    ),
    pytest.param(Modes, evicted(UpdateMode.OFF), evicted(UpdateMode.RECREATE), id="Off evicts"),
    pytest.param(
        Modes,
        evicted(UpdateMode.INITIAL),
        evicted(UpdateMode.AUTO),
        id="Initial evicts",
    ),
    pytest.param(
        Modes,
        evicted(UpdateMode.IN_PLACE),
        evicted(UpdateMode.IN_PLACE_OR_RECREATE),
        id="InPlace evicts",
    ),
    pytest.param(Modes, evicted(None), evicted(UpdateMode.RECREATE), id="nobody governs the pod"),
    pytest.param(
        Modes,
        evicted(UpdateMode.UPSCALE_ONLY, SMALLER),
        evicted(UpdateMode.UPSCALE_ONLY, LARGER),
        id="UpscaleOnly evicts a pod that would shrink",
    ),
    pytest.param(
        PodBudgets,
        evicted_past_refusals(ready=2),
        evicted_past_refusals(ready=3),
        id="an eviction past a budget",
    ),
    pytest.param(
        EvictionRate,
        evicted_every(timedelta(seconds=0.5), pods=25),
        evicted_every(timedelta(seconds=1), pods=25),
        id="twice as fast as allowed",
    ),
    pytest.param(
        EvictionRate,
        evicted_every(timedelta(), pods=12),
        evicted_every(timedelta(), pods=10),
        id="more at once than the burst",
    ),
    pytest.param(
        Leaders,
        two_terms(first_acts_until=30),
        two_terms(first_acts_until=20),
        id="the old leader goes on when there is a new one",
    ),
    pytest.param(
        Quiet,
        restless(targets=(100, 120, 100), quiet_after=2),
        restless(targets=(100, 120, 120), quiet_after=2),
        id="targets that never come to rest",
    ),
    pytest.param(
        Quiet,
        restless(targets=(100, 100), quiet_after=1, evicts=True),
        restless(targets=(100,), quiet_after=1, evicts=True),
        id="evictions that never end",
    ),
]


@pytest.mark.parametrize(("checker", "sin", "_"), SINS)
def test_each_checker_objects_to_its_sin(checker: type[Checker], sin: Scene, _: Scene) -> None:
    assert judge(checker, sin)


@pytest.mark.parametrize(("checker", "_", "twin"), SINS)
def test_each_checker_has_nothing_against_the_honest_twin(
    checker: type[Checker], _: Scene, twin: Scene
) -> None:
    assert judge(checker, twin) == []
