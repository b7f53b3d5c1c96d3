from simulation.node_makers import Stage, a_load, a_program, on_a_stage, passing
from support.makers.records import MIB, amounts, minutes

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.core.model.pods import PodPhase
from trimtab.simulation.world.facts import PodPressedOut
from trimtab.simulation.world.objects import ContainerTemplate, NodeObject

SMALL = NodeObject("node-0", amounts(8000, 1000 * MIB))


def greedy(requested: int, used: int, name: str = "app") -> ContainerTemplate:
    return a_program(name, requests=amounts(10, requested * MIB), load=a_load(memory=used * MIB))


def evictions(stage: Stage) -> list[MemoryEviction]:
    return [notice.eviction for notice in stage.world.evictions]


def test_the_pod_that_exceeds_its_requests_most_has_to_go() -> None:
    async def play(stage: Stage) -> tuple[list[PodPressedOut], list[MemoryEviction]]:
        stage.place(greedy(500, 500), name="large")
        stage.place(greedy(100, 350), name="greedy")
        stage.place(greedy(100, 250), name="less-greedy")
        await passing(minutes(3))
        return stage.told(PodPressedOut), evictions(stage)

    (fact,), (eviction,) = on_a_stage(play, nodes=[SMALL])

    gone = fact.pod
    assert fact.blamed == (eviction,)
    assert (gone.name, gone.phase, gone.ready_since) == ("greedy", PodPhase.FAILED, None)
    assert not gone.containers[0].is_running
    assert (eviction.pod, eviction.container) == ("greedy", "app")
    assert eviction.memory_bytes == 350 * MIB
    assert gone.containers[0].termination is not None
    assert eviction.at == gone.containers[0].termination.finished_at


def test_as_many_go_as_are_needed_and_no_more() -> None:
    async def play(stage: Stage) -> list[str]:
        for number in range(6):
            stage.place(greedy(10, 300 + number), name=f"pod-{number}")
        await passing(minutes(3))
        return [pod.name for pod in stage.world.pods if pod.phase is PodPhase.RUNNING]

    assert on_a_stage(play, nodes=[SMALL]) == ["pod-0", "pod-1", "pod-2"]


def test_only_containers_over_their_requests_are_blamed() -> None:
    async def play(stage: Stage) -> list[str]:
        stage.place(greedy(100, 900), greedy(400, 300, "modest"))
        await passing(minutes(3))
        return [eviction.container for eviction in evictions(stage)]

    assert on_a_stage(play, nodes=[SMALL]) == ["app"]


def test_another_node_is_left_alone() -> None:
    other = NodeObject("node-1", amounts(8000, 1000 * MIB))

    async def play(stage: Stage) -> list[str]:
        stage.place(greedy(10, 1100), name="here")
        stage.place(greedy(10, 900), name="there", node="node-1")
        await passing(minutes(3))
        return [fact.pod.name for fact in stage.told(PodPressedOut)]

    assert on_a_stage(play, nodes=[SMALL, other]) == ["here"]


def test_a_node_that_is_just_full_presses_nobody_out() -> None:
    async def play(stage: Stage) -> int:
        stage.place(greedy(10, 1000))
        await passing(minutes(3))
        return len(stage.told(PodPressedOut))

    assert on_a_stage(play, nodes=[SMALL]) == 0
