from dataclasses import astuple
from random import Random
from typing import Any

import pytest
from simulation.node_makers import PERIOD, Stage, a_load, a_program, on_a_stage, passing
from support.makers.records import MIB, amounts, minutes

from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.errors import ApiError, UnreachableError
from trimtab.simulation.api_server.connection import Disturbance, SimulatedConnection
from trimtab.simulation.nodes.metrics_server import MetricsFault
from trimtab.simulation.world.facts import UsageTold
from trimtab.simulation.world.objects import RestartPolicy
from trimtab.simulation.world.virtual_time import START


def a_line(actor: str = "recommender", seed: int = 1) -> SimulatedConnection:
    return SimulatedConnection(actor, Random(seed))


async def fetched(stage: Stage, line: SimulatedConnection | None = None) -> UsageColumns:
    return await stage.metrics.source(line or a_line()).fetch()


def columns_of(told: UsageColumns) -> tuple[tuple[Any, ...], ...]:
    *columns, problems = astuple(told)
    assert problems == ()
    return tuple(columns)


def test_every_running_container_is_told_with_the_time_of_the_last_turn() -> None:
    async def play(stage: Stage) -> UsageColumns:
        stage.place(a_program("app", load=a_load(50, 60 * MIB)), a_program("log"))
        stage.place(a_program("app", load=a_load(70, 80 * MIB)), name="web-1")
        await passing(6 * PERIOD + PERIOD / 2)
        return await fetched(stage)

    told = on_a_stage(play)

    time = (START + 6 * PERIOD).timestamp()
    assert sorted(zip(*columns_of(told), strict=True)) == [
        ("default", "web-0", "app", time, 50, 60 * MIB, True, True),
        ("default", "web-0", "log", time, 50, 50 * MIB, True, True),
        ("default", "web-1", "app", time, 70, 80 * MIB, True, True),
    ]


def test_nothing_is_told_before_the_first_turn() -> None:
    async def play(stage: Stage) -> UsageColumns:
        stage.place()
        return await fetched(stage)

    assert on_a_stage(play) == UsageColumns()


def test_a_pod_that_went_or_ended_since_the_last_turn_is_not_told() -> None:
    async def play(stage: Stage) -> tuple[str, ...]:
        gone = stage.place(name="gone")
        stage.place(name="stays")
        stage.place(name="done", restart_policy=RestartPolicy.NEVER, runs_for=2.2 * PERIOD)
        await passing(2.4 * PERIOD)
        await stage.until(lambda: stage.pod("done").ready_since is None, within=minutes(1))
        stage.world.pods.delete(gone.namespace, gone.name)
        return (await fetched(stage)).pods

    assert on_a_stage(play) == ("stays",)


def test_a_container_is_not_told_with_the_usage_of_one_that_was_there_before() -> None:
    async def play(stage: Stage) -> list[int]:
        old = stage.place()
        await stage.until(stage.usage_of_last_turn, within=minutes(1))
        stage.world.pods.delete(old.namespace, old.name)
        stage.place()
        await stage.until(lambda: stage.container().is_running, within=PERIOD)
        return [len(await stage.usage()), len(stage.usage_of_last_turn())]

    assert on_a_stage(play) == [0, 1]


def test_pods_that_come_and_go_are_told_under_their_own_names() -> None:
    async def play(stage: Stage) -> list[list[str]]:
        told = []
        for name in ("web-0", "web-1", "web-2"):
            stage.place(name=name)
            await passing(minutes(1))
            told.append(sorted((await fetched(stage)).pods))
        stage.world.pods.delete("default", "web-0")
        stage.place(name="web-3")
        await passing(minutes(1))
        return [*told, sorted((await fetched(stage)).pods)]

    assert on_a_stage(play) == [
        ["web-0"],
        ["web-0", "web-1"],
        ["web-0", "web-1", "web-2"],
        ["web-1", "web-2", "web-3"],
    ]


