"""Workers: real processes that count, end when they are told to, and are missed."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from support.servers.waiting import until

from trimtab.admission.reports import AdmissionCounts
from trimtab.cli.runtime.workers import (
    Link,
    WorkerError,
    WorkerProcesses,
    count_workers,
    fork,
    usable_cores,
)

PATIENCE = timedelta(seconds=20)
QUICK = timedelta(milliseconds=10)


async def report(link: Link) -> None:
    await link.report(AdmissionCounts(shed=7), QUICK)


def hire_workers(count: int, work: Callable[[Link], Awaitable[None]] = report) -> WorkerProcesses:
    """A crew whose workers do only that."""
    found = fork(count)
    if isinstance(found, WorkerProcesses):
        return found
    # A worker is a copy of this test run, of which nothing else may go on.
    try:
        asyncio.run(asyncio.wait_for(work(found), PATIENCE.total_seconds()))
    finally:
        os._exit(0)


def test_the_counts_of_all_workers_are_known_to_the_first_process() -> None:
    async def scene() -> None:
        crew = hire_workers(2)
        listening = asyncio.create_task(crew.listen())
        await until(lambda: [tally.shed for tally in crew.tallies] == [7, 7])
        await crew.end(PATIENCE)
        await listening

    asyncio.run(scene())


def test_a_worker_that_is_gone_is_missed_at_once() -> None:
    async def scene() -> None:
        crew = hire_workers(2)
        listening = asyncio.create_task(crew.listen())
        await until(lambda: all(tally.shed for tally in crew.tallies))
        os.kill(crew._members[0].process, signal.SIGKILL)

        with pytest.raises(ExceptionGroup) as caught:
            await listening
        assert caught.group_contains(WorkerError, match="-9")
        await asyncio.to_thread(os.waitpid, crew._members[1].process, 0)

    asyncio.run(scene())


def test_without_workers_there_is_nobody_to_listen_to() -> None:
    async def scene() -> None:
        crew = hire_workers(0)
        await crew.listen()
        await crew.end(PATIENCE)

        assert list(crew.tallies) == []

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("text", "most"),
    [
        pytest.param("20000 100000\n", 1, id="a part of a core is one"),
        pytest.param("150000 100000\n", 2, id="one and a half are two"),
        pytest.param("max 100000\n", None, id="no quota"),
        pytest.param("", None, id="nothing to read"),
    ],
)
def test_no_more_cores_are_used_than_the_cgroup_grants(
    tmp_path: Path, text: str, most: int | None
) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(text, encoding="ascii")
    affine = len(os.sched_getaffinity(0))

    assert usable_cores(quota) == (affine if most is None else min(affine, most))


def test_as_many_workers_as_asked_for_or_one_for_each_core() -> None:
    assert count_workers(3) == 3
    assert count_workers(0) == usable_cores()
