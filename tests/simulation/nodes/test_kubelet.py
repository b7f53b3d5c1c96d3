import hashlib
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from simulation.node_makers import PERIOD, Stage, a_load, a_program, on_a_stage, passing
from support.makers.records import MIB, amounts, hours, minutes

from trimtab.core.model.pods import Allocation, OwnerReference, Pod, PodPhase
from trimtab.simulation.world.facts import ContainerKilled
from trimtab.simulation.world.loads import Load, Wave, office_day
from trimtab.simulation.world.objects import NodeObject, Startup

TWO = [
    NodeObject("node-0", amounts(8000, 16384 * MIB)),
    NodeObject("node-1", amounts(8000, 16384 * MIB)),
]


async def lose(stage: Stage, node: NodeObject = TWO[0]) -> None:
    stage.world.nodes.put(replace(node, is_ready=False))
    await passing(minutes(1))


def test_the_pods_of_a_node_that_is_not_ready_are_not_ready_either() -> None:
    async def play(stage: Stage) -> list[bool]:
        stage.place(name="here")
        stage.place(name="there", node="node-1")
        await passing(minutes(1))
        await lose(stage)
        return [stage.pod(name).ready_since is not None for name in ("here", "there")]

    assert on_a_stage(play, nodes=TWO) == [False, True]


def test_pods_are_ready_again_when_their_node_is() -> None:
    async def play(stage: Stage) -> Pod:
        stage.place()
        await passing(minutes(1))
        await lose(stage)
        stage.world.nodes.put(TWO[0])
        await passing(minutes(10))
        return stage.pod()

    pod = on_a_stage(play)

    assert pod.ready_since is not None
    assert not pod.is_deleting


async def three_pods(stage: Stage) -> None:
    stage.place(name="here")
    stage.place(name="there", node="node-1")
    stage.place(name="daemon", owner=OwnerReference("DaemonSet", "daemon"))
    await passing(minutes(1))


def test_the_pods_of_a_node_that_stays_away_are_deleted_but_for_those_of_daemon_sets() -> None:
    async def play(stage: Stage) -> list[list[str]]:
        await three_pods(stage)
        await lose(stage)
        before = [pod.name for pod in stage.world.pods if pod.is_deleting]
        await passing(minutes(10))
        return [before, [pod.name for pod in stage.world.pods if pod.is_deleting]]

    assert on_a_stage(play, nodes=TWO) == [[], ["here"]]


def test_a_node_that_is_removed_loses_its_pods() -> None:
    async def play(stage: Stage) -> list[str]:
        await three_pods(stage)
        stage.world.nodes.delete("", "node-0")
        await passing(minutes(10))
        return sorted(pod.name for pod in stage.world.pods)

    assert on_a_stage(play, nodes=TWO) == ["daemon", "there"]


def test_a_node_that_is_not_ready_tells_no_usage_and_kills_nobody() -> None:
    async def play(stage: Stage) -> tuple[int, object]:
        stage.place(a_program(limits=amounts(memory=100 * MIB)))
        await passing(minutes(1))
        stage.kubelet.memory_factor = 3.0
        await lose(stage)
        return len(stage.told(ContainerKilled)), await stage.usage()

    assert on_a_stage(play) == (0, {})


def test_a_node_that_is_not_ready_neither_starts_nor_resizes_pods_until_it_is_back() -> None:
    async def play(stage: Stage) -> list[tuple[PodPhase, Allocation | None]]:
        stage.place(name="old")
        await passing(minutes(1))
        await lose(stage)
        stage.place(name="new")
        stage.ask(amounts(200, 200 * MIB), pod="old")
        seen = []
        for node in (replace(TWO[0], is_ready=False), TWO[0]):
            stage.world.nodes.put(node)
            await passing(minutes(1))
            seen.append((stage.pod("new").phase, stage.container(pod="old").status))
        return seen

    assert on_a_stage(play) == [
        (PodPhase.PENDING, Allocation(amounts(100, 100 * MIB))),
        (PodPhase.RUNNING, Allocation(amounts(200, 200 * MIB))),
    ]


def test_a_pod_waits_for_a_node_that_nobody_knows_yet() -> None:
    async def play(stage: Stage) -> list[PodPhase]:
        stage.place(node="node-1")
        await passing(minutes(1))
        phases = [stage.pod().phase]
        stage.world.nodes.put(TWO[1])
        await passing(minutes(1))
        return [*phases, stage.pod().phase]

    assert on_a_stage(play) == [PodPhase.PENDING, PodPhase.RUNNING]


