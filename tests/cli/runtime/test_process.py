"""A component that is told to end: what is still done, and what is not."""

import asyncio
import contextlib
import gc
import json
import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.lease_server import Candidate, LeaseServer, wait_for

from trimtab.admission.server.limits import USUAL_LIMITS
from trimtab.cli.errors import FailedError
from trimtab.cli.flags.common import LogFlags
from trimtab.cli.runtime import logs
from trimtab.cli.runtime.process import GRACE, Runnable, run, serve
from trimtab.cluster.live.leader_election import Elector


class Worker:
    """A component that works until it is told to end, and then takes some time to save."""

    def __init__(self, saving_seconds: float = 0) -> None:
        self.story: list[str] = []
        self.duty = Runnable(self._act, self._save)
        self._saving_seconds = saving_seconds
        self.breaks = asyncio.Event()

    async def _act(self) -> None:
        self.story.append("acts")
        try:
            await self.breaks.wait()
            raise ValueError("broken")
        finally:
            self.story.append("stops")

    async def _save(self) -> None:
        await asyncio.sleep(self._saving_seconds)
        self.story.append("saved")


async def start(
    worker: Worker, elector: Elector | None = None
) -> tuple[asyncio.Event, "asyncio.Task[None]"]:
    stop = asyncio.Event()
    serving = asyncio.create_task(serve("worker", worker.duty, stop, elector))
    await asyncio.sleep(0.1)
    return stop, serving


def test_a_component_that_is_told_to_end_stops_and_then_saves() -> None:
    async def scenario() -> list[str]:
        worker = Worker()
        stop, serving = await start(worker)
        stop.set()
        await serving
        return worker.story

    assert run_virtually(scenario()) == ["acts", "stops", "saved"]


def test_what_was_begun_comes_to_its_end_before_acting_stops() -> None:
    async def scenario() -> list[str]:
        worker = Worker()

        async def wind_down() -> None:
            await asyncio.sleep(3)
            worker.story.append("begun is done")

        worker.duty = replace(worker.duty, wind_down=wind_down)
        stop, serving = await start(worker)
        stop.set()
        await serving
        return worker.story

    assert run_virtually(scenario()) == ["acts", "begun is done", "stops", "saved"]


def test_saving_that_takes_too_long_is_given_up() -> None:
    async def scenario() -> tuple[list[str], float]:
        worker = Worker(saving_seconds=1000)
        stop, serving = await start(worker)
        stop.set()
        began = asyncio.get_running_loop().time()
        await serving
        return worker.story, asyncio.get_running_loop().time() - began

    story, took = run_virtually(scenario())

    assert story == ["acts", "stops"]
    assert took == pytest.approx(GRACE.total_seconds())


def test_a_component_that_breaks_says_so() -> None:
    async def scenario() -> None:
        worker = Worker()
        _, serving = await start(worker)
        worker.breaks.set()
        await serving

    with pytest.raises(ExceptionGroup) as caught:
        run_virtually(scenario())

    assert caught.group_contains(ValueError, match="broken")


def test_the_lease_is_kept_while_saving_and_free_afterwards() -> None:
    async def scenario() -> tuple[str, str, list[str]]:
        server, worker = LeaseServer(), Worker(saving_seconds=15)
        stop, serving = await start(worker, Candidate(server, "one").elector)
        stop.set()
        await asyncio.sleep(14)
        assert server.lease is not None
        meanwhile = server.lease.holder
        await serving
        return meanwhile, server.lease.holder, worker.story

    meanwhile, afterwards, story = run_virtually(scenario())

    assert meanwhile.startswith("one")
    assert afterwards == ""
    assert story == ["acts", "stops", "saved"]


def test_who_only_waits_for_the_lease_ends_at_once_and_saves_nothing() -> None:
    async def scenario() -> tuple[list[str], float]:
        server, worker = LeaseServer(), Worker()
        leader = Candidate(server, "one")
        leader.start()
        await wait_for(leader.elector.leads)
        stop, serving = await start(worker, Candidate(server, "two").elector)
        began = asyncio.get_running_loop().time()
        stop.set()
        await serving
        took = asyncio.get_running_loop().time() - began
        await leader.stop()
        return worker.story, took

    story, took = run_virtually(scenario())

    assert story == []
    assert took < 1


def test_who_loses_the_lease_stops_without_saving_and_acts_again_later() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        server, worker = LeaseServer(), Worker()
        candidate = Candidate(server, "one")
        stop, serving = await start(worker, candidate.elector)
        candidate.link.hangs_until = asyncio.get_running_loop().time() + 30
        await wait_for(lambda: not candidate.elector.leads())
        await asyncio.sleep(1)
        lost = list(worker.story)
        await wait_for(lambda: worker.story[-1] == "acts")
        regained = list(worker.story)
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        return lost, regained

    lost, regained = run_virtually(scenario())

    assert lost == ["acts", "stops"]
    assert regained == ["acts", "stops", "acts"]


@pytest.fixture
def _own_garbage() -> Iterator[None]:
    """A process sets thresholds of its own."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.fixture
def _few_files() -> Iterator[None]:
    """A process begins with few files that it may open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_own_garbage", "_few_files", "told")
def test_a_process_may_open_more_files_than_it_bears_connections() -> None:
    async def main(stop: asyncio.Event) -> None:
        del stop

    run(main)

    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > USUAL_LIMITS.connections * 2


@pytest.mark.usefixtures("_own_garbage", "told")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_is_heard_and_ends_the_process_well(number: signal.Signals) -> None:
    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        async with asyncio.timeout(30):
            await stop.wait()

    assert run(main) == 0


@pytest.mark.usefixtures("_own_garbage", "told")
def test_who_does_not_listen_is_ended_all_the_same() -> None:
    async def main(_: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    assert run(main, patience=timedelta()) == 1


@pytest.mark.usefixtures("_own_garbage")
def test_an_error_that_nobody_expected_is_logged_with_a_trace_and_code_1(told: StringIO) -> None:
    async def main(_: asyncio.Event) -> None:
        raise ValueError("odd")

    logs.set_up(LogFlags(), told)
    code = run(main)

    event = json.loads(told.getvalue())
    assert code == 1
    assert (event["event"], event["level"]) == ("broken", "error")
    assert "ValueError: odd" in event["exception"]


@pytest.mark.usefixtures("_own_garbage")
def test_what_is_missing_outside_is_for_the_caller_to_tell() -> None:
    async def main(_: asyncio.Event) -> None:
        raise FailedError("no cluster")

    with pytest.raises(FailedError, match="no cluster"):
        run(main)
