import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random

import pytest

from trimtab.cluster.errors import ClusterError, ConflictError, ForbiddenError, UnreachableError
from trimtab.simulation.api_server import requests
from trimtab.simulation.api_server.connection import (
    PATIENCE,
    ConnectionTrouble,
    Disturbance,
    SimulatedConnection,
)
from trimtab.simulation.api_server.requests import EVICTIONS, PODS, RESIZES, Act, Request
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually

EVICT = Request(Act.EVICT, EVICTIONS.right("create", "default"), "web-0")
RESIZE = Request(Act.RESIZE, RESIZES.right("patch", "default"), "web-0")


def a_line(*disturbances: Disturbance) -> SimulatedConnection:
    return SimulatedConnection("updater", Random(1), list(disturbances))


def trouble(share: float = 1.0, **fields: object) -> Disturbance:
    made = ConnectionTrouble(share, requests.conflict, **fields)  # type: ignore[arg-type]
    return Disturbance(trouble=made)


async def ask(line: SimulatedConnection, request: Request, effects: list[str]) -> None:
    await line.send(request)
    effects.append(str(request))
    await line.receive(request)


def outcome(
    line: SimulatedConnection, request: Request = EVICT
) -> tuple[type[ClusterError] | None, int]:
    """What a request got for an answer, and how often it had an effect."""

    async def run() -> tuple[type[ClusterError] | None, int]:
        effects: list[str] = []
        try:
            await ask(line, request, effects)
        except ClusterError as error:
            return type(error), len(effects)
        return None, len(effects)

    return run_virtually(run())


def span_of(line: SimulatedConnection) -> timedelta:
    """How long a request took."""

    async def run() -> timedelta:
        with suppress(UnreachableError):
            await ask(line, EVICT, [])
        return VirtualClock().elapsed()

    return run_virtually(run())


@pytest.mark.parametrize(
    ("disturbance", "expected"),
    [
        pytest.param(Disturbance(), (None, 1), id="nothing is wrong"),
        pytest.param(trouble(), (ConflictError, 0), id="a refusal has no effect"),
        pytest.param(trouble(0.0), (None, 1), id="no request is hit"),
        pytest.param(
            trouble(after_effect=True),
            (ConflictError, 1),
            id="a lost answer, but the effect is there",
        ),
        pytest.param(
            trouble(only=frozenset({Act.RESIZE})), (None, 1), id="only other requests are hit"
        ),
        pytest.param(trouble(only=frozenset({Act.EVICT})), (ConflictError, 0), id="just these"),
        pytest.param(Disturbance(is_cut=True), (UnreachableError, 0), id="a cut line"),
        pytest.param(Disturbance(is_silent=True), (UnreachableError, 0), id="a silent line"),
    ],
)
def test_a_line_does_to_requests_what_is_set(
    disturbance: Disturbance, expected: tuple[type[ClusterError] | None, int]
) -> None:
    assert outcome(a_line(disturbance)) == expected


def test_about_as_many_requests_are_hit_as_the_share_says() -> None:
    line = a_line(trouble(0.3))
    refused = [outcome(line)[0] is ConflictError for _ in range(500)]

    assert 120 < sum(refused) < 180


def test_of_several_disturbances_the_worst_one_counts() -> None:
    slow = Disturbance(latency=timedelta(seconds=4), watch_lag=timedelta(seconds=1))
    slower = Disturbance(latency=timedelta(seconds=1), watch_lag=timedelta(minutes=1))
    line = a_line(slow, slower)

    assert line.latency == timedelta(seconds=4)
    assert line.watch_lag == timedelta(minutes=1)
    assert span_of(line) == timedelta(seconds=4)


def test_a_component_waits_for_an_answer_only_so_long() -> None:
    line = a_line(Disturbance(is_silent=True))

    assert PATIENCE <= span_of(line) < PATIENCE + timedelta(seconds=1)


def test_what_was_silent_for_a_moment_arrives_after_all() -> None:
    async def work() -> list[str]:
        line, effects = a_line(Disturbance(is_silent=True)), list[str]()
        asking = asyncio.create_task(ask(line, EVICT, effects))
        await asyncio.sleep(10)
        line.disturbances.clear()
        await asking
        return effects

    assert run_virtually(work()) == [str(EVICT)]


def test_nothing_that_a_dead_line_carries_ever_arrives() -> None:
    async def work() -> list[str]:
        line, effects = a_line(), list[str]()
        asking = asyncio.create_task(ask(line, EVICT, effects))
        await asyncio.sleep(0.001)
        line.is_dead = True
        await asyncio.sleep(3600)
        assert not asking.done()
        asking.cancel()
        return effects

    assert run_virtually(work()) == []


def test_a_missing_right_is_named_in_every_namespace() -> None:
    line = replace(a_line(), lacks=EVICTIONS.right("create"))

    async def work() -> ForbiddenError:
        with pytest.raises(ForbiddenError, match="pods/eviction") as raised:
            await line.send(EVICT)
        await line.send(RESIZE)
        await line.send(Request(Act.WATCH, PODS.right("watch")))
        return raised.value

    assert "default" in str(run_virtually(work()))


def test_whoever_listens_hears_of_requests_before_and_after_their_effect() -> None:
    heard: list[str] = []
    line = a_line()
    line.before_request = partial(_note, heard, "before")
    line.after_request = partial(_note, heard, "after")

    async def work() -> None:
        await ask(line, EVICT, heard)

    run_virtually(work())

    assert heard == [
        "before evict default/web-0",
        "evict default/web-0",
        "after evict default/web-0",
    ]


def _note(heard: list[str], when: str, request: Request) -> None:
    heard.append(f"{when} {request}")
