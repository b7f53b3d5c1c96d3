from datetime import timedelta
from functools import partial
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation.node_makers import Stage, a_load, a_program, on_a_stage, passing
from support.makers.records import MIB, amounts, hours, minutes

from trimtab.core.model.pods import Allocation, Container, ContainerKind, Pod, PodPhase
from trimtab.core.usage.oom_kills import find_oom_kills
from trimtab.simulation.world.facts import ContainerKilled
from trimtab.simulation.world.loads import ROLE_LABEL, Load, Wave, leaking
from trimtab.simulation.world.objects import RestartPolicy, Startup

GREEDY = a_program(limits=amounts(memory=100 * MIB), load=a_load(memory=200 * MIB))
SOON = timedelta(seconds=30)


def states(stage: Stage, name: str = "app") -> list[str]:
    """What was seen of a container, without repetitions."""
    seen = [
        _state(container)
        for change in stage.history
        if change.after is not None
        for container in change.after.containers
        if container.name == name
    ]
    return [seen[0], *(after for before, after in pairwise(seen) if after != before)]


def _state(container: Container) -> str:
    if container.termination is not None:
        return f"terminated {container.termination.reason}"
    return "running" if container.is_running else "waiting"


def running(stage: Stage) -> set[str]:
    """The names of the containers that run."""
    return {container.name for container in stage.pod().containers if container.is_running}


def runs_just(stage: Stage, names: set[str]) -> bool:
    return running(stage) == names


def back_offs(stage: Stage) -> list[float]:
    """How long the container was down each time that it ran again to be killed once more."""
    seen = [
        container.termination
        for change in stage.history
        if change.after is not None
        for container in change.after.containers
        if container.termination is not None
    ]
    ends = list(dict.fromkeys(seen))
    return [
        (later.started_at - end.finished_at).total_seconds()
        for end, later in pairwise(ends)
        if later.started_at is not None and end.finished_at is not None
    ]


def test_a_pod_that_is_placed_is_pulled_runs_and_gets_ready() -> None:
    async def play(stage: Stage) -> list[Pod]:
        stage.place()
        await passing(SOON)
        return [change.after for change in stage.history if change.after is not None]

    placed, accepted, running, ready = on_a_stage(play)

    assert (placed.phase, placed.started_at) == (PodPhase.PENDING, None)
    assert accepted.phase is PodPhase.PENDING
    assert accepted.started_at is not None
    assert (running.phase, running.ready_since) == (PodPhase.RUNNING, None)
    assert running.containers[0].is_running
    assert running.containers[0].status == running.containers[0].spec
    assert ready.ready_since is not None


def test_a_pod_that_ended_or_is_being_deleted_before_it_is_noticed_is_not_started() -> None:
    async def play(stage: Stage) -> Pod:
        pod = stage.place()
        stage.kubelet._serving.delete_pod(pod)
        await passing(timedelta(seconds=4))
        return stage.pod()

    assert on_a_stage(play).phase is PodPhase.PENDING


def test_sidecars_are_ready_one_after_the_other_before_the_rest_begins() -> None:
    slow = Startup(delay=timedelta(seconds=5))

    async def play(stage: Stage) -> list[tuple[PodPhase, float]]:
        stage.place(
            a_program("app"),
            a_program("other"),
            a_program("proxy", kind=ContainerKind.SIDECAR, startup=slow),
            a_program("log", kind=ContainerKind.SIDECAR, startup=slow),
        )
        seen = []
        for names in ({"proxy"}, {"proxy", "log"}, {"proxy", "log", "app", "other"}):
            took = await stage.until(partial(runs_just, stage, names), within=SOON)
            seen.append((stage.pod().phase, took.total_seconds()))
        return seen

    phases, spans = zip(*on_a_stage(play), strict=True)

    assert phases == (PodPhase.PENDING, PodPhase.PENDING, PodPhase.RUNNING)
    assert spans[1:] == pytest.approx([5, 5], abs=0.2)


