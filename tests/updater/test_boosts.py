"""Ends of startup boosts: in time, without a tick, and told where they do not succeed at once."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, UP, an_updater, cpu, holds
from support.makers.records import BOOST_TOLD, MIB, a_container, a_recommendation, amounts, minutes

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError, InvalidError
from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model.autoscalers import ContainerPolicy, CpuBoost, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Pod, PodPhase, ResizeState
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.startup_boost import annotation_name, boosted_containers, format_original
from trimtab.updater.settings import UpdaterSettings

MARK = annotation_name("app")
EITHER = UpdateMode.IN_PLACE_OR_RECREATE
SMALL = amounts(100, 100 * MIB)
LARGE = amounts(400, 100 * MIB)
SOON = timedelta(seconds=2)
CONTAINER, POD = LimitRangeType.CONTAINER, LimitRangeType.POD


def boost(cluster: UpdaterCluster) -> None:
    """One of two pods has a boost that is over."""
    cluster.deploy()
    cluster.autoscale(mode=UpdateMode.IN_PLACE_OR_RECREATE, boost=CpuBoost(factor=4))
    pod = cluster.pods_of("web")[0]
    cluster.put(
        structs.replace(
            pod,
            containers=(a_container(requests=amounts(400, 100 * MIB)),),
            annotations={**BOOST_TOLD, MARK: format_original(pod.containers[0].spec)},
        )
    )


def test_a_boost_that_cannot_be_ended_is_told_and_tried_again_never_evicted() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        boost(cluster)
        cluster.refusals["resize"] = [InvalidError("x", Status(message="exceeded quota"))]
        updater = an_updater(cluster)
        await updater.tick()
        await asyncio.sleep(5)
        await updater.tick()
        held = holds(updater)["web-0"]
        condition = cluster.condition("UpdatesHeld")
        await asyncio.sleep(minutes(5).total_seconds())
        for _ in range(2):
            await updater.tick()
        kept = [pod.name for pod in cluster.pods if MARK in pod.annotations]

        assert held == "UnboostDelayed"
        assert condition is not None
        assert condition.reason == "UnboostDelayed"
        assert "exceeded quota" in condition.message
        assert cluster.events[0].reason == "StartupBoostNotEnded"
        assert "exceeded quota" in cluster.events[0].message
        assert cpu(cluster) == [100, 100]
        assert kept == []
        assert "evict" not in cluster.requests

    run_virtually(scene())


def test_a_mark_that_cannot_be_removed_is_tried_again() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        boost(cluster)
        updater = an_updater(cluster)
        await updater.tick()
        cluster.refusals["patch_pod"] = [ApiError("x", Status(code=500))]
        await updater.tick()
        kept = [pod.name for pod in cluster.pods if MARK in pod.annotations]
        await asyncio.sleep(minutes(5).total_seconds())
        await updater.tick()

        assert kept == ["web-0"]
        assert not [pod.name for pod in cluster.pods if MARK in pod.annotations]
        assert "evict" not in cluster.requests

    run_virtually(scene())


@pytest.mark.parametrize("mode", [UpdateMode.INITIAL, UpdateMode.UPSCALE_ONLY])
@pytest.mark.parametrize("updaters", ["one", "a new one for each tick"])
def test_a_boost_that_was_cut_ends_at_what_the_pod_would_have_had(
    mode: UpdateMode, updaters: str
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        most = amounts(1000)
        cluster.items["default"] = [LimitRangeItem(LimitRangeType.CONTAINER, max=most)]
        usual = a_recommendation(target=amounts(600, 100 * MIB))
        cluster.autoscale(usual, mode=mode, boost=CpuBoost(factor=3))
        cluster.deploy("web", a_container(requests=amounts(500, 100 * MIB)))
        started = cpu(cluster)
        cluster.autoscale(a_recommendation(target=SMALL))
        updater = an_updater(cluster)
        for _ in range(4):
            updater = updater if updaters == "one" else an_updater(cluster)
            await updater.tick()

        assert started == [1000, 1000]
        assert cpu(cluster) == [600, 600]
        assert not any(map(boosted_containers, cluster.pods_of("web")))

    run_virtually(scene())


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(LimitRangeItem(CONTAINER, min=amounts(200)), 200, id="a minimum"),
        pytest.param(LimitRangeItem(POD, min=amounts(250)), 250, id="a minimum of pods"),
        pytest.param(LimitRangeItem(CONTAINER, min=amounts(500)), 400, id="above the boost"),
    ],
)
def test_a_limit_range_made_meanwhile_keeps_no_boost_for_ever(
    item: LimitRangeItem, expected: int
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.autoscale(mode=UpdateMode.OFF, boost=CpuBoost(factor=4))
        cluster.deploy()
        cluster.items["default"] = [item]
        updater = an_updater(cluster)
        for _ in range(3):
            await updater.tick()

        assert cpu(cluster) == [expected, expected]
        assert not any(map(boosted_containers, cluster.pods_of("web")))
        assert "LimitRange" in cluster.events[-1].message

    run_virtually(scene())


@pytest.mark.parametrize(
    ("mode", "expected"), [(UpdateMode.OFF, (400, True)), (EITHER, (150, False))]
)
def test_a_mark_that_cannot_be_read_stays_while_nothing_else_tells_the_way_back(
    mode: UpdateMode, expected: tuple[int, bool]
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        boost(cluster)
        pod = cluster.pods_of("web")[0]
        cluster.put(structs.replace(pod, annotations={**BOOST_TOLD, MARK: "corrupt"}))
        target = amounts(150, 100 * MIB)
        cluster.autoscale(a_recommendation(target=target, lower=target, upper=target), mode=mode)
        updater = an_updater(cluster)
        for _ in range(4):
            await updater.tick()
        pod = cluster.pods_of("web")[0]
        requests = pod.containers[0].current.requests or {}
        condition = cluster.condition("UpdatesHeld")

        assert (requests[Resource.CPU], MARK in pod.annotations) == expected
        if mode is UpdateMode.OFF:
            assert condition is not None
            assert f"since {MARK} cannot be read" in condition.message
        assert "evict" not in cluster.requests

    run_virtually(scene())


@pytest.mark.parametrize("mode", [UpdateMode.OFF, None], ids=["off", "deleted"])
def test_a_boost_ends_at_the_admitted_size_though_its_autoscaler_acts_no_more(
    mode: UpdateMode | None,
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        usual = a_recommendation(target=amounts(300, 100 * MIB))
        cluster.autoscale(usual, mode=EITHER, boost=CpuBoost(factor=4))
        cluster.deploy()
        started = cpu(cluster)
        if mode is None:
            cluster.drop_autoscaler()
        else:
            cluster.autoscale(mode=mode)
        updater = an_updater(cluster)
        for _ in range(3):
            await updater.tick()

        assert (started, cpu(cluster)) == ([1200, 1200], [300, 300])

    run_virtually(scene())


REFUSALS = [ResizeState.INFEASIBLE, ResizeState.DEFERRED, ResizeState.ERROR]
SIZING_MODES = [UpdateMode.AUTO, UpdateMode.RECREATE, EITHER, UpdateMode.IN_PLACE]


@pytest.mark.parametrize("mode", SIZING_MODES)
@pytest.mark.parametrize("resize", REFUSALS)
def test_d20_a_kubelet_that_refuses_the_end_of_a_boost_never_leads_to_an_eviction(
    resize: ResizeState, mode: UpdateMode
) -> None:
    async def scene() -> None:
        usual = a_recommendation(target=SMALL, lower=SMALL, upper=amounts(120, 120 * MIB))
        stage = Stage(replicas=3, boost=CpuBoost(factor=4, duration=timedelta(seconds=5)))
        stage.cluster.autoscale(usual, mode=mode, boost=CpuBoost(factor=4, duration=SOON))
        stage.cluster.is_kubelet_quick = False
        for pod in stage.cluster.pods_of("web"):
            stage.turn_ready(pod.name)
        await stage.wait(minutes(0.5))
        for pod in stage.cluster.pods_of("web"):
            stage.change(pod.name, resize=resize, resize_message="the node says no")
        await stage.wait(minutes(30))
        condition, told = stage.cluster.condition("UpdatesHeld"), list(stage.cluster.events)
        marked = stage.boosted()
        for pod in stage.cluster.pods_of("web"):
            has = tuple(structs.replace(each, status=each.spec) for each in pod.containers)
            stage.change(pod.name, resize=None, resize_message="", containers=has)
        await stage.wait(minutes(2))
        left = stage.boosted()
        await stage.end()

        assert stage.cluster.requests["evict"] == 0
        assert marked.keys() == {"web-0", "web-1", "web-2"}
        assert condition is not None
        assert f"{resize}: the node says no" in condition.message
        assert {each.reason for each in told} == {"StartupBoostNotEnded"}
        assert all(f"{resize}: the node says no" in each.message for each in told)
        assert left == {}
        assert cpu(stage.cluster) == [100, 100, 100]

    run_virtually(scene())


def test_a_boost_that_ended_without_an_answer_begins_the_cool_down_of_its_pod() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        boost(cluster)
        updater = an_updater(cluster)
        # After their effect, so that the view shows a pod without a boost.
        cluster.mute.add("resize")
        await updater.tick()
        cluster.mute.clear()
        await updater.tick()
        less = amounts(50, 50 * MIB)
        cluster.autoscale(a_recommendation(target=less, upper=less))
        await updater.tick()
        early = holds(updater)["web-0"]
        cluster.clock.skew += minutes(5)
        for _ in range(2):
            await updater.tick()

        assert early == "CoolDown"
        assert cpu(cluster) == [50, 50]

    run_virtually(scene())


def test_a_resize_stands_even_if_the_pod_cannot_be_marked() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP, mode=UpdateMode.IN_PLACE)
        cluster.refusals["patch_pod"] = [ApiError("x", Status(code=500))]
        report = await an_updater(cluster).tick()

        assert report.done("Resize") == 2
        assert cpu(cluster) == [500, 500]

    run_virtually(scene())


class Stage:
    """A Deployment whose pods are boosted and not ready yet, under an updater that runs."""

    def __init__(
        self, *, replicas: int = 2, settings: UpdaterSettings = UNPACED, **autoscaler: object
    ) -> None:
        self.cluster = UpdaterCluster()
        self.cluster.deploy(replicas=replicas)
        usual: dict[str, object] = {"mode": EITHER, "boost": CpuBoost(factor=4)}
        self.cluster.autoscale(**(usual | autoscaler))  # type: ignore[arg-type]
        for pod in self.cluster.pods_of("web"):
            self.change(pod.name, **boosted_fields("app"))
        self.updater = an_updater(self.cluster, settings)
        self._running = asyncio.create_task(self.updater.run())

    def change(self, name: str, **fields: object) -> Pod:
        """Change something about a pod."""
        found = next(pod for pod in self.cluster.truth.values() if pod.name == name)
        return self.cluster.put(structs.replace(found, **fields))

    def turn_ready(self, name: str = "web-0") -> None:
        self.change(name, ready_since=self.cluster.clock.now())

    async def wait(self, span: timedelta) -> None:
        await asyncio.sleep(span.total_seconds())

    def boosted(self) -> dict[str, tuple[str, ...]]:
        """By pod its containers that are boosted."""
        found = {pod.name: boosted_containers(pod) for pod in self.cluster.truth.values()}
        return {name: containers for name, containers in found.items() if containers}

    async def end(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


def boosted_fields(*names: str) -> dict[str, object]:
    """What makes a pod boosted, and not ready yet."""
    return {
        "containers": tuple(
            a_container(name, index=index, requests=LARGE, status=Allocation(LARGE))
            for index, name in enumerate(names)
        ),
        "annotations": BOOST_TOLD
        | {annotation_name(name): format_original(Allocation(SMALL)) for name in names},
        "ready_since": None,
    }


def test_a_boost_with_a_duration_ends_a_second_after_it_without_a_tick() -> None:
    async def scene() -> None:
        stage = Stage(boost=CpuBoost(factor=4, duration=timedelta(seconds=25)))
        await stage.wait(timedelta(seconds=62))
        stage.turn_ready()
        await stage.wait(timedelta(seconds=24))
        before = stage.boosted()
        await stage.wait(SOON)
        given_back = cpu(stage.cluster)
        # The mark follows when the kubelet has reported the new size.
        await stage.wait(timedelta(seconds=1))
        after = stage.boosted()
        await stage.end()

        assert before.keys() == {"web-0", "web-1"}
        assert given_back == [100, 400]
        assert after.keys() == {"web-1"}

    run_virtually(scene())


def test_a_mark_that_is_written_again_after_the_boost_is_removed_again() -> None:
    async def scene() -> None:
        stage = Stage(boost=CpuBoost(factor=4), replicas=1)
        marks = boosted_fields("app")["annotations"]
        stage.turn_ready()
        await stage.wait(timedelta(seconds=5))
        ended = stage.boosted()
        stage.change("web-0", annotations=marks)
        await stage.wait(timedelta(seconds=65))
        after = stage.boosted()
        await stage.end()

        assert (ended, after) == ({}, {})

    run_virtually(scene())


def test_containers_with_different_durations_lose_their_boosts_one_after_the_other() -> None:
    async def scene() -> None:
        slow = ContainerPolicy("slow", boost=CpuBoost(factor=4, duration=timedelta(seconds=40)))
        stage = Stage(
            boost=CpuBoost(factor=4, duration=timedelta(seconds=20)), policies=(slow,), replicas=1
        )
        stage.change("web-0", **boosted_fields("quick", "slow"))
        await stage.wait(timedelta(seconds=2))
        stage.turn_ready()
        seen = []
        for span in (19, 3, 17, 3):
            await stage.wait(timedelta(seconds=span))
            seen.append(stage.boosted().get("web-0", ()))
        await stage.end()

        assert seen == [("quick", "slow"), ("slow",), ("slow",), ()]
        assert cpu(stage.cluster) == [100, 100]

    run_virtually(scene())


def test_a_storm_of_boosts_ends_in_seconds_however_slow_evictions_are() -> None:
    async def scene() -> None:
        slow = replace(UNPACED, pace=PaceSettings(per_second=0.01, burst=1))
        stage = Stage(replicas=60, settings=slow)
        await stage.wait(timedelta(seconds=5))
        for pod in stage.cluster.pods_of("web"):
            stage.turn_ready(pod.name)
        await stage.wait(SOON)
        left = stage.boosted()
        await stage.end()

        assert left == {}

    run_virtually(scene())


def test_f25_readiness_that_flaps_does_not_prolong_a_boost_past_its_hard_limit() -> None:
    async def scene() -> None:
        stage = Stage(boost=CpuBoost(factor=4, duration=minutes(2)), replicas=1)
        for _ in range(29):
            stage.turn_ready()
            await stage.wait(timedelta(seconds=30))
            stage.change("web-0", ready_since=None)
            await stage.wait(timedelta(seconds=30))
        before = stage.boosted()
        await stage.wait(minutes(1) + SOON)
        after = stage.boosted()
        await stage.end()

        assert before.keys() == {"web-0"}
        assert after == {}
        assert stage.cluster.requests["evict"] == 0

    run_virtually(scene())


def test_d8_a_pod_that_never_gets_ready_loses_its_boost_at_the_hard_limit() -> None:
    async def scene() -> None:
        stage = Stage()
        await stage.wait(minutes(29.9))
        before = stage.boosted()
        await stage.wait(timedelta(seconds=8))
        after = stage.boosted()
        await stage.end()

        assert before.keys() == {"web-0", "web-1"}
        assert after == {}

    run_virtually(scene())


def drop_autoscaler(stage: Stage) -> None:
    stage.cluster.drop_autoscaler()


def lose_boost(stage: Stage) -> None:
    stage.cluster.autoscale(boost=None)


def lose_labels(stage: Stage) -> None:
    for pod in stage.cluster.pods_of("web"):
        stage.change(pod.name, labels={"app": "web", "was": "web"})
    stage.cluster.drop_autoscaler()


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "never ready"])
@pytest.mark.parametrize("limit", [minutes(30), None], ids=["a hard limit", "no hard limit"])
@pytest.mark.parametrize("disown", [drop_autoscaler, lose_boost, lose_labels])
def test_f25_no_pod_stays_boosted_that_no_autoscaler_boosts_any_more(
    disown: Callable[[Stage], None], limit: timedelta | None, *, ready: bool
) -> None:
    async def scene() -> None:
        settings = replace(UNPACED, plan=replace(UNPACED.plan, max_boost_duration=limit))
        stage = Stage(boost=CpuBoost(factor=4, duration=minutes(900)), settings=settings)
        await stage.wait(timedelta(seconds=10))
        if ready:
            stage.turn_ready("web-0")
            stage.turn_ready("web-1")
        disown(stage)
        await stage.wait(minutes(2) if ready else minutes(31))
        left = stage.boosted()
        await stage.end()

        assert left == {}
        assert cpu(stage.cluster) == [100, 100]
        assert stage.cluster.requests["evict"] == 0

    run_virtually(scene())


def test_d9_an_end_that_is_always_refused_is_tried_ever_less_often() -> None:
    async def scene() -> None:
        stage = Stage(replicas=1)
        stage.cluster.refusals["resize"] = [InvalidError("x", Status()) for _ in range(100)]
        stage.turn_ready()
        tries = []
        for span in (minutes(1), minutes(59), minutes(60), minutes(120)):
            before = stage.cluster.requests["resize"]
            await stage.wait(span)
            tries.append(stage.cluster.requests["resize"] - before)
        why = holds(stage.updater)
        await stage.end()

        assert tries == [3, 6, 1, 1]
        assert why == {"web-0": "UnboostDelayed"}
        assert stage.cluster.requests["evict"] == 0
        assert {each.reason for each in stage.cluster.events} == {"StartupBoostNotEnded"}

    run_virtually(scene())


def test_a_failed_end_is_tried_again_in_time_without_a_tick() -> None:
    async def scene() -> None:
        stage = Stage(replicas=1)
        await stage.wait(timedelta(seconds=61))
        stage.cluster.refusals["resize"] = [InvalidError("x", Status())]
        stage.turn_ready()
        await stage.wait(timedelta(seconds=9))
        before = stage.boosted()
        await stage.wait(timedelta(seconds=3))
        after = stage.boosted()
        await stage.end()

        assert before
        assert after == {}

    run_virtually(scene())


def test_d9_an_end_that_the_node_puts_off_takes_back_the_boost_alone_within_seconds() -> None:
    async def scene() -> None:
        stage = Stage(replicas=1)
        stage.cluster.autoscale(UP, mode=EITHER, min_replicas=1)
        stage.cluster.is_kubelet_quick = False
        stage.turn_ready()
        await stage.wait(SOON)
        asked = cpu(stage.cluster)
        stage.change("web-0", resize=ResizeState.DEFERRED)
        await stage.wait(SOON)
        (pod,) = stage.cluster.pods_of("web")
        await stage.wait(minutes(4))
        await stage.end()

        assert asked == [500]
        assert pod.containers[0].spec.requests == LARGE
        assert stage.cluster.requests["evict"] == 0

    run_virtually(scene())


def test_f26_a_boosted_pod_that_fits_nowhere_gets_its_usual_size_after_a_minute() -> None:
    async def scene() -> None:
        stage = Stage()
        await stage.wait(timedelta(seconds=61))
        now: datetime = stage.cluster.clock.now()
        stage.change("web-0", phase=PodPhase.PENDING, unschedulable_since=now)
        await stage.wait(timedelta(seconds=59))
        before = stage.boosted()
        await stage.wait(timedelta(seconds=3))
        after = stage.boosted()
        await stage.end()

        assert before.keys() == {"web-0", "web-1"}
        assert after.keys() == {"web-1"}

    run_virtually(scene())


def test_of_a_node_the_youngest_pods_beyond_the_allowed_number_lose_their_boosts() -> None:
    async def scene() -> None:
        stage = Stage(replicas=5, settings=replace(UNPACED, max_boosted_per_node=2))
        await stage.wait(timedelta(seconds=61))
        for number in range(5):
            created = stage.cluster.clock.now() - timedelta(seconds=number)
            node = "busy" if number else "free"
            stage.change(f"web-{number}", node_name=node, created_at=created)
        await stage.wait(SOON)
        left = stage.boosted()
        await stage.end()

        assert left.keys() == {"web-0", "web-3", "web-4"}

    run_virtually(scene())
