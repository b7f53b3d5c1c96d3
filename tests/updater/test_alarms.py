"""Alarms: another look at a workload at the moment that a plan has named."""

import asyncio
from datetime import timedelta

from support.fakes.clocks import LoopClock, run_virtually
from support.makers.records import a_pod

from trimtab.core.changes.outcomes import Hold
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import OwnerReference, Pod
from trimtab.updater.pod_watch import Alarms

OTHER = OwnerReference("ReplicaSet", "other-1")


class Rung:
    """Alarms that run, and when they rang for whom, in seconds."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.begun_at = self.clock.now()
        self.rings: list[tuple[str, float]] = []
        self.alarms = Alarms(self.clock, self._hear)
        self._running = asyncio.create_task(self.alarms.run())

    def hold(self, pod: Pod, seconds: float | None) -> None:
        until = None if seconds is None else self.begun_at + timedelta(seconds=seconds)
        self.alarms.set_for([Hold(pod, None, HoldReason.BOOST_ACTIVE, until=until)])

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def end(self) -> None:
        self._running.cancel()

    def _hear(self, pod: Pod) -> None:
        self.rings.append((pod.name, (self.clock.now() - self.begun_at).total_seconds()))


def test_an_alarm_rings_once_at_its_moment_and_none_without_one() -> None:
    async def scene() -> None:
        rung = Rung()
        await rung.wait(1)
        rung.hold(a_pod(name="a"), 10)
        rung.hold(a_pod(name="b", owner=OTHER), None)
        await rung.wait(60)
        rung.end()

        assert rung.rings == [("a", 10.0)]

    run_virtually(scene())


def test_of_several_moments_of_one_owner_the_first_counts() -> None:
    async def scene() -> None:
        rung = Rung()
        await rung.wait(1)
        for seconds in (30, 10, 20):
            rung.hold(a_pod(name=f"in-{seconds}"), seconds)
        rung.hold(a_pod(name="other", owner=OTHER), 15)
        await rung.wait(60)
        rung.end()

        assert rung.rings == [("in-10", 10.0), ("other", 15.0)]

    run_virtually(scene())


def test_after_an_alarm_another_can_be_set_and_what_is_past_rings_at_once() -> None:
    async def scene() -> None:
        rung = Rung()
        await rung.wait(1)
        rung.hold(a_pod(name="a"), 10)
        await rung.wait(20)
        rung.hold(a_pod(name="a"), 5)
        await rung.wait(1)
        rung.hold(a_pod(name="a"), 30)
        await rung.wait(20)
        rung.end()

        assert rung.rings == [("a", 10.0), ("a", 21.0), ("a", 30.0)]

    run_virtually(scene())


def test_a_pod_that_nobody_owns_waits_for_the_next_tick() -> None:
    async def scene() -> None:
        rung = Rung()
        rung.hold(a_pod(owner=None), 1)
        await rung.wait(5)
        rung.end()

        assert rung.rings == []

    run_virtually(scene())