def test_a_sidecar_that_comes_back_does_not_let_others_start_too_soon() -> None:
    greedy = a_program(
        "proxy",
        kind=ContainerKind.SIDECAR,
        limits=amounts(memory=100 * MIB),
        load=a_load(memory=200 * MIB),
    )
    slow = Startup(delay=minutes(2))

    async def play(stage: Stage) -> timedelta:
        stage.place(a_program(), greedy, a_program("log", kind=ContainerKind.SIDECAR, startup=slow))
        await stage.until(lambda: "log" in running(stage), within=SOON)
        took = await stage.until(lambda: "app" in running(stage), within=minutes(5))
        assert stage.container("proxy").restart_count
        return took

    assert on_a_stage(play) >= minutes(2)


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        pytest.param(amounts(cpu=500), 1 + 80, id="half a core"),
        pytest.param(amounts(cpu=2000), 1 + 20, id="two cores"),
        pytest.param(None, 1 + 10, id="no limit: as much as it can use"),
        pytest.param(amounts(cpu=0), 1 + 10, id="a limit of zero is none"),
        pytest.param(amounts(cpu=16_000), 1 + 10, id="more than it can use"),
    ],
)
def test_a_start_with_work_to_do_takes_less_time_with_more_cpu(
    limits: dict[str, int] | None, seconds: float
) -> None:
    startup = Startup(timedelta(seconds=1), work_cpu_seconds=40, max_millicores=4000)

    async def play(stage: Stage) -> timedelta:
        stage.place(a_program(limits=limits, startup=startup))  # type: ignore[arg-type]
        await stage.until(lambda: stage.container().is_running, within=SOON)
        return await stage.until(lambda: stage.pod().ready_since, within=minutes(3))

    assert on_a_stage(play).total_seconds() == pytest.approx(seconds, abs=0.3)


def test_a_start_goes_on_faster_once_it_has_more_cpu() -> None:
    startup = Startup(timedelta(), work_cpu_seconds=60)

    async def play(stage: Stage) -> timedelta:
        stage.place(a_program(limits=amounts(cpu=500), startup=startup))
        await stage.until(lambda: stage.container().is_running, within=SOON)
        await passing(timedelta(seconds=60))
        stage.ask(amounts(100, 100 * MIB), amounts(cpu=2000))
        return await stage.until(lambda: stage.pod().ready_since, within=minutes(3))

    # 30 of 60 CPU seconds are done after a minute; two cores need 15 s for the others.
    assert 15 < on_a_stage(play).total_seconds() < 18


def test_a_starting_container_burns_all_the_cpu_that_it_can_use() -> None:
    startup = Startup(timedelta(), work_cpu_seconds=60)

    async def play(stage: Stage) -> list[int]:
        stage.place(a_program(limits=amounts(cpu=1000), load=a_load(cpu=50), startup=startup))
        await passing(SOON)
        starting = await stage.usage()
        await passing(minutes(2))
        return [starting["web-0", "app"][0], (await stage.usage())["web-0", "app"][0]]

    assert on_a_stage(play) == [1000, 50]


def test_a_job_succeeds_when_its_time_is_over() -> None:
    async def play(stage: Stage) -> Pod:
        stage.place(restart_policy=RestartPolicy.NEVER, runs_for=minutes(2))
        await stage.until(lambda: stage.pod().phase is PodPhase.SUCCEEDED, within=minutes(3))
        return stage.pod()

    ended = on_a_stage(play)

    (container,) = ended.containers
    assert container.termination is not None
    assert (container.termination.reason, container.is_running) == ("Completed", False)
    assert ended.ready_since is None


def test_a_job_that_was_killed_does_its_work_from_the_beginning() -> None:
    leak = leaking(cpu_millicores=10, memory_bytes=0, leak_per_hour=6000 * MIB)

    async def play(stage: Stage) -> tuple[PodPhase, int]:
        stage.place(
            a_program(limits=amounts(memory=100 * MIB), load=leak),
            restart_policy=RestartPolicy.ON_FAILURE,
            runs_for=timedelta(seconds=75),
        )
        await passing(minutes(20))
        return stage.pod().phase, len(stage.told(ContainerKilled))

    phase, kills = on_a_stage(play)

    assert phase is PodPhase.RUNNING
    assert kills > 3


