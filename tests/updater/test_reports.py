"""What the updater tells whoever listens."""

import asyncio
from collections import Counter

from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, UP
from support.makers.records import NOW

from trimtab.core.changes.outcomes import Hold
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.updater.actions import ActResult
from trimtab.updater.controller import Updater
from trimtab.updater.reports import (
    Acted,
    HeldWhileActing,
    News,
    PlanMade,
    Stopwatch,
    TickFailed,
    TickStep,
    ViewNotReady,
)


def a_told_updater(cluster: UpdaterCluster) -> tuple[Updater, list[News]]:
    news: list[News] = []
    updater = Updater(cluster, settings=UNPACED, clock=cluster.clock, tell=news.append)
    return updater, news


def test_a_tick_tells_its_plan_with_its_spans_and_then_what_was_done() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        updater, news = a_told_updater(cluster)
        await updater.tick()
        planned, acted = news

        assert isinstance(planned, PlanMade)
        assert planned.is_all
        assert {type(each).__name__ for each in planned.outcomes} == {"Evict", "Hold"}
        assert [name.name for name in planned.autoscalers] == ["web"]
        assert [step for step, _ in planned.spans] == list(TickStep)
        assert isinstance(acted, Acted)
        assert acted.result is ActResult.DONE
        assert acted.at == NOW + cluster.latency

    run_virtually(scene())


def test_pods_that_a_budget_protects_are_told_as_held() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=4)
        cluster.autoscale(UP)
        cluster.protected.add("web")
        updater, news = a_told_updater(cluster)
        await updater.tick()
        held = [hold for each in news if isinstance(each, HeldWhileActing) for hold in each.holds]

        assert held
        assert {hold.reason for hold in held} == {HoldReason.POD_DISRUPTION_BUDGET}
        assert {hold.pod.uid for hold in held} <= {
            each.pod.uid for each in updater.last_plan if isinstance(each, Hold)
        }

    run_virtually(scene())


def test_a_view_that_is_missing_and_a_turn_that_fails_are_told_too() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        updater, news = a_told_updater(cluster)
        cluster.view_age = None
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(1)
        cluster.view_age = UNPACED.max_view_age
        cluster.deploy()
        cluster.autoscale(UP)
        # What no real cluster has: a limit range that is none.
        cluster.items["default"] = [None]  # type: ignore[list-item]
        await asyncio.sleep(10)
        running.cancel()

        assert Counter(map(type, news)) == {ViewNotReady: 1, TickFailed: 1}

    run_virtually(scene())


def test_who_drains_begins_nothing_more_and_waits_for_what_was_begun() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for name in ("a", "b"):
            cluster.deploy(name)
            cluster.autoscale(UP, name=name)
        updater, news = a_told_updater(cluster)
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(cluster.latency.total_seconds() / 2)
        begun = cluster.requests["evict"]
        await updater.drain()
        done = len(cluster.acts)
        cluster.deploy("late")
        cluster.autoscale(UP, name="late")
        await asyncio.sleep(120)
        running.cancel()

        assert done == begun == 2
        assert len(cluster.acts) == done
        assert [each.result for each in news if isinstance(each, Acted)][:done] == [
            ActResult.DONE
        ] * done

    run_virtually(scene())


def test_a_stopwatch_tells_each_step_from_the_one_before() -> None:
    async def scene() -> None:
        clock = LoopClock()
        watch = Stopwatch(clock)
        await asyncio.sleep(2)
        watch.end(TickStep.OBSERVE)
        await asyncio.sleep(1)
        watch.end(TickStep.PLAN)

        assert watch.begun_at == NOW
        assert [(step, span.total_seconds()) for step, span in watch.spans] == [
            (TickStep.OBSERVE, 2),
            (TickStep.PLAN, 1),
        ]

    run_virtually(scene())
