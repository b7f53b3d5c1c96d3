"""What a component's acts do to the world; what they promise to components is in the contract."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from simulation.toys import SELECTOR, Stage, set_amounts
from support.makers.records import MIB, a_recommendation, amounts

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.events import resized
from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import ClusterError, ConflictError, UnreachableError
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import Condition
from trimtab.core.model.json_patch import Add
from trimtab.core.model.pods import WorkloadName
from trimtab.simulation.api_server import requests
from trimtab.simulation.api_server.connection import (
    ConnectionTrouble,
    Disturbance,
    SimulatedConnection,
)
from trimtab.simulation.api_server.port import SimulatedCluster
from trimtab.simulation.api_server.requests import WRITES, Act
from trimtab.simulation.world.facts import (
    CheckpointDeleted,
    CheckpointSaved,
    EventEmitted,
    Fact,
    LeaseWritten,
    PodEvicted,
    PodPatched,
    PodResized,
    StatusPublished,
)
from trimtab.simulation.world.objects import WorkloadObject
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually

LARGER = a_recommendation(target=amounts(200, 200 * MIB))
STALE = Condition("UsageStale", "True")
CHECKPOINT = Checkpoint("default", "web", "app", AggregateCheckpoint())
ANNOTATED = (Add("/metadata/annotations", {"vpaInPlaceUpdated": "true"}),)

Doing = Callable[["Seat"], Awaitable[object]]


class Seat:
    """Somebody who sees a stage with a pod, an autoscaler and a checkpoint, and acts on it."""

    def __init__(self, stage: Stage, line: SimulatedConnection, cluster: SimulatedCluster) -> None:
        self.stage, self.line, self.cluster = stage, line, cluster
        self.facts: list[Fact] = []
        stage.world.subscribe(self.facts.append)
        self.pod = stage.put_pods(1)[0]
        self.autoscaler = stage.put_autoscaler()
        stage.world.checkpoints.put(replace(CHECKPOINT, name="web-app"))


def take_seat(do: Callable[[Seat], Awaitable[None]]) -> list[Fact]:
    """All that has happened when somebody has done something."""

    async def run() -> list[Fact]:
        stage = Stage()
        line = SimulatedConnection("updater", stage.world.random)
        cluster = SimulatedCluster(stage.world, stage.serving, line, clock=VirtualClock())
        seat = Seat(stage, line, cluster)
        await cluster.synced()
        await do(seat)
        return seat.facts

    return run_virtually(run())


ACTS: list[tuple[type[Fact], Doing]] = [
    (PodEvicted, lambda seat: seat.cluster.evict(seat.pod)),
    (
        PodResized,
        lambda seat: seat.cluster.resize(seat.pod, set_amounts(seat.pod, "requests", amounts(200))),
    ),
    (PodPatched, lambda seat: seat.cluster.patch_pod(seat.pod, ANNOTATED)),
    (StatusPublished, lambda seat: seat.cluster.publish_status(seat.autoscaler, [LARGER], [])),
    (StatusPublished, lambda seat: seat.cluster.publish_conditions(seat.autoscaler, [STALE])),
    (CheckpointSaved, lambda seat: seat.cluster.save_checkpoint(CHECKPOINT)),
    (CheckpointDeleted, lambda seat: seat.cluster.delete_checkpoint("default", "web-app")),
    (LeaseWritten, lambda seat: seat.cluster.write_lease(Lease("default", "a", holder="b"))),
    (EventEmitted, lambda seat: seat.cluster.emit(resized(seat.pod, seat.stage.world.now()))),
]
EACH_ACT = pytest.mark.parametrize(("fact", "act"), ACTS, ids=[fact.__name__ for fact, _ in ACTS])


@EACH_ACT
def test_each_act_is_one_fact_in_the_name_of_whoever_did_it(fact: type[Fact], act: Doing) -> None:
    async def do(seat: Seat) -> None:
        await act(seat)

    facts = take_seat(do)

    assert [type(each) for each in facts] == [fact]
    assert facts[0].actor == "updater"  # type: ignore[union-attr]


@EACH_ACT
def test_an_act_whose_answer_is_lost_has_happened_all_the_same(
    fact: type[Fact], act: Doing
) -> None:
    lost = ConnectionTrouble(
        1.0, lambda request: UnreachableError(request, "lost"), after_effect=True
    )

    async def do(seat: Seat) -> None:
        seat.line.disturbances.append(Disturbance(trouble=lost))
        if fact is EventEmitted:
            await act(seat)
            return
        with pytest.raises(UnreachableError):
            await act(seat)

    assert [type(each) for each in take_seat(do)] == [fact]


@EACH_ACT
@pytest.mark.parametrize(
    "disturbance",
    [
        pytest.param(
            Disturbance(trouble=ConnectionTrouble(1.0, requests.conflict, WRITES)), id="refused"
        ),
        pytest.param(Disturbance(is_cut=True), id="cut off"),
        pytest.param(Disturbance(is_silent=True), id="silence"),
    ],
)
def test_an_act_that_does_not_get_through_never_happens(
    fact: type[Fact], act: Doing, disturbance: Disturbance
) -> None:
    async def do(seat: Seat) -> None:
        seat.line.disturbances.append(disturbance)
        if fact is EventEmitted:
            await act(seat)
            return
        with pytest.raises(ClusterError):
            await act(seat)

    assert take_seat(do) == []


def test_what_is_as_it_should_be_is_not_written_again() -> None:
    async def do(seat: Seat) -> None:
        await seat.cluster.publish_status(seat.autoscaler, [LARGER], [STALE])
        await seat.stage.wait(timedelta(seconds=1))
        seen = seat.cluster.autoscalers.find("default", "web")
        assert seen is not None
        await seat.cluster.publish_status(seen, [LARGER], [STALE])
        await seat.cluster.publish_conditions(seen, [STALE])

    assert len(take_seat(do)) == 1


def test_who_acts_on_an_old_look_at_a_pod_gets_a_conflict() -> None:
    async def do(seat: Seat) -> None:
        await seat.cluster.patch_pod(seat.pod, ANNOTATED)
        with pytest.raises(ConflictError):
            await seat.cluster.evict(seat.pod)

    assert [type(fact) for fact in take_seat(do)] == [PodPatched]


def test_everything_a_component_sees_is_as_old_as_its_oldest_view() -> None:
    async def do(seat: Seat) -> None:
        seat.line.disturbances.append(Disturbance(is_silent=True))
        await seat.stage.wait(timedelta(minutes=7))

        age = seat.cluster.age()

        assert age is not None
        assert timedelta(minutes=7) <= age <= timedelta(minutes=8)
        assert not seat.cluster.problems()

    take_seat(do)


def test_a_workload_of_an_unknown_kind_is_asked_for_and_believed_for_a_while() -> None:
    async def do(seat: Seat) -> None:
        template = seat.stage.replica_set.template
        rollout = WorkloadObject("default", "Rollout", "web", template, SELECTOR, replicas=3)
        seat.stage.world.add_workload(rollout)
        name, asked = WorkloadName("default", "Rollout", "web"), list[str]()
        seat.line.after_request = lambda request: asked.append(request.act)
        for _ in range(3):
            found = await seat.cluster.owners.workload(name, "example.com/v1")
            assert found is not None
            assert found.replicas == 3

        assert asked == [Act.FETCH_SCALE]

    take_seat(do)
