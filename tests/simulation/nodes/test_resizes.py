from datetime import timedelta
from itertools import pairwise

import pytest
from simulation.node_makers import Stage, a_load, a_program, on_a_stage, passing
from support.makers.records import MIB, amounts, minutes

from trimtab.core.model.pods import Allocation, ContainerKind, ResizeState
from trimtab.core.model.resources import Resources
from trimtab.simulation.world.facts import ContainerKilled
from trimtab.simulation.world.loads import ROLE_LABEL
from trimtab.simulation.world.objects import RestartPolicy

SOON = timedelta(seconds=30)
USUAL = amounts(100, 100 * MIB)
MORE = amounts(200, 200 * MIB)


def resize_states(stage: Stage) -> list[ResizeState | None]:
    """How the resize of the first pod stood, without repetitions."""
    pods = [change.after for change in stage.history if change.name.name == "web-0"]
    seen = [pod.resize for pod in pods if pod is not None]
    return [seen[0], *(after for before, after in pairwise(seen) if after != before)]


async def settled(stage: Stage) -> None:
    await stage.until(lambda: stage.pod().ready_since, within=minutes(1))
    # At least one turn has measured it.
    await passing(SOON)


@pytest.mark.parametrize(
    ("requests", "limits"),
    [
        pytest.param(MORE, None, id="more of both"),
        pytest.param(amounts(50, 50 * MIB), None, id="less of both"),
        pytest.param(USUAL, amounts(1000, 500 * MIB), id="limits where there were none"),
        pytest.param(None, None, id="nothing at all"),
    ],
)
def test_a_resize_that_fits_is_in_progress_for_a_moment_and_then_done(
    requests: Resources | None, limits: Resources | None
) -> None:
    async def play(stage: Stage) -> tuple[object, object, timedelta]:
        stage.place()
        await settled(stage)
        stage.ask(requests, limits)
        wanted = Allocation(requests, limits)
        took = await stage.until(lambda: stage.container().status == wanted, within=SOON)
        return resize_states(stage), stage.container().restart_count, took

    states, restarts, took = on_a_stage(play)

    assert states == [None, ResizeState.IN_PROGRESS, None]
    assert restarts == 0
    assert timedelta(seconds=0.3) < took < timedelta(seconds=2)


def test_sidecars_are_resized_like_all_others() -> None:
    async def play(stage: Stage) -> Allocation | None:
        stage.place(a_program(), a_program("proxy", kind=ContainerKind.SIDECAR))
        await settled(stage)
        stage.ask(MORE, name="proxy")
        await passing(SOON)
        return stage.container("proxy").status

    assert on_a_stage(play) == Allocation(MORE)


def test_a_resize_beyond_the_node_is_infeasible_until_less_is_asked_for() -> None:
    async def play(stage: Stage) -> tuple[object, object, object]:
        stage.place()
        await settled(stage)
        stage.ask(amounts(9000, 100 * MIB))
        await passing(minutes(5))
        refused = stage.pod().resize, stage.container().status
        stage.ask(MORE)
        await passing(SOON)
        return refused, resize_states(stage), stage.container().status

    refused, states, status = on_a_stage(play)

    assert refused == (ResizeState.INFEASIBLE, Allocation(USUAL))
    assert states == [None, ResizeState.INFEASIBLE, ResizeState.IN_PROGRESS, None]
    assert status == Allocation(MORE)


def test_a_resize_that_does_not_fit_beside_the_others_waits_for_room() -> None:
    async def play(stage: Stage) -> tuple[object, object, object]:
        stage.place()
        other = stage.place(a_program(requests=amounts(7000, 100 * MIB)), name="other")
        await settled(stage)
        stage.ask(amounts(2000, 100 * MIB))
        await passing(minutes(5))
        waiting = stage.pod().resize, stage.container().status
        stage.world.pods.delete(other.namespace, other.name)
        await passing(SOON)
        return waiting, resize_states(stage), stage.container().status

    waiting, states, status = on_a_stage(play)

    assert waiting == (ResizeState.DEFERRED, Allocation(USUAL))
    assert states == [None, ResizeState.DEFERRED, ResizeState.IN_PROGRESS, None]
    assert status == Allocation(amounts(2000, 100 * MIB))


def test_room_also_appears_when_a_neighbour_shrinks() -> None:
    async def play(stage: Stage) -> Allocation | None:
        stage.place()
        stage.place(a_program(requests=amounts(7000, 100 * MIB)), name="other")
        await settled(stage)
        stage.ask(amounts(2000, 100 * MIB))
        await passing(minutes(1))
        stage.ask(USUAL, pod="other")
        await passing(minutes(1))
        return stage.container().status

    assert on_a_stage(play) == Allocation(amounts(2000, 100 * MIB))


def test_what_waits_for_room_takes_none_from_others() -> None:
    async def play(stage: Stage) -> list[object]:
        for name in ("web-0", "other", "third"):
            stage.place(a_program(requests=amounts(2000, 100 * MIB)), name=name)
        await settled(stage)
        stage.ask(amounts(5000, 100 * MIB))
        await passing(minutes(1))
        stage.ask(amounts(3900, 100 * MIB), pod="other")
        await passing(minutes(1))
        return [stage.pod(name).resize for name in ("web-0", "other")]

    assert on_a_stage(play) == [ResizeState.DEFERRED, None]