def test_a_container_over_its_memory_limit_is_terminated_waits_and_runs_again() -> None:
    async def play(stage: Stage) -> tuple[list[str], ContainerKilled]:
        stage.place(GREEDY)
        await stage.until(lambda: stage.container().restart_count, within=minutes(1))
        return states(stage), stage.told(ContainerKilled)[0]

    seen, killed = on_a_stage(play)

    assert seen == ["waiting", "running", "terminated OOMKilled", "waiting", "running"]
    assert (killed.memory_bytes, killed.limit_bytes) == (200 * MIB, 100 * MIB)
    assert killed.container_name == "app"


def test_a_pod_is_not_ready_while_one_of_its_containers_is_down() -> None:
    async def play(stage: Stage) -> list[Pod]:
        stage.place(GREEDY, a_program("other"))
        await passing(minutes(5))
        return [change.after for change in stage.history if change.after is not None]

    seen = on_a_stage(play)

    assert any(pod.ready_since for pod in seen)
    assert all(each.is_running for pod in seen if pod.ready_since for each in pod.containers)


def test_the_back_off_doubles_up_to_five_minutes() -> None:
    async def play(stage: Stage) -> list[float]:
        stage.place(GREEDY)
        await passing(hours(1))
        return back_offs(stage)

    assert on_a_stage(play)[:7] == pytest.approx([11, 21, 41, 81, 161, 301, 301], abs=1)


def test_the_back_off_begins_anew_after_ten_good_minutes() -> None:
    leak = leaking(cpu_millicores=10, memory_bytes=0, leak_per_hour=300 * MIB)

    async def play(stage: Stage) -> list[float]:
        stage.place(a_program(limits=amounts(memory=100 * MIB), load=leak))
        await passing(hours(2))
        return back_offs(stage)

    spans = on_a_stage(play)

    assert len(spans) > 3
    assert spans == pytest.approx([11] * len(spans), abs=1)


@pytest.mark.parametrize(
    ("policy", "phase", "restarts"),
    [
        pytest.param(RestartPolicy.NEVER, PodPhase.FAILED, False, id="never"),
        pytest.param(RestartPolicy.ON_FAILURE, PodPhase.RUNNING, True, id="on failure"),
        pytest.param(RestartPolicy.ALWAYS, PodPhase.RUNNING, True, id="always"),
    ],
)
def test_a_killed_container_comes_back_as_its_restart_policy_says(
    policy: RestartPolicy, phase: PodPhase, restarts: object
) -> None:
    async def play(stage: Stage) -> tuple[PodPhase, bool]:
        stage.place(GREEDY, restart_policy=policy)
        await passing(minutes(5))
        return stage.pod().phase, stage.container().restart_count > 0

    assert on_a_stage(play) == (phase, restarts)


def test_a_pod_fails_only_when_its_last_regular_container_has_ended() -> None:
    leak = leaking(cpu_millicores=10, memory_bytes=0, leak_per_hour=600 * MIB)

    async def play(stage: Stage) -> list[PodPhase]:
        stage.place(
            GREEDY,
            a_program("slow", limits=amounts(memory=100 * MIB), load=leak),
            a_program("proxy", kind=ContainerKind.SIDECAR),
            restart_policy=RestartPolicy.NEVER,
        )
        await passing(minutes(5))
        before = stage.pod().phase
        await passing(minutes(10))
        return [before, stage.pod().phase]

    assert on_a_stage(play) == [PodPhase.RUNNING, PodPhase.FAILED]


def test_a_sidecar_comes_back_whatever_the_restart_policy_of_its_pod() -> None:
    async def play(stage: Stage) -> tuple[PodPhase, int]:
        sidecar = a_program(
            "proxy",
            kind=ContainerKind.SIDECAR,
            limits=amounts(memory=100 * MIB),
            load=a_load(memory=200 * MIB),
        )
        stage.place(a_program(), sidecar, restart_policy=RestartPolicy.NEVER)
        await passing(minutes(5))
        return stage.pod().phase, stage.container("proxy").restart_count

    phase, restarts = on_a_stage(play)

    assert phase is not PodPhase.FAILED
    assert restarts > 1