def test_readiness_can_be_taken_from_a_pod_and_given_back() -> None:
    async def play(stage: Stage) -> list[bool]:
        pod = stage.place()
        await passing(minutes(1))
        seen = []
        for is_ready in (True, False, False, True):
            stage.kubelet.set_ready(pod, is_ready=is_ready)
            seen.append(stage.pod().ready_since is not None)
        return seen

    assert on_a_stage(play) == [True, False, False, True]


def test_a_failing_probe_does_not_make_a_starting_pod_ready_when_it_ends() -> None:
    slow = Startup(delay=minutes(5))

    async def play(stage: Stage) -> list[bool]:
        pod = stage.place(a_program(startup=slow))
        await passing(minutes(1))
        stage.kubelet.set_ready(pod, is_ready=False)
        stage.kubelet.set_ready(pod, is_ready=True)
        seen = [stage.pod().ready_since is not None]
        stage.kubelet.set_ready(pod, is_ready=False)
        await passing(minutes(10))
        return [*seen, stage.pod().ready_since is not None]

    assert on_a_stage(play) == [False, False]


def test_a_quiet_cluster_changes_no_object() -> None:
    async def play(stage: Stage) -> int:
        for number in range(5):
            stage.place(name=f"web-{number}")
        await passing(minutes(1))
        before = len(stage.history)
        await passing(hours(3))
        return len(stage.history) - before

    assert on_a_stage(play) == 0


def test_turns_come_in_even_steps() -> None:
    async def play(stage: Stage) -> set[timedelta]:
        stage.place()
        await passing(PERIOD / 2)
        times = []
        for _ in range(1000):
            await passing(PERIOD)
            readings = stage.kubelet.readings()
            assert readings is not None
            times.append(readings.at)
        return {after - before for before, after in pairwise(times)}

    assert on_a_stage(play) == {PERIOD}


def test_cpu_over_the_limit_is_lost_and_counted() -> None:
    async def play(stage: Stage) -> tuple[object, int]:
        stage.place(a_program(limits=amounts(cpu=200), load=a_load(cpu=500)))
        await passing(minutes(1))
        before = stage.kubelet.running.throttled_millicore_seconds
        await passing(minutes(1))
        after = stage.kubelet.running.throttled_millicore_seconds
        return (await stage.usage())["web-0", "app"][0], after - before

    assert on_a_stage(play) == (200, 300 * 60)


def test_everybody_can_be_made_to_want_more_memory() -> None:
    async def play(stage: Stage) -> list[int]:
        stage.place(a_program(limits=amounts(memory=100 * MIB), load=a_load(memory=50 * MIB)))
        await passing(minutes(1))
        stage.kubelet.memory_factor = 1.5
        await passing(minutes(1))
        used = (await stage.usage())["web-0", "app"][1]
        stage.kubelet.memory_factor = 3.0
        await passing(minutes(1))
        return [used // MIB, len(stage.told(ContainerKilled))]

    used, kills = on_a_stage(play)

    assert used == 75
    assert kills > 1


def test_loads_stay_as_they_are_once_they_are_held() -> None:
    async def play(stage: Stage) -> int:
        stage.place(a_program(load=office_day(cpu_millicores=1000, memory_bytes=50 * MIB)))
        await passing(minutes(10))
        stage.kubelet.hold_loads()
        seen = set()
        for _ in range(30):
            await passing(hours(1))
            seen.add((await stage.usage())["web-0", "app"])
        return len(seen)

    assert on_a_stage(play) == 1


def digest(seed: int) -> str:
    """Of all that happens to some restless pods."""
    restless = Load(
        Wave(base=50, noise=50),
        Wave(base=20 * MIB, noise=70 * MIB, spike=100 * MIB, spike_chance=0.05),
    )

    async def play(stage: Stage) -> str:
        for number in range(10):
            program = a_program(limits=amounts(200, 100 * MIB), load=restless)
            stage.place(program, name=f"web-{number}")
        for _ in range(60):
            await passing(minutes(1))
            stage.ask(amounts(100, 100 * MIB), amounts(300, 110 * MIB), pod="web-1")
            stage.facts.append(await stage.usage())  # type: ignore[arg-type]
        return hashlib.sha256(repr((stage.history, stage.facts)).encode()).hexdigest()

    return on_a_stage(play, seed=seed)


def test_one_seed_is_one_history_to_the_bit() -> None:
    assert digest(1) == digest(1)
    assert digest(1) != digest(2)