def test_a_full_node_lets_a_pod_shrink() -> None:
    async def play(stage: Stage) -> Allocation | None:
        stage.place(a_program(requests=amounts(5000, 100 * MIB)))
        stage.place(a_program(requests=amounts(5000, 100 * MIB)), name="other")
        await settled(stage)
        stage.ask(amounts(4000, 100 * MIB))
        await passing(SOON)
        return stage.container().status

    assert on_a_stage(play) == Allocation(amounts(4000, 100 * MIB))


def test_a_memory_limit_below_usage_is_an_error_until_usage_falls() -> None:
    roles = {"busy": a_load(memory=300 * MIB)}

    async def play(stage: Stage) -> tuple[object, object, object]:
        stage.place(
            a_program(limits=amounts(memory=400 * MIB), role_loads=roles),
            labels={ROLE_LABEL: "busy"},
        )
        await settled(stage)
        stage.ask(USUAL, amounts(memory=200 * MIB))
        await passing(minutes(5))
        stuck = stage.pod().resize, stage.container().status
        stage.label({ROLE_LABEL: "idle"})
        await passing(SOON)
        assert not stage.told(ContainerKilled)
        return stuck, resize_states(stage), stage.container().status

    stuck, states, status = on_a_stage(play)

    assert stuck == (ResizeState.ERROR, Allocation(USUAL, amounts(memory=400 * MIB)))
    assert states == [None, ResizeState.ERROR, ResizeState.IN_PROGRESS, None]
    assert status == Allocation(USUAL, amounts(memory=200 * MIB))


@pytest.mark.parametrize(
    ("first", "state"),
    [
        pytest.param(amounts(9000, 100 * MIB), ResizeState.INFEASIBLE, id="infeasible"),
        pytest.param(amounts(2000, 100 * MIB), ResizeState.DEFERRED, id="deferred"),
        pytest.param(MORE, ResizeState.IN_PROGRESS, id="in progress"),
    ],
)
def test_a_resize_that_is_taken_back_leaves_no_trace(first: Resources, state: ResizeState) -> None:
    async def play(stage: Stage) -> object:
        stage.place()
        stage.place(a_program(requests=amounts(7000, 100 * MIB)), name="other")
        await settled(stage)
        stage.ask(first)
        await stage.until(lambda: stage.pod().resize is state, within=SOON)
        stage.ask(USUAL)
        await passing(SOON)
        return stage.pod().resize, stage.container().status

    assert on_a_stage(play) == (None, Allocation(USUAL))


def test_a_newer_resize_replaces_the_one_that_is_under_way() -> None:
    async def play(stage: Stage) -> tuple[object, object]:
        stage.place()
        await settled(stage)
        for cpu in range(200, 1200, 10):
            stage.ask(amounts(cpu, 100 * MIB))
            await passing(timedelta(milliseconds=20))
        await passing(SOON)
        return stage.container().status, stage.pod().resize

    assert on_a_stage(play) == (Allocation(amounts(1190, 100 * MIB)), None)


def test_a_container_that_restarts_on_a_resize_does_so_once() -> None:
    async def play(stage: Stage) -> tuple[object, object, object]:
        stage.place(a_program(restarts_on_resize=True), a_program("other"))
        await settled(stage)
        stage.ask(MORE)
        await passing(minutes(5))
        restarts = [stage.container(name).restart_count for name in ("app", "other")]
        return restarts, stage.container().last_termination, stage.pod().ready_since

    restarts, last, ready_since = on_a_stage(play)

    assert restarts == [1, 0]
    assert last is not None
    assert ready_since is not None


def test_a_resize_of_another_container_restarts_nobody() -> None:
    async def play(stage: Stage) -> int:
        stage.place(a_program(restarts_on_resize=True), a_program("other"))
        await settled(stage)
        stage.ask(MORE, name="other")
        await passing(minutes(5))
        return stage.container().restart_count

    assert on_a_stage(play) == 0


def test_a_container_that_restarts_may_get_less_memory_than_it_uses() -> None:
    async def play(stage: Stage) -> Allocation | None:
        stage.place(
            a_program(
                restarts_on_resize=True,
                limits=amounts(memory=400 * MIB),
                load=a_load(memory=300 * MIB),
            )
        )
        await settled(stage)
        stage.ask(USUAL, amounts(memory=200 * MIB))
        await passing(SOON)
        return stage.container().status

    assert on_a_stage(play) == Allocation(USUAL, amounts(memory=200 * MIB))


def test_more_memory_that_comes_during_the_back_off_ends_the_kills() -> None:
    greedy = a_program(limits=amounts(memory=100 * MIB), load=a_load(memory=150 * MIB))

    async def play(stage: Stage) -> tuple[int, int]:
        stage.place(greedy)
        await stage.until(lambda: stage.container().last_termination, within=minutes(1))
        stage.ask(MORE, amounts(memory=200 * MIB))
        before = len(stage.told(ContainerKilled))
        await passing(minutes(10))
        return before, len(stage.told(ContainerKilled))

    assert on_a_stage(play) == (1, 1)


def test_a_pod_that_is_over_is_not_resized_any_more() -> None:
    async def play(stage: Stage) -> ResizeState | None:
        stage.place(restart_policy=RestartPolicy.NEVER, runs_for=timedelta(seconds=20))
        await passing(minutes(1))
        stage.ask(MORE)
        await passing(minutes(1))
        return stage.pod().resize

    assert on_a_stage(play) is None
