from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from simulation.toys import EvictEverything, Stage

from trimtab.api.kinds.leases import Lease
from trimtab.simulation.api_server.connection import Disturbance
from trimtab.simulation.api_server.requests import EVICTIONS, Request
from trimtab.simulation.processes import Process, ProcessSurroundings
from trimtab.simulation.world.facts import Fact, PodEvicted, ProcessCrashed, ProcessStarted
from trimtab.simulation.world.virtual_time import run_virtually

MINUTE = timedelta(minutes=1)


@dataclass
class Diary:
    """A component that counts the pods it sees, for ever, and says goodbye in a lease."""

    counts: list[int] = field(default_factory=list)
    starts: int = 0

    async def __call__(self, surroundings: ProcessSurroundings) -> None:
        self.starts += 1
        cluster, clock = surroundings.cluster, surroundings.clock
        assert list(cluster.pods) == []
        await cluster.synced()
        try:
            while True:
                self.counts.append(len(list(cluster.pods)))
                await clock.sleep(MINUTE)
        finally:
            await cluster.write_lease(Lease("default", "goodbye", holder="diary"))


def crash_at(process: Process, number: int) -> Callable[[Request], None]:
    """Ends the process at one of its requests."""
    left = number

    def count_down(request: Request) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            process.crash(str(request))

    return count_down


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("before", [True, False], ids=["before its effect", "after its effect"])
def test_a_copy_can_crash_at_any_request(number: int, *, before: bool) -> None:
    async def work() -> list[Fact]:
        stage, facts = Stage(), list[Fact]()
        stage.world.subscribe(facts.append)
        stage.put_pods(3)
        process = stage.start(EvictEverything(), "updater")
        if before:
            process.line.before_request = crash_at(process, number)
        else:
            process.line.after_request = crash_at(process, number)
        await stage.wait(MINUTE)
        assert not process.is_running
        assert process.failure() is None
        return facts

    facts = run_virtually(work())

    evicted = [fact for fact in facts if isinstance(fact, PodEvicted)]
    crashes = [fact.during for fact in facts if isinstance(fact, ProcessCrashed)]
    assert len(evicted) == (number - 1 if before else number)
    assert crashes == [f"evict default/web-1-{number - 1}"]


def test_a_copy_that_starts_again_knows_nothing_of_what_it_knew() -> None:
    async def work() -> None:
        stage, diary = Stage(), Diary()
        stage.put_pods(2)
        process = stage.start(diary)
        await stage.wait(MINUTE * 5)
        process.crash()
        stage.world.pods.delete("default", "web-1-0")
        process.start()
        await stage.wait(MINUTE / 2)

        assert diary.starts == 2
        assert diary.counts[-1] == 1
        assert process.is_running
        process.crash()

    run_virtually(work())


def test_a_crashed_copy_may_start_in_the_same_moment_though_it_has_not_noticed_yet() -> None:
    async def work() -> list[type[Fact]]:
        stage, facts = Stage(), list[Fact]()
        stage.world.subscribe(facts.append)
        process = stage.start(Diary())
        await stage.wait(MINUTE)
        process.crash()
        process.crash()
        process.start()
        await stage.wait(MINUTE)
        process.crash()
        return [type(fact) for fact in facts]

    assert run_virtually(work()) == [ProcessStarted, ProcessCrashed] * 2


def test_a_crash_leaves_no_goodbye_and_a_stop_does() -> None:
    async def work(*, crash: bool) -> bool:
        stage = Stage()
        process = stage.start(Diary())
        await stage.wait(MINUTE)
        if crash:
            process.crash()
        else:
            await process.stop()
        await stage.wait(MINUTE)
        assert not process.is_running
        return stage.world.leases.find("default", "goodbye") is not None

    assert not run_virtually(work(crash=True))
    assert run_virtually(work(crash=False))


def test_a_copy_that_ends_by_itself_says_why() -> None:
    async def fail(surroundings: ProcessSurroundings) -> None:
        await surroundings.cluster.synced()
        raise ValueError("out of ideas")

    async def work() -> BaseException | None:
        stage = Stage()
        process = stage.start(fail)
        assert process.failure() is None
        await stage.wait(MINUTE)
        return process.failure()

    assert str(run_virtually(work())) == "out of ideas"


def test_faults_and_missing_rights_outlast_a_restart() -> None:
    async def work() -> None:
        stage = Stage()
        process = stage.start(Diary())
        slow = Disturbance(latency=timedelta(seconds=3))
        process.line.disturbances.append(slow)
        process.line.lacks = EVICTIONS.right("create")
        process.crash()
        process.start()
        await stage.wait(timedelta(seconds=1))

        assert process.line.latency == timedelta(seconds=3)
        assert process.line.lacks == EVICTIONS.right("create")
        process.line.disturbances.remove(slow)
        assert process.line.latency < timedelta(seconds=1)
        process.crash()

    run_virtually(work())


def test_each_copy_has_a_clock_of_its_own() -> None:
    async def work() -> None:
        stage = Stage()
        one, other = stage.start(Diary(), "one"), stage.start(Diary(), "other")
        one.clock.skew = MINUTE
        await stage.wait(MINUTE)

        assert one.clock.now() - other.clock.now() == MINUTE
        assert other.clock.now() == stage.world.now()
        one.crash()
        other.crash()

    run_virtually(work())
