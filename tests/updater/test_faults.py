"""Faults from the field, by their numbers: loops and blast radius."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import (
    SEVERAL_BUDGETS,
    UNPACED,
    UP,
    an_updater,
    cpu,
    holds,
    let_run,
)
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    a_container,
    a_recommendation,
    amounts,
    hours,
    minutes,
)

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError, BudgetError
from trimtab.core.model.autoscalers import CpuBoost, UpdateMode
from trimtab.core.model.cap_notes import ContainerUpdate, Note, NoteKind, format_updates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Pod, ResizeState, Termination
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing.startup_boost import annotation_name, format_original
from trimtab.updater.settings import UpdaterSettings

EITHER, IN_PLACE = UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE
DAY = timedelta(days=1)


def to_template(pod: Pod) -> Pod:
    """What another webhook makes of a pod that passed ours."""
    return structs.replace(pod, containers=(a_container(requests=amounts(100, 100 * MIB)),))


def by_another_autoscaler(pod: Pod) -> Pod:
    return structs.replace(
        to_template(pod), annotations={**pod.annotations, "vpaUpdates": format_updates("old", ())}
    )


def for_a_quota(pod: Pod) -> Pod:
    notes = tuple(Note(kind, NoteKind.QUOTA_REFUSES) for kind in BOTH)
    updates = format_updates("web", [ContainerUpdate(pod.containers[0], notes=notes)])
    return structs.replace(to_template(pod), annotations={**pod.annotations, "vpaUpdates": updates})


def for_a_policy(pod: Pod) -> Pod:
    """Return what admission leaves of a pod after others of its size never came."""
    notes = tuple(Note(kind, NoteKind.PODS_REFUSED) for kind in BOTH)
    updates = format_updates("web", [ContainerUpdate(pod.containers[0], notes=notes)])
    return structs.replace(to_template(pod), annotations={**pod.annotations, "vpaUpdates": updates})


@pytest.mark.parametrize("replicas", [2, 3, 10])
def test_f16_a_webhook_that_does_not_answer_costs_three_evictions_a_day(replicas: int) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=replicas)
        cluster.autoscale(UP)
        cluster.has_webhook = False
        updater = an_updater(cluster)
        await let_run(updater, DAY)
        condition = cluster.condition("UpdatesWithoutEffect")

        assert len(cluster.acts) == 3
        assert set(holds(updater).values()) == {"NotConverging"}
        assert condition is not None
        assert condition.reason == "AdmissionMissed"
        assert condition.message == (
            "3 changes in a row without effect: new pods do not pass the admission controller; "
            "look at its webhook and the CA bundle; nothing more is tried"
        )

    run_virtually(scene())


def test_f16_pods_that_die_still_grow_in_place_after_evictions_without_effect() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP)
        cluster.has_webhook = False
        updater = an_updater(cluster)
        await let_run(updater, hours(3))
        evicted, mebibytes = cluster.requests["evict"], memory(cluster)
        kill_all(cluster)
        await let_run(updater, minutes(3))

        assert evicted == 3
        assert mebibytes == [100] * 2
        assert memory(cluster) == [500] * 2
        assert cluster.requests["evict"] == evicted

    run_virtually(scene())


async def undo_resizes(cluster: UpdaterCluster, every: float) -> None:
    """Give all pods their first size again, as a controller does that owns it."""
    first = Allocation(amounts(100, 100 * MIB), {})
    while True:
        await asyncio.sleep(every)
        for pod in list(cluster.pods):
            undone = tuple(
                structs.replace(each, spec=first, status=first) for each in pod.containers
            )
            if any(each.spec.requests != first.requests for each in pod.containers):
                cluster.put(structs.replace(pod, containers=undone))


async def kill_again_and_again(cluster: UpdaterCluster) -> None:
    while True:
        kill_all(cluster)
        await asyncio.sleep(20)


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE])
@pytest.mark.parametrize("every", [1, 15, 70], ids=["at once", "soon", "later"])
def test_f16_memory_for_pods_that_die_is_not_asked_for_without_end(
    mode: UpdateMode, every: float
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        cluster.autoscale(UP, mode=mode)
        updater = an_updater(cluster)
        others = [
            asyncio.create_task(undo_resizes(cluster, every)),
            asyncio.create_task(kill_again_and_again(cluster)),
        ]
        await let_run(updater, minutes(30))
        for each in others:
            each.cancel()
        condition = cluster.condition("UpdatesWithoutEffect")

        assert cluster.requests["resize"] == 3
        assert cluster.requests["evict"] == 0
        assert set(holds(updater).values()) == {"NotConverging"}
        assert condition is not None
        assert condition.reason == "OtherManager"

    run_virtually(scene())


def memory(cluster: UpdaterCluster) -> list[int]:
    """Return the memory requests of all pods, in mebibytes."""
    return [(pod.containers[0].spec.requests or {})[Resource.MEMORY] // MIB for pod in cluster.pods]


def kill_all(cluster: UpdaterCluster) -> None:
    """Let all pods run out of memory, as they have done soon after their start."""
    now = cluster.clock.now()
    last = Termination("OOMKilled", now - minutes(1), now)
    for pod in list(cluster.pods):
        killed = tuple(structs.replace(each, last_termination=last) for each in pod.containers)
        cluster.put(structs.replace(pod, containers=killed, ready_since=None))


def break_undo(cluster: UpdaterCluster) -> None:
    cluster.undo = to_template


def break_other(cluster: UpdaterCluster) -> None:
    cluster.undo = by_another_autoscaler


def break_room(cluster: UpdaterCluster) -> None:
    cluster.undo = for_a_quota


def break_limit_range(cluster: UpdaterCluster) -> None:
    bound = amounts(100, 100 * MIB)
    cluster.undo = to_template
    cluster.items["default"] = [LimitRangeItem(LimitRangeType.CONTAINER, default=bound)]


def break_quota(cluster: UpdaterCluster) -> None:
    cluster.has_quota = False


@pytest.mark.parametrize(
    ("break_it", "suspect"),
    [
        pytest.param(break_undo, "OtherManager", id="another webhook"),
        pytest.param(break_other, "OtherAutoscaler", id="another autoscaler"),
        pytest.param(break_room, "QuotaRefused", id="a quota without room for the size"),
        pytest.param(break_limit_range, "LimitRange", id="a limit range"),
        pytest.param(break_quota, "NoSuccessor", id="a quota that is full"),
    ],
)
def test_f16_evictions_stop_and_the_condition_names_the_suspect(
    break_it: object, suspect: str
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=8)
        cluster.autoscale(UP)
        assert callable(break_it)
        break_it(cluster)
        await let_run(an_updater(cluster), hours(3))
        condition = cluster.condition("UpdatesWithoutEffect")

        assert 0 < len(cluster.acts) <= 3
        assert condition is not None
        assert condition.reason == suspect

    run_virtually(scene())


def test_f16_pods_get_a_refused_size_after_the_pod_that_came_small_is_scaled_away() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy("web", a_container(requests=amounts(300, 300 * MIB)), replicas=4)
        cluster.autoscale(UP)
        cluster.undo = for_a_policy
        updater = an_updater(cluster)
        await let_run(updater, minutes(9))
        early = cpu(cluster)
        cluster.undo = lambda pod: pod
        (small,) = [each for each in cluster.pods_of("web") if has_cpu(each, 100)]
        cluster.drop(small)
        cluster.scale("web", 3)
        await let_run(updater, minutes(1))
        soon = cpu(cluster)
        await let_run(updater, hours(6))

        assert sorted(early) == [100, 300, 300, 300]
        assert soon == [300] * 3
        assert cpu(cluster) == [500] * 3

    run_virtually(scene())


def has_cpu(pod: Pod, millicores: int) -> bool:
    return (pod.containers[0].spec.requests or {}).get(Resource.CPU) == millicores


def test_f16_pods_whose_size_was_refused_get_it_when_nothing_refuses_it_any_more() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=6)
        cluster.autoscale(UP)
        cluster.undo = for_a_policy
        updater = an_updater(cluster)
        await let_run(updater, minutes(9))
        early = len(cluster.acts)
        await let_run(updater, hours(3))
        late = len(cluster.acts)
        condition = cluster.condition("UpdatesWithoutEffect")
        cluster.undo = lambda pod: pod
        await let_run(updater, hours(6))

        assert early == 1
        assert 3 < late < 7
        assert condition is not None
        assert condition.reason == "PodsRefused"
        assert cpu(cluster) == [500] * 6
        assert cluster.condition("UpdatesWithoutEffect") is None

    run_virtually(scene())


def test_f16_one_pod_at_most_loses_its_size_to_a_policy_that_refuses_a_larger_one() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=6)
        cluster.autoscale(UP)
        updater = an_updater(cluster, replace(UNPACED, plan=replace(UNPACED.plan, max_unproven=3)))
        await let_run(updater, hours(1))
        assert cpu(cluster) == [500] * 6
        cluster.undo = for_a_policy
        cluster.autoscale(a_recommendation(target=amounts(900, 500 * MIB)))
        await let_run(updater, 3 * DAY)
        evicted = len(cluster.acts)
        assert sorted(cpu(cluster)) == [100] + [500] * 5
        # The small pod is tried again and again, and the others follow it.
        cluster.undo = lambda pod: pod
        await let_run(updater, 2 * DAY)

        assert evicted > 7
        assert cpu(cluster) == [900] * 6

    run_virtually(scene())


def test_f16_evictions_go_on_once_a_new_pod_shows_that_admission_works_again() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=4)
        cluster.autoscale(UP)
        cluster.has_webhook = False
        updater = an_updater(cluster)
        await let_run(updater, hours(2))
        broken = len(cluster.acts)
        cluster.has_webhook = True
        await let_run(updater, hours(2))
        unnoticed = len(cluster.acts)
        # Somebody else deletes a pod.
        victim = cluster.pods_of("web")[0]
        await cluster.evict(victim)
        await let_run(updater, hours(2))

        assert broken == unnoticed == 3
        assert cpu(cluster) == [500] * 4
        assert cluster.condition("UpdatesWithoutEffect") is None

    run_virtually(scene())


def test_f16_evictions_go_on_once_somebody_edits_the_autoscaler() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=4)
        cluster.autoscale(UP)
        cluster.has_webhook = False
        updater = an_updater(cluster)
        await let_run(updater, hours(2))
        cluster.has_webhook = True
        cluster.autoscale(min_replicas=1)
        await let_run(updater, hours(2))

        assert cpu(cluster) == [500] * 4

    run_virtually(scene())


def test_f16_a_resize_that_somebody_undoes_is_not_repeated_for_ever() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP, mode=IN_PLACE)
        running = asyncio.create_task(an_updater(cluster).run())
        for _ in range(3 * 60):
            await asyncio.sleep(60)
            for pod in cluster.pods_of("web"):
                cluster.put(to_template(pod))
        running.cancel()
        condition = cluster.condition("UpdatesWithoutEffect")

        assert len(cluster.acts) <= 4
        assert condition is not None
        assert condition.reason == "OtherManager"

    run_virtually(scene())


@settings(max_examples=20)
@given(
    replicas=st.integers(2, 12),
    breaks_at=st.integers(0, 30),
    template=st.sampled_from([50, 100, 300, 450]),
)
def test_f16_whenever_the_webhook_breaks_three_more_evictions_are_the_end(
    replicas: int, breaks_at: int, template: int
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        container = a_container(requests=amounts(template, 100 * MIB))
        cluster.deploy("web", container, replicas=replicas)
        wanted = amounts(600, 100 * MIB)
        cluster.autoscale(a_recommendation(target=wanted, lower=wanted, upper=wanted))
        updater = an_updater(cluster)
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(breaks_at)
        before = len(cluster.acts)
        cluster.has_webhook = False
        await asyncio.sleep(3600)
        running.cancel()

        # One more may be under way at the moment when it breaks.
        assert len(cluster.acts) - before <= 4

    run_virtually(scene())


def test_f17_after_a_restart_evictions_stay_under_the_budget() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for number in range(200):
            cluster.deploy(f"w{number}")
            cluster.autoscale(UP, name=f"w{number}")
        counts = []
        updater = an_updater(cluster, UpdaterSettings(uses_admission_status=False))
        running = asyncio.create_task(updater.run())
        for _ in range(4):
            before = len(cluster.acts)
            await asyncio.sleep(60)
            counts.append(len(cluster.acts) - before)
        running.cancel()

        # A tenth of one a second in the first minute, then a little more each minute.
        assert counts[0] <= 8
        assert counts == sorted(counts)
        assert sum(counts) <= 80

    run_virtually(scene())


def test_f18_two_updaters_without_leases_evict_no_pod_twice_and_no_more_than_one() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for number in range(20):
            cluster.deploy(f"w{number}")
            cluster.autoscale(UP, name=f"w{number}")
        one, two = an_updater(cluster), an_updater(cluster)
        first, second = await asyncio.gather(one.tick(), two.tick())
        evicted = Counter(pod for _, pod in cluster.acts)

        assert evicted == {f"w{number}-0": 1 for number in range(20)}
        assert first.done("Evict") + second.done("Evict") == 20

    run_virtually(scene())


@pytest.mark.parametrize(
    ("mode", "most"),
    [
        pytest.param(UpdateMode.RECREATE, 12, id="evictions"),
        # Growth in place does not wait, so it follows each time that the pod may shrink.
        pytest.param(IN_PLACE, 24, id="resizes"),
    ],
)
def test_f19_a_target_that_swings_is_not_followed_at_each_swing(
    mode: UpdateMode, most: int
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        cluster.autoscale(UP, mode=mode, min_replicas=1)
        running = asyncio.create_task(an_updater(cluster).run())
        for minute in range(60):
            wanted = amounts(500 if minute % 2 else 900, 500 * MIB)
            cluster.autoscale(a_recommendation(target=wanted, lower=wanted, upper=wanted))
            await asyncio.sleep(60)
        running.cancel()

        assert 2 <= len(cluster.acts) <= most

    run_virtually(scene())


def test_f23_a_higher_target_is_applied_without_restart_after_a_resize_failed() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        cluster.autoscale(UP, mode=EITHER, min_replicas=1)
        cluster.is_kubelet_quick = False
        updater = an_updater(cluster)
        await updater.tick()
        pod = cluster.pods_of("web")[0]
        small = Allocation(amounts(100, 100 * MIB))
        failed = tuple(structs.replace(each, status=small) for each in pod.containers)
        cluster.put(structs.replace(pod, resize=ResizeState.ERROR, containers=failed))
        wanted = amounts(800, 800 * MIB)
        cluster.autoscale(a_recommendation(target=wanted, lower=wanted))
        cluster.clock.skew += minutes(6)
        await updater.tick()

        assert [act for act, _ in cluster.acts] == ["resize", "resize"]
        assert cpu(cluster) == [800]
        assert cluster.pods_of("web")[0].uid == pod.uid

    run_virtually(scene())


@pytest.mark.parametrize("replicas", [2, 5, 8])
def test_f24_resizes_that_restart_containers_never_take_more_pods_than_the_budget(
    replicas: int,
) -> None:
    async def scene() -> int:
        cluster = UpdaterCluster()
        small = amounts(100, 100 * MIB)
        container = a_container(requests=small, status=Allocation(small), restarts_on_resize=True)
        cluster.deploy("web", container, replicas=replicas)
        cluster.autoscale(UP, mode=EITHER)
        cluster.is_kubelet_quick = False
        running = asyncio.create_task(an_updater(cluster).run())
        most_down = 0
        for second in range(1500):
            await asyncio.sleep(1)
            down = [pod for pod in cluster.pods_of("web") if is_restarting(pod)]
            most_down = max(most_down, len(down))
            # Longer than from tick to tick.
            if second % 150 == 149:
                for pod in down:
                    restart(cluster, pod)
        running.cancel()

        assert cpu(cluster) == [500] * replicas
        return most_down

    assert run_virtually(scene()) == max(1, replicas // 2)


def test_f24_a_disruption_budget_is_asked_before_containers_are_restarted() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        small = amounts(100, 100 * MIB)
        container = a_container(requests=small, status=Allocation(small), restarts_on_resize=True)
        cluster.deploy("web", container, replicas=4)
        cluster.autoscale(UP, mode=UpdateMode.IN_PLACE)
        cluster.protected.add("web")
        updater = an_updater(cluster)
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(minutes(10).total_seconds())
        protected, why = cpu(cluster), set(holds(updater).values())
        cluster.protected.clear()
        await asyncio.sleep(minutes(10).total_seconds())
        running.cancel()

        assert protected == [100] * 4
        assert "PodDisruptionBudget" in why
        assert cpu(cluster) == [500] * 4
        assert cluster.requests["evict"] == 0

    run_virtually(scene())


def test_f24_owners_that_may_share_a_budget_restart_one_pod_after_the_other() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        small = amounts(100, 100 * MIB)
        container = a_container(requests=small, status=Allocation(small), restarts_on_resize=True)
        names = ("web", "shop", "bank")
        for name in names:
            cluster.deploy(name, container, replicas=2)
            cluster.autoscale(UP, name=name, mode=EITHER)
        cluster.is_kubelet_quick = False
        running = asyncio.create_task(an_updater(cluster).run())
        await asyncio.sleep(5)
        at_once = cluster.requests["resize"]
        down = [pod for name in names for pod in cluster.pods_of(name) if is_restarting(pod)]
        for pod in down:
            cluster.put(structs.replace(pod, ready_since=None))
        await asyncio.sleep(1)
        # The restart is over, so the next may follow at once.
        for pod in down:
            restart(cluster, pod)
        await asyncio.sleep(3)
        afterwards = cluster.requests["resize"]
        cluster.is_kubelet_quick = True
        await asyncio.sleep(minutes(2).total_seconds())
        running.cancel()

        assert (at_once, afterwards) == (1, 2)
        assert all(max(cpu(cluster, name)) == 500 for name in names)

    run_virtually(scene())


def is_restarting(pod: Pod) -> bool:
    return any(each.status != each.spec for each in pod.containers)


def restart(cluster: UpdaterCluster, pod: Pod) -> None:
    """The kubelet gives all containers what their spec says."""
    containers = tuple(structs.replace(each, status=each.spec) for each in pod.containers)
    cluster.put(structs.replace(pod, containers=containers, ready_since=cluster.clock.now()))


def boosted(pod: Pod) -> Pod:
    return structs.replace(
        pod,
        containers=(a_container(requests=amounts(400, 100 * MIB)),),
        annotations={**BOOST_TOLD, annotation_name("app"): format_original(pod.containers[0].spec)},
        ready_since=None,
    )


def test_f25_a_boost_ends_at_its_hard_limit_though_readiness_flaps() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(mode=EITHER, boost=CpuBoost(factor=4, duration=minutes(5)))
        name = cluster.put(boosted(cluster.pods_of("web")[0])).name
        running = asyncio.create_task(an_updater(cluster).run())
        sizes = []
        for minute in range(32):
            pod = next(pod for pod in cluster.pods_of("web") if pod.name == name)
            ready = cluster.clock.now() if minute % 2 else None
            cluster.put(structs.replace(pod, ready_since=ready))
            await asyncio.sleep(60)
            sizes.append(max(cpu(cluster)))
        running.cancel()

        assert sizes[:29] == [400] * 29
        assert sizes[-1] == 100

    run_virtually(scene())


def test_f25_a_boost_ends_when_its_autoscaler_is_deleted() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(mode=EITHER, boost=CpuBoost(factor=4, duration=hours(1)))
        pod = boosted(cluster.pods_of("web")[0])
        cluster.put(structs.replace(pod, ready_since=cluster.clock.now()))
        updater = an_updater(cluster)
        await updater.tick()
        before = cpu(cluster)
        cluster.drop_autoscaler()
        for _ in range(2):
            await updater.tick()

        assert before == [100, 400]
        assert cpu(cluster) == [100, 100]
        assert all(not pod.annotations.get(annotation_name("app")) for pod in cluster.pods)

    run_virtually(scene())


def test_f25_a_boost_goes_on_while_it_cannot_be_seen_what_its_autoscaler_says() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(mode=EITHER, boost=CpuBoost(factor=4, duration=hours(1)))
        pod = boosted(cluster.pods_of("web")[0])
        cluster.put(structs.replace(pod, ready_since=cluster.clock.now()))
        cluster.spoil_autoscaler()
        await an_updater(cluster).tick()

        assert cpu(cluster) == [100, 400]

    run_virtually(scene())


def test_f28_nothing_that_one_object_says_keeps_others_from_their_size() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for name in ("odd", "web"):
            cluster.deploy(name)
            cluster.autoscale(UP, name=name)
        odd = cluster.pods_of("odd")[0]
        cluster.put(structs.replace(odd, containers=(), annotations={"vpaObservedContainers": "?"}))
        cluster.autoscale(a_recommendation(target=amounts(-5, 0)), name="odd")
        await let_run(an_updater(cluster), minutes(5))

        assert cpu(cluster) == [500, 500]

    run_virtually(scene())


def test_unpaced_settings_still_limit_what_is_unproven() -> None:
    assert UNPACED.plan.max_unproven == UNPACED.plan.max_misses


def dying(pod: Pod, now: datetime) -> Pod:
    """The pod, whose container was killed for want of memory a moment after its start."""
    killed = Termination("OOMKilled", now - timedelta(seconds=10), now)
    (container,) = pod.containers
    return structs.replace(
        pod,
        containers=(structs.replace(container, last_termination=killed, restart_count=5),),
        ready_since=None,
    )


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(BudgetError("POST eviction", Status(code=429)), id="a budget"),
        pytest.param(SEVERAL_BUDGETS, id="several budgets"),
    ],
)
@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, EITHER, UpdateMode.UPSCALE_ONLY])
def test_f22_a_service_whose_pods_are_all_oom_killed_recovers_despite_its_budget(
    mode: UpdateMode, refusal: ApiError
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        limited = a_container(requests=amounts(100, 100 * MIB), limits=amounts(memory=100 * MIB))
        cluster.deploy("web", limited, replicas=3)
        cluster.autoscale(UP, mode=mode)
        cluster.refusals["evict"] = [refusal] * 100
        running = asyncio.create_task(an_updater(cluster).run())
        for _ in range(15):
            for pod in cluster.pods_of("web"):
                memory = (pod.containers[0].spec.limits or {})[Resource.MEMORY]
                if memory < 500 * MIB:
                    cluster.put(dying(pod, cluster.clock.now()))
            await asyncio.sleep(60)
        running.cancel()
        limits = [pod.containers[0].spec.limits for pod in cluster.pods_of("web")]

        assert limits == [{Resource.MEMORY: 500 * MIB}] * 3
        assert {act for act, _ in cluster.acts} == {"resize"}

    run_virtually(scene())


def test_f22_a_pod_that_does_not_die_waits_for_its_budget() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        cluster.protected.add("web")
        updater = an_updater(cluster)
        await let_run(updater, minutes(10))

        assert cluster.acts == []
        assert "PodDisruptionBudget" in holds(updater).values()

    run_virtually(scene())
