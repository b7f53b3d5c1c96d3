import asyncio
import os
import subprocess
import sys
from datetime import timedelta

import pytest

from trimtab.simulation.world.virtual_time import (
    START,
    NothingDueError,
    VirtualClock,
    run_virtually,
)


def test_a_year_passes_at_once_and_to_the_second() -> None:
    async def work() -> timedelta:
        await VirtualClock().sleep(timedelta(days=365))
        return VirtualClock().elapsed()

    assert run_virtually(work()) == timedelta(days=365)


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    woken: list[int] = []

    async def sleep(seconds: int) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for seconds in (30, 5, 3600, 1, 60):
                group.create_task(sleep(seconds))

    run_virtually(work())

    assert woken == [1, 5, 30, 60, 3600]


def test_a_timeout_ends_what_takes_longer_and_nothing_else() -> None:
    async def work() -> list[str]:
        clock = VirtualClock()
        ends = []
        for seconds in (9, 11):
            try:
                async with asyncio.timeout(10):
                    await asyncio.sleep(seconds)
                ends.append(f"done after {clock.elapsed()}")
            except TimeoutError:
                ends.append(f"timeout after {clock.elapsed()}")
        return ends

    assert run_virtually(work()) == ["done after 0:00:09", "timeout after 0:00:19"]


def test_waiting_for_what_never_comes_is_an_error() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingDueError):
        run_virtually(work())


def test_a_clock_may_be_wrong_without_time_passing_differently() -> None:
    async def work() -> None:
        right, wrong = VirtualClock(), VirtualClock(timedelta(minutes=-2))
        await asyncio.sleep(60)

        assert right.now() == START + timedelta(minutes=1)
        assert wrong.now() == START - timedelta(minutes=1)
        assert wrong.elapsed() == right.elapsed() == timedelta(minutes=1)

    run_virtually(work())


def test_simulated_time_begins_on_a_monday_at_midnight() -> None:
    assert START.weekday() == 0
    assert START.timestamp() % 86_400 == 0


async def shuffle() -> str:
    """Work whose order follows from sets of tasks, and from whoever comes first."""
    told: list[str] = []

    async def work(number: int) -> None:
        await asyncio.sleep(number % 7)
        told.append(str(number))

    tasks = {asyncio.create_task(work(number)) for number in range(200)}
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        told.extend(f"{len(tasks)} left after {task.get_name()[:4]}" for task in done)
    return ",".join(told)


_PROGRAM = """
import sys; sys.path[:0] = {path!r}
from simulation.world.test_virtual_time import shuffle
from trimtab.simulation.world.virtual_time import run_virtually
held = [object() for _ in range({garbage})]
print(run_virtually(shuffle()))
"""


def test_the_order_depends_neither_on_hashes_nor_on_addresses() -> None:
    path = [each for each in sys.path if each]
    orders = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM.format(path=path, garbage=garbage)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed, garbage in (("1", 0), ("2", 1001), ("3", 77_777))
    }

    assert orders == {f"{run_virtually(shuffle())}\n"}


def test_tasks_are_known_by_their_names() -> None:
    async def work() -> str:
        async def nothing() -> None:
            pass

        task = asyncio.create_task(nothing(), name="nobody")
        await task
        return task.get_name()

    assert run_virtually(work()) == "nobody"