def test_a_container_that_was_killed_is_not_told_until_it_runs_again() -> None:
    async def play(stage: Stage) -> list[bool]:
        stage.place(a_program(limits=amounts(memory=100 * MIB)))
        await passing(minutes(1))
        stage.kubelet.memory_factor = 3.0
        await stage.until(lambda: not stage.container().is_running, within=minutes(1))
        seen = [bool(await stage.usage())]
        stage.kubelet.memory_factor = 1.0
        await passing(minutes(1))
        return [*seen, bool(await stage.usage())]

    assert on_a_stage(play) == [False, True]


def test_a_metrics_server_that_is_gone_refuses() -> None:
    async def play(stage: Stage) -> None:
        stage.metrics.faults.append(MetricsFault.GONE)
        await fetched(stage)

    with pytest.raises(ApiError) as refused:
        on_a_stage(play)

    assert refused.value.status.code == 503


def test_a_line_that_is_cut_brings_no_usage() -> None:
    async def play(stage: Stage) -> None:
        line = a_line()
        line.disturbances.append(Disturbance(is_cut=True))
        await fetched(stage, line)

    with pytest.raises(UnreachableError):
        on_a_stage(play)


def test_about_half_of_the_pods_are_told_each_of_them_whole() -> None:
    async def play(stage: Stage) -> list[UsageColumns]:
        for number in range(40):
            stage.place(a_program("app"), a_program("log"), name=f"web-{number}")
        await passing(minutes(1))
        stage.metrics.faults.append(MetricsFault.HALF)
        line = a_line()
        return [await fetched(stage, line) for _ in range(2)]

    one, other = on_a_stage(play)

    assert one.pods != other.pods
    for told in (one, other):
        assert 10 <= len(set(told.pods)) <= 30
        assert all(told.pods.count(pod) == 2 for pod in told.pods)
        assert {len(column) for column in columns_of(told)} == {len(told.pods)}


def test_stale_readings_come_again_and_again_until_the_fault_ends() -> None:
    async def play(stage: Stage) -> list[tuple[float, ...]]:
        stage.place()
        await passing(minutes(1))
        times = [(await fetched(stage)).times]
        stage.metrics.faults.append(MetricsFault.STALE)
        for _ in range(2):
            await passing(minutes(5))
            times.append((await fetched(stage)).times)
        stage.metrics.faults.remove(MetricsFault.STALE)
        return [*times, (await fetched(stage)).times]

    before, first, second, after = on_a_stage(play)

    assert before == first == second
    assert after[0] == before[0] + 600


def test_absurd_readings_are_huge_negative_zero_or_missing() -> None:
    async def play(stage: Stage) -> UsageColumns:
        for number in range(60):
            stage.place(name=f"web-{number}")
        await passing(minutes(1))
        stage.metrics.faults.append(MetricsFault.ABSURD)
        return await fetched(stage)

    told = on_a_stage(play)

    for values in (told.cpu_millicores, told.memory_bytes):
        assert min(values) < 0
        assert max(values) == 2**63 - 1
        assert 0 in values
    assert not all(told.has_cpu)
    assert 50 * MIB in told.memory_bytes


def test_what_is_told_is_a_fact() -> None:
    async def play(stage: Stage) -> tuple[UsageColumns, list[UsageTold]]:
        stage.place()
        await passing(minutes(1))
        told = await fetched(stage, a_line("recommender"))
        return told, stage.told(UsageTold)

    told, (fact,) = on_a_stage(play)

    assert (fact.actor, fact.usage) == ("recommender", told)


def test_a_fault_can_be_that_of_one_component() -> None:
    async def play(stage: Stage) -> UsageColumns:
        stage.place()
        await passing(minutes(1))
        stage.metrics.faults_of["updater"] = [MetricsFault.GONE]
        with pytest.raises(ApiError):
            await fetched(stage, a_line("updater"))
        return await fetched(stage, a_line("recommender"))

    assert on_a_stage(play).pods == ("web-0",)