wobbly = st.builds(
    lambda base, noise, spike, chance, leak: Load(
        Wave(base=10),
        Wave(base=base * MIB, noise=noise * MIB, spike=spike * MIB, spike_chance=chance,
             leak_per_hour=leak * MIB),
    ),
    st.integers(0, 120),
    st.integers(0, 60),
    st.integers(0, 200),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.sampled_from([0.0, 100.0, 3000.0]),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    loads=st.lists(wobbly, min_size=1, max_size=3),
    policy=st.sampled_from(RestartPolicy),
    seed=st.integers(0, 10**6),
    seen_share=st.sampled_from([0.2, 0.7, 1.0]),
)
def test_each_kill_is_found_once_and_none_twice(
    loads: list[Load], policy: RestartPolicy, seed: int, seen_share: float
) -> None:
    """Whoever sees every change finds every kill; whoever misses some never finds one twice."""

    async def play(stage: Stage) -> tuple[list[object], list[object]]:
        programs = [
            a_program(f"app-{number}", limits=amounts(memory=100 * MIB), load=load)
            for number, load in enumerate(loads)
        ]
        stage.place(*programs, restart_policy=policy)
        await passing(hours(1))
        told: list[object] = [
            (fact.container_name, fact.at) for fact in stage.told(ContainerKilled)
        ]
        random = Random(seed)
        pods = [change.after for change in stage.history if change.after is not None]
        looks = [pod for pod in pods if random.random() < seen_share]
        found: list[object] = [
            (kill.container_name, kill.time)
            for before, after in pairwise(looks)
            for kill in find_oom_kills(before, after)
        ]
        return told, found

    told, found = on_a_stage(play, seed=seed)

    assert len(found) == len(set(found))
    assert set(found) <= set(told)
    if seen_share == 1.0:
        assert sorted(found, key=str) == sorted(told, key=str)


def test_a_container_does_what_the_role_of_its_pod_asks_for() -> None:
    async def play(stage: Stage) -> list[int]:
        program = a_program(load=a_load(cpu=10), role_loads={"leader": a_load(cpu=80)})
        stage.place(program, labels={ROLE_LABEL: "follower"})
        used = []
        for role in ("follower", "leader", "follower"):
            stage.label({ROLE_LABEL: role})
            await passing(SOON)
            used.append((await stage.usage())["web-0", "app"][0])
        return used

    assert on_a_stage(play) == [10, 80, 10]


def test_a_pod_that_is_gone_leaves_nothing_behind() -> None:
    async def play(stage: Stage) -> tuple[int, object]:
        pod = stage.place(GREEDY)
        await passing(minutes(1))
        stage.world.pods.delete(pod.namespace, pod.name)
        count = len(stage.history)
        await passing(minutes(10))
        return len(stage.history) - count, await stage.usage()

    assert on_a_stage(play) == (0, {})


def test_a_new_pod_of_the_same_name_is_another_pod() -> None:
    async def play(stage: Stage) -> tuple[Pod, object]:
        first = stage.place(GREEDY)
        await passing(minutes(1))
        stage.world.pods.delete(first.namespace, first.name)
        stage.place(a_program(load=a_load(cpu=70, memory=30 * MIB)))
        await passing(minutes(1))
        return stage.pod(), await stage.usage()

    pod, used = on_a_stage(play)

    assert pod.ready_since is not None
    assert pod.containers[0].restart_count == 0
    assert pod.containers[0].status == Allocation(amounts(100, 100 * MIB))
    assert used == {("web-0", "app"): (70, 30 * MIB)}


def test_a_container_with_less_than_it_needs_gets_ready_once_a_resize_gives_it_more() -> None:
    async def play(stage: Stage) -> list[bool]:
        stage.place(a_program(needs=amounts(150)))
        await passing(minutes(10))
        seen = [stage.pod().ready_since is not None]
        stage.ask(amounts(150, 100 * MIB))
        await passing(minutes(1))
        return [*seen, stage.pod().ready_since is not None]

    assert on_a_stage(play) == [False, True]
