"""The updater's loop on a small cluster, in virtual time."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import LEASE, UpdaterCluster, a_lease
from support.fakes.updater_scenes import (
    SEVERAL_BUDGETS,
    UNPACED,
    UP,
    an_updater,
    cpu,
    holds,
    let_run,
    planning,
)
from support.makers.records import MIB, NOW, a_container, a_recommendation, amounts, hours, minutes

from trimtab.api.wire.status_errors import Cause, Status
from trimtab.cluster.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnreachableError,
)
from trimtab.core.changes.outcomes import Evict, Hold
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model.autoscalers import Condition, UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import PAUSED, Allocation, Pod, PodPhase, Termination
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side
from trimtab.updater.actions import ActResult
from trimtab.updater.controller import Updater
from trimtab.updater.reports import ActionOutcome

EITHER, IN_PLACE = UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE
FORBIDDEN = 'pods "web-0" is forbidden: cannot create resource "pods/eviction" in API group ""'


def test_a_first_tick_evicts_one_of_two_pods_and_its_successor_has_its_size() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        report = await an_updater(cluster).tick()

        assert cpu(cluster) == [100, 500]
        assert report.done("Evict") == 1
        assert report.held == {HoldReason.BUDGET_SPENT: 1}

    run_virtually(scene())


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, EITHER, IN_PLACE, UpdateMode.UPSCALE_ONLY])
def test_after_a_few_ticks_all_pods_have_their_size_and_then_nothing_happens(
    mode: UpdateMode,
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=6)
        cluster.autoscale(UP, mode=mode)
        updater = an_updater(cluster)
        await let_run(updater, minutes(20))
        done = list(cluster.acts)
        await let_run(updater, hours(2))

        assert cpu(cluster) == [500] * 6
        assert len(done) == 6
        assert cluster.acts == done

    run_virtually(scene())


def test_a_pod_that_can_be_resized_is_not_evicted() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP, mode=EITHER)
        before = {pod.uid for pod in cluster.pods_of("web")}
        report = await an_updater(cluster).tick()
        resized = next(pod for pod in cluster.pods_of("web") if pod.annotations)

        assert report.done("Resize") == 2
        assert {pod.uid for pod in cluster.pods_of("web")} == before
        assert resized.annotations == {"vpaInPlaceUpdated": "true"}
        assert [event.reason for event in cluster.events] == ["InPlaceResizedByVPA"] * 2
        assert all("app: cpu 100m→" in event.message for event in cluster.events)

    run_virtually(scene())


def test_an_eviction_is_told_on_the_pod_and_on_its_autoscaler() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        await an_updater(cluster).tick()

        assert [(event.reason, event.about.kind) for event in cluster.events] == [
            ("EvictedByVPA", "Pod"),
            ("EvictedPod", "VerticalPodAutoscaler"),
        ]

    run_virtually(scene())


def test_the_most_urgent_pods_come_first_and_the_rest_waits_for_its_turn() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        targets = {"small": 200, "large": 900, "middle": 500}
        for name, target in targets.items():
            cluster.deploy(name)
            wanted = amounts(target, 100 * MIB)
            cluster.autoscale(a_recommendation(target=wanted, lower=wanted), name=name)
        pace = PaceSettings(per_second=0.03, burst=1, slow_start=timedelta())
        report = await an_updater(cluster, replace(UNPACED, pace=pace)).tick()

        assert [pod for _, pod in cluster.acts] == ["large-0", "middle-0"]
        assert report.waiting == 1

    run_virtually(scene())


def test_what_waits_is_done_in_a_later_tick() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for number in range(8):
            cluster.deploy(f"w{number}")
            cluster.autoscale(UP, name=f"w{number}")
        pace = PaceSettings(per_second=0.05, burst=1, slow_start=timedelta())
        await let_run(an_updater(cluster, replace(UNPACED, pace=pace)), minutes(6))

        assert all(cpu(cluster, f"w{number}") == [500, 500] for number in range(8))

    run_virtually(scene())


@pytest.mark.parametrize(
    ("mode", "kind", "acts"),
    [(UpdateMode.RECREATE, "Evict", ["a-0"]), (IN_PLACE, "Resize", ["a-0", "a-1", "b-1"])],
    ids=["evict", "resize"],
)
def test_a_pod_that_changed_while_it_waited_for_its_turn_is_left_alone(
    mode: UpdateMode, kind: str, acts: list[str]
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for name in ("a", "b"):
            cluster.deploy(name)
            cluster.autoscale(UP, name=name, mode=mode)
        pace = PaceSettings(per_second=0.5, burst=1, slow_start=timedelta())
        updater = an_updater(cluster, replace(UNPACED, pace=pace))
        ticking = asyncio.create_task(updater.tick())
        await asyncio.sleep(1)
        cluster.put(structs.replace(cluster.pods_of("b")[0], annotations={"note": "x"}))
        report = await ticking

        assert [pod for _, pod in cluster.acts] == acts
        assert report.acted[ActionOutcome(kind, ActResult.OUTDATED)] == 1

    run_virtually(scene())


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"mode": UpdateMode.OFF}, id="it was switched off"),
        pytest.param({"annotations": {PAUSED: "true"}}, id="it was paused"),
        pytest.param(None, id="it was deleted"),
    ],
)
def test_an_autoscaler_that_changed_meanwhile_stops_what_was_planned_for_it(
    edit: dict[str, object] | None,
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for name in ("a", "b"):
            cluster.deploy(name)
            cluster.autoscale(UP, name=name)
        pace = PaceSettings(per_second=0.5, burst=1, slow_start=timedelta())
        ticking = asyncio.create_task(an_updater(cluster, replace(UNPACED, pace=pace)).tick())
        await asyncio.sleep(1)
        if edit is None:
            cluster.drop_autoscaler("b")
        else:
            cluster.autoscale(name="b", **edit)
        report = await ticking

        assert cpu(cluster, "b") == [100, 100]
        assert report.acted[ActionOutcome("Evict", ActResult.WITHDRAWN)] == 1

    run_virtually(scene())


def test_who_does_not_lead_plans_and_does_nothing() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        updater = Updater(cluster, settings=UNPACED, clock=cluster.clock, may_act=lambda: False)
        report = await updater.tick()

        assert report.planned["Evict"] == 1
        assert report.acted == {ActionOutcome("Evict", ActResult.WITHDRAWN): 1}
        assert set(cluster.requests) <= {"fetch_lease"}

    run_virtually(scene())


@pytest.mark.parametrize(
    "paused",
    [
        pytest.param("operator", id="by the operator"),
        pytest.param("autoscaler", id="by the autoscaler"),
    ],
)
def test_a_pause_stops_all_acts_and_shows_what_would_be_done(paused: str) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        by_annotation = {"annotations": {PAUSED: "true"}} if paused == "autoscaler" else {}
        cluster.autoscale(UP, **by_annotation)  # type: ignore[arg-type]
        updater = an_updater(cluster, planning(paused=paused == "operator"))
        await updater.tick()
        condition = cluster.condition("UpdatesHeld")
        withheld = [each.withheld for each in updater.last_plan if isinstance(each, Hold)]

        assert cluster.acts == []
        assert any(isinstance(each, Evict) for each in withheld)
        assert condition is not None
        assert condition.message == (
            "2 pods are held back: BudgetSpent (1), Paused (1); 1 would be evicted"
        )

    run_virtually(scene())


@pytest.mark.parametrize(
    ("mode", "ignores", "expected"),
    [
        pytest.param(UpdateMode.RECREATE, False, [100, 100], id="not evicted"),
        pytest.param(UpdateMode.RECREATE, True, [100, 500], id="evicted if nobody cares"),
        pytest.param(EITHER, False, [500, 500], id="but resized"),
    ],
)
@pytest.mark.parametrize(
    "annotation",
    [
        {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        {"karpenter.sh/do-not-disrupt": "true"},
    ],
    ids=["the cluster autoscaler's word", "karpenter's word"],
)
def test_pods_whose_owner_asks_not_to_evict_them_are_only_resized(
    annotation: dict[str, str], mode: UpdateMode, expected: list[int], *, ignores: bool
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        for pod in cluster.pods_of("web"):
            cluster.put(structs.replace(pod, annotations=annotation))
        cluster.autoscale(UP, mode=mode)
        await an_updater(cluster, planning(evicts_unwillingly=ignores)).tick()

        assert cpu(cluster) == expected

    run_virtually(scene())


def test_a_disruption_budget_is_a_hold_that_is_tried_again_once_a_minute_for_one_pod() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=4)
        cluster.protected.add("web")
        cluster.autoscale(UP)
        pace = PaceSettings(per_second=1, burst=1, slow_start=timedelta())
        updater = an_updater(cluster, replace(UNPACED, pace=pace))
        await let_run(updater, minutes(5) - timedelta(seconds=1))
        held = set(holds(updater).values())
        condition = cluster.condition("UpdatesHeld")
        asked = cluster.requests["evict"]
        cluster.protected.clear()
        await let_run(updater, minutes(10))

        assert "PodDisruptionBudget" in held
        assert asked == 5
        assert condition is not None
        assert "PodDisruptionBudget (1)" in condition.message
        assert cpu(cluster) == [500] * 4
        assert cluster.condition("UpdatesHeld") is None

    run_virtually(scene())


def test_several_disruption_budgets_of_one_pod_are_named_where_it_is_held() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        cluster.refusals["evict"] = [SEVERAL_BUDGETS] * 10
        updater = an_updater(cluster)
        await let_run(updater, minutes(5) - timedelta(seconds=1))
        condition = cluster.condition("UpdatesHeld")

        assert "PodDisruptionBudget" in holds(updater).values()
        assert condition is not None
        assert "This pod has more than one PodDisruptionBudget" in condition.message

    run_virtually(scene())


@pytest.mark.parametrize(
    ("error", "result"),
    [
        pytest.param(ConflictError("x", Status()), ActResult.OUTDATED, id="somebody was faster"),
        pytest.param(NotFoundError("x", Status()), ActResult.OUTDATED, id="the pod is gone"),
        pytest.param(
            ForbiddenError("x", Status(message=FORBIDDEN)), ActResult.FORBIDDEN, id="no right"
        ),
        pytest.param(InvalidError("x", Status()), ActResult.REFUSED, id="it is not valid"),
        pytest.param(UnreachableError("x", "lost"), ActResult.UNKNOWN, id="no answer"),
        pytest.param(ApiError("x", Status(code=502)), ActResult.UNKNOWN, id="a proxy lost it"),
        pytest.param(ApiError("x", Status(code=504)), ActResult.UNKNOWN, id="a proxy gave up"),
        pytest.param(ApiError("x", Status(code=500)), ActResult.FAILED, id="anything else"),
        pytest.param(BudgetError("x", Status()), ActResult.PROTECTED, id="a disruption budget"),
        pytest.param(SEVERAL_BUDGETS, ActResult.PROTECTED, id="several disruption budgets"),
    ],
)
def test_each_refusal_is_counted_as_what_it_is_and_stops_nothing_else(
    error: ApiError, result: ActResult
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for name in ("a", "b"):
            cluster.deploy(name)
            cluster.autoscale(UP, name=name)
        cluster.refusals["evict"] = [error]
        report = await an_updater(cluster).tick()

        assert report.acted == {
            ActionOutcome("Evict", result): 1,
            ActionOutcome("Evict", ActResult.DONE): 1,
        }

    run_virtually(scene())


def test_a_resize_that_finds_another_size_is_planned_again_and_evicts_no_pod() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=4)
        cluster.autoscale(UP, mode=UpdateMode.IN_PLACE_OR_RECREATE)
        cluster.refusals["resize"] = [ConflictError("x", Status(code=409)) for _ in range(4)]
        updater = an_updater(cluster)
        first = await updater.tick()
        await let_run(updater, minutes(2))

        assert first.acted == {ActionOutcome("Resize", ActResult.OUTDATED): 4}
        assert {act for act, _ in cluster.acts} == {"resize"}
        assert cpu(cluster) == [500] * 4

    run_virtually(scene())


def test_a_server_that_asks_for_peace_gets_it_and_nothing_is_forgotten() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        later = Status(code=429, retry_after=timedelta(seconds=20))
        cluster.refusals["evict"] = [TooManyRequestsError("x", later)]
        updater = an_updater(cluster)
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(15)
        early = cluster.requests["evict"]
        await asyncio.sleep(15)
        running.cancel()

        assert early == 1
        assert cpu(cluster) == [500, 500]

    run_virtually(scene())


def test_an_eviction_without_an_answer_counts_until_the_view_tells_otherwise() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        cluster.refusals["evict"] = [UnreachableError("x", "lost")]
        updater = an_updater(cluster)
        await updater.tick()
        again = await updater.tick()
        cluster.clock.skew += minutes(6)
        late = await updater.tick()

        assert again.acted == {}
        assert late.done("Evict") == 1

    run_virtually(scene())


@pytest.mark.parametrize(
    ("mode", "target"),
    [
        pytest.param(UpdateMode.RECREATE, 900, id="another eviction"),
        pytest.param(IN_PLACE, 200, id="a resize that shrinks"),
    ],
)
def test_after_an_act_without_an_answer_nothing_follows_until_it_has_cooled_down(
    mode: UpdateMode, target: int
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        cluster.autoscale(UP, mode=mode, min_replicas=1)
        cluster.mute |= {"evict", "resize"}
        updater = an_updater(cluster)
        await updater.tick()
        wanted = amounts(target, target * MIB)
        cluster.autoscale(a_recommendation(target=wanted, lower=wanted, upper=wanted))
        for _ in range(3):
            await updater.tick()
        early, why = len(cluster.acts), holds(updater)
        cluster.clock.skew += minutes(5)
        await updater.tick()

        assert early == 1
        assert set(why.values()) == {"CoolDown"}
        assert len(cluster.acts) == 2
        assert cluster.condition("UpdatesWithoutEffect") is None

    run_virtually(scene())


@pytest.mark.parametrize(
    ("memory", "acts"),
    [
        pytest.param(101, [], id="a mebibyte more is not worth a restart"),
        pytest.param(150, ["evict"], id="half as much again is"),
    ],
)
def test_upscale_only_restarts_a_pod_that_cannot_be_resized_for_growth_that_matters(
    memory: int, acts: list[str]
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        large = amounts(1000, 100 * MIB)
        cluster.deploy("web", a_container(requests=large, status=Allocation(large)))
        cluster.refusals["resize"] = [InvalidError("x", Status(code=422)) for _ in range(99)]
        target = amounts(100, memory * MIB)
        least, most = amounts(50, 50 * MIB), amounts(200, 200 * MIB)
        recommendation = a_recommendation(target=target, lower=least, upper=most)
        cluster.autoscale(recommendation, mode=UpdateMode.UPSCALE_ONLY)
        cluster.clock.skew += hours(13)
        updater = an_updater(cluster)
        for _ in range(2):
            await updater.tick()

        assert [act for act, _ in cluster.acts] == acts
        assert cpu(cluster) == ([100, 1000] if acts else [1000, 1000])

    run_virtually(scene())


def test_the_new_leader_grows_while_the_old_one_is_missing() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        gone, promoted, _ = cluster.pods_of("web")
        cluster.put(structs.replace(gone, phase=PodPhase.PENDING, ready_since=None))
        cluster.put(structs.replace(promoted, labels={**promoted.labels, "role": "leader"}))
        leading = Selector((LabelRequirement("role", Operator.IN, ("leader",)),))
        cluster.autoscale(UP, mode=EITHER, selector=leading)
        await an_updater(cluster, planning(disruption=DisruptionSettings(tolerance=0.3))).tick()

        assert cluster.acts == [("resize", promoted.name)]

    run_virtually(scene())


def test_a_workload_of_which_all_pods_are_oom_looping_is_evicted_at_once() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        now = cluster.clock.now()
        killed = Termination("OOMKilled", now - minutes(2), now - minutes(1))
        for pod in cluster.pods_of("web"):
            dying = tuple(structs.replace(each, last_termination=killed) for each in pod.containers)
            cluster.put(structs.replace(pod, containers=dying, ready_since=None))
        cluster.autoscale(UP)
        # Just after a start all pods that are not ready count as down.
        report = await an_updater(cluster).tick()

        assert report.done("Evict") == 3
        assert cpu(cluster) == [500] * 3

    run_virtually(scene())


@pytest.mark.parametrize("mode", [IN_PLACE, EITHER, UpdateMode.UPSCALE_ONLY])
def test_growth_in_place_follows_the_last_change_at_the_next_tick(mode: UpdateMode) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        cluster.autoscale(UP, mode=mode)
        updater = an_updater(cluster)
        await updater.tick()
        wanted = amounts(900, 900 * MIB)
        cluster.autoscale(a_recommendation(target=wanted, lower=wanted, upper=wanted))
        await updater.tick()
        grown = cpu(cluster)
        less = amounts(200, 200 * MIB)
        cluster.autoscale(a_recommendation(target=less, lower=less, upper=less))
        await updater.tick()

        assert grown == [900]
        assert cpu(cluster) == [900]
        assert cluster.acts == [("resize", "web-0")] * 2

    run_virtually(scene())


def test_a_mixed_change_grows_at_once_and_shrinks_after_the_cool_down() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        cluster.autoscale(UP, mode=EITHER)
        updater = an_updater(cluster)
        await updater.tick()
        mixed = amounts(900, 200 * MIB)
        cluster.autoscale(a_recommendation(target=mixed, lower=mixed, upper=mixed))
        await updater.tick()
        early = cluster.pods_of("web")[0].containers[0].spec.requests
        cluster.clock.skew += minutes(5)
        await updater.tick()

        assert early == amounts(900, 500 * MIB)
        assert cluster.pods_of("web")[0].containers[0].spec.requests == mixed

    run_virtually(scene())


def test_a_lost_resize_is_tried_again_after_five_minutes_and_counts_as_no_failure() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        # Inside its bounds, where a change of late would be a reason to wait for half a day.
        cluster.autoscale(
            a_recommendation(target=amounts(200, 200 * MIB)), mode=IN_PLACE, min_replicas=1
        )
        cluster.clock.skew += hours(13)
        cluster.refusals["resize"] = [UnreachableError("x", "lost")]
        updater = an_updater(cluster)
        for _ in range(3):
            await updater.tick()
        early = cluster.requests["resize"]
        cluster.clock.skew += minutes(5)
        await updater.tick()

        assert early == 1
        assert cpu(cluster) == [200]
        assert cluster.condition("UpdatesWithoutEffect") is None

    run_virtually(scene())


def test_a_question_without_an_answer_is_no_change_and_is_asked_again() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        small = amounts(100, 100 * MIB)
        container = a_container(requests=small, status=Allocation(small), restarts_on_resize=True)
        cluster.deploy("web", container, replicas=1)
        cluster.autoscale(UP, mode=IN_PLACE, min_replicas=1)
        cluster.refusals["try_eviction"] = [UnreachableError("x", "lost")]
        updater = an_updater(cluster)
        first = await updater.tick()
        await updater.tick()

        assert first.acted == {ActionOutcome("Resize", ActResult.BUSY): 1}
        assert cpu(cluster) == [500]

    run_virtually(scene())


def test_what_the_view_does_not_show_yet_is_not_done_twice() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP)
        updater = an_updater(cluster)
        cluster.freeze()
        for _ in range(3):
            await updater.tick()
        frozen = list(cluster.acts)
        cluster.thaw()
        await updater.tick()

        assert len(frozen) == 1
        assert len(cluster.acts) == 2

    run_virtually(scene())


def test_a_resize_that_the_view_does_not_show_yet_is_not_asked_for_again() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP, mode=IN_PLACE)
        updater = an_updater(cluster)
        cluster.freeze()
        for _ in range(3):
            await updater.tick()

        assert cluster.acts == [("resize", "web-0"), ("resize", "web-1")]

    run_virtually(scene())


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(EITHER, ["evict"], id="evicted where that is the way out"),
        pytest.param(IN_PLACE, [], id="left alone where only a resize is wanted"),
    ],
)
def test_a_resize_that_the_server_refuses_is_not_tried_again_at_once(
    mode: UpdateMode, expected: list[str]
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        cluster.autoscale(UP, mode=mode, min_replicas=1)
        cluster.refusals["resize"] = [InvalidError("x", Status())]
        updater = an_updater(cluster)
        for _ in range(3):
            await updater.tick()

        assert [act for act, _ in cluster.acts] == expected
        assert cluster.requests["resize"] == 1

    run_virtually(scene())


POLICY = "ValidatingAdmissionPolicy 'most' with binding 'all' denied request: at most 1 CPU"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            InvalidError("x", Status(code=422, message=POLICY, causes=(Cause("", "1 CPU"),))),
            id="a policy",
        ),
        pytest.param(ForbiddenError("x", Status(code=403, message=POLICY)), id="forbidden"),
        pytest.param(
            ApiError(
                "x",
                Status(
                    code=400,
                    message='admission webhook "size.example.com" denied the request: '
                    "at most 1 CPU",
                ),
            ),
            id="a webhook",
        ),
    ],
)
@pytest.mark.parametrize("mode", [EITHER, UpdateMode.UPSCALE_ONLY])
def test_no_pod_is_evicted_for_a_size_that_the_api_server_refuses(
    mode: UpdateMode, error: ApiError
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=6)
        cluster.autoscale(UP, mode=mode)
        cluster.refusals["resize"] = [error for _ in range(99)]
        updater = an_updater(cluster)
        await let_run(updater, minutes(30))
        condition = cluster.condition("UpdatesHeld")
        asked_for_half_an_hour = cluster.requests["resize"]
        await let_run(updater, minutes(35))

        assert cluster.acts == []
        assert set(holds(updater).values()) == {"ResizeDenied"}
        assert condition is not None
        assert "at most 1 CPU" in condition.message
        assert (asked_for_half_an_hour, cluster.requests["resize"]) == (6, 12)
        assert any("at most 1 CPU" in event.message for event in cluster.events)

    run_virtually(scene())


@pytest.mark.parametrize("mode", [EITHER, UpdateMode.UPSCALE_ONLY])
def test_pods_that_all_die_are_evicted_where_only_their_resizes_are_refused(
    mode: UpdateMode,
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        cluster.autoscale(UP, mode=mode)
        refused = ForbiddenError("x", Status(code=403, message="no resizes"))
        cluster.refusals["resize"] = [refused for _ in range(99)]
        counts = []

        async def kill() -> None:
            while True:
                now = cluster.clock.now()
                killed = Termination("OOMKilled", now - minutes(2), now - minutes(1))
                for pod in cluster.pods_of("web"):
                    if pod.containers[0].current.requests != UP.target:
                        each = structs.replace(pod.containers[0], last_termination=killed)
                        cluster.put(structs.replace(pod, containers=(each,), ready_since=None))
                await asyncio.sleep(180)
                counts.append(len(cluster.acts))

        killing = asyncio.create_task(kill())
        await let_run(an_updater(cluster), minutes(20))
        killing.cancel()

        assert counts[0] == 1
        assert [act for act, _ in cluster.acts] == ["evict"] * 3
        assert cpu(cluster) == [500] * 3

    run_virtually(scene())


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            InvalidError(
                "x",
                Status(
                    code=422,
                    causes=(Cause("FieldValueInvalid", "Pod QOS Class may not change", "spec"),),
                ),
            ),
            id="a resize that cannot be",
        ),
        pytest.param(
            ForbiddenError("x", Status(code=403, causes=(Cause("NodeCapacity"),))),
            id="a node that is too small",
        ),
    ],
)
def test_a_pod_that_cannot_be_resized_as_it_is_is_evicted(error: ApiError) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=4)
        cluster.autoscale(UP, mode=EITHER)
        cluster.refusals["resize"] = [error for _ in range(99)]
        updater = an_updater(cluster)
        await let_run(updater, minutes(3))

        assert "evict" in {act for act, _ in cluster.acts}

    run_virtually(scene())


def test_a_resize_that_is_not_tried_again_is_told_on_the_pod() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        cluster.autoscale(UP, mode=IN_PLACE, min_replicas=1)
        cluster.refusals["resize"] = [InvalidError("x", Status())]
        updater = an_updater(cluster)
        await updater.tick()
        await updater.tick()

        assert [event.reason for event in cluster.events] == ["InPlaceResizeSkipped"]

    run_virtually(scene())


def test_without_an_admission_controller_nothing_is_evicted() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        updater = an_updater(cluster, replace(UNPACED, uses_admission_status=True))
        cluster.leases.clear()
        absent = await updater.tick()
        await asyncio.sleep(10)
        cluster.leases[LEASE] = replace(a_lease(), renewed_at=cluster.clock.now())
        present = await updater.tick()

        assert absent.held == {HoldReason.ADMISSION_ABSENT: 2}
        assert not absent.is_admission_alive
        assert present.done("Evict") == 1

    run_virtually(scene())


@pytest.mark.parametrize(
    "age",
    [
        pytest.param(None, id="not listed yet"),
        pytest.param(minutes(6), id="too old"),
    ],
)
def test_who_does_not_see_the_cluster_does_nothing(age: timedelta | None) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        cluster.view_age = age
        report = await an_updater(cluster).tick()

        assert report.is_blind
        assert cluster.requests == {}

    run_virtually(scene())


def test_what_was_not_seen_at_a_start_does_not_wait_for_a_second_tick() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        cluster.view_age = None
        seen_at = cluster.clock.now() + timedelta(seconds=3)
        asyncio.get_running_loop().call_later(3, setattr, cluster, "view_age", timedelta())
        await let_run(an_updater(cluster), timedelta(seconds=4))

        assert cluster.acts
        assert seen_at <= cluster.events[0].at

    run_virtually(scene())


@pytest.mark.parametrize(
    ("span", "is_told"),
    [
        pytest.param(timedelta(seconds=9), False, id="while some are yet to begin"),
        pytest.param(timedelta(seconds=50), True, id="when all have begun"),
    ],
)
def test_acts_without_a_pace_come_before_conditions(span: timedelta, *, is_told: bool) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.latency = timedelta(seconds=6)
        for name in ("a", "b", "c"):
            cluster.deploy(name)
            cluster.autoscale(UP, name=name)
        cluster.starts_at_once = False
        await let_run(an_updater(cluster, replace(UNPACED, concurrency=1)), span)

        assert ("publish_conditions" in cluster.requests) is is_told

    run_virtually(scene())


def test_the_next_tick_does_not_wait_until_everything_is_told() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.latency = timedelta(seconds=50)
        for number in range(9):
            cluster.deploy(f"web-{number}", replicas=1)
            cluster.autoscale(UP, name=f"web-{number}")
        settings = replace(UNPACED, concurrency=1)
        updater = an_updater(cluster, settings)
        await let_run(updater, minutes(4))

        assert updater.report.at - NOW >= minutes(2)
        assert cluster.requests["publish_conditions"] > 2

    run_virtually(scene())


def test_conditions_of_others_stay_as_they_are() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        provided = Condition("RecommendationProvided", "True", last_transition_time=NOW)
        cluster.autoscale(UP, conditions=(provided,))
        await an_updater(cluster).tick()

        assert cluster.condition("RecommendationProvided") == provided
        assert cluster.condition("UpdatesHeld") is not None

    run_virtually(scene())


def test_conditions_that_stay_the_same_are_not_written_again() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1)
        cluster.autoscale(UP)
        updater = an_updater(cluster)
        await let_run(updater, hours(1))
        held = cluster.condition("UpdatesHeld")

        assert held is not None
        assert held.reason == "BelowMinReplicas"
        assert cluster.requests["publish_conditions"] == 1

    run_virtually(scene())


def test_pods_of_ignored_namespaces_are_not_looked_at() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        settings = replace(UNPACED, ignored_namespaces=frozenset({"default"}))
        report = await an_updater(cluster, settings).tick()

        assert report.planned == {}

    run_virtually(scene())


def test_a_turn_that_fails_does_not_end_the_updater() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        cluster.refusals["fetch_lease"] = [RuntimeError("odd")]  # type: ignore[list-item]
        settings = replace(UNPACED, uses_admission_status=True)
        running = asyncio.create_task(an_updater(cluster, settings).run())
        await asyncio.sleep(50)
        early = list(cluster.acts)
        cluster.renew()
        await asyncio.sleep(50)
        running.cancel()

        assert early == []
        assert cpu(cluster) == [500, 500]

    run_virtually(scene())


def test_a_turn_that_comes_while_a_resize_is_under_way_does_not_ask_for_it_again() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP, mode=IN_PLACE)
        cluster.latency = timedelta(seconds=30)
        updater = an_updater(cluster)
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(5)
        pod = cluster.pods_of("web")[1]
        cluster.put(structs.replace(pod, labels={**pod.labels, "new": "label"}))
        await asyncio.sleep(20)
        running.cancel()

        assert cluster.requests["resize"] == 2

    run_virtually(scene())


def test_a_namespace_that_is_paused_stops_what_was_planned_and_shows_it_afterwards() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        for name in ("a", "b"):
            cluster.deploy(name)
            cluster.autoscale(UP, name=name)
        pace = PaceSettings(per_second=0.5, burst=1, slow_start=timedelta())
        updater = an_updater(cluster, replace(UNPACED, pace=pace))
        ticking = asyncio.create_task(updater.tick())
        await asyncio.sleep(1)
        cluster.annotate_namespace(paused="true")
        report = await ticking
        await updater.tick()
        done, held = len(cluster.acts), holds(updater)
        cluster.annotate_namespace(paused="false")
        await updater.tick()

        assert report.acted[ActionOutcome("Evict", ActResult.WITHDRAWN)] == 1
        assert HoldReason.PAUSED.value in held.values()
        assert len(cluster.acts) > done == 1

    run_virtually(scene())


def test_a_cluster_that_cannot_resize_gets_evictions_where_the_mode_allows_them() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.resizes_in_place = False
        for name, mode in (("either", EITHER), ("only", IN_PLACE)):
            cluster.deploy(name)
            cluster.autoscale(UP, name=name, mode=mode)
        updater = an_updater(cluster)
        report = await updater.tick()

        assert (report.done("Evict"), report.done("Resize")) == (1, 0)
        assert holds(updater)["only-0"] == HoldReason.RESIZE_UNSUPPORTED.value

    run_virtually(scene())


def test_f20_a_full_quota_holds_pods_until_it_leaves_room() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(a_recommendation(target=amounts(500), lower=amounts(400)))
        claim = QuotaClaim(Side.REQUESTS, Resource.CPU)
        cluster.known_quotas["default"] = [Quota("default", "team", {claim: 499})]
        # Admission may count pods twice that just came.
        await asyncio.sleep(60)
        updater = an_updater(cluster)
        await updater.tick()
        held, done = set(holds(updater).values()), len(cluster.acts)
        cluster.known_quotas["default"] = [Quota("default", "team", {claim: 500})]
        await updater.tick()

        assert (held, done) == ({"QuotaExceeded"}, 0)
        assert len(cluster.acts) == 1

    run_virtually(scene())


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE])
@pytest.mark.parametrize("resizes", [True, False])
def test_a_kubelet_that_reports_no_resources_costs_no_pod(
    mode: UpdateMode, *, resizes: bool
) -> None:
    def without_report(pod: Pod) -> Pod:
        containers = tuple(structs.replace(each, status=Allocation()) for each in pod.containers)
        return structs.replace(pod, containers=containers)

    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.undo, cluster.is_kubelet_quick = without_report, False
        cluster.resizes_in_place = resizes
        cluster.autoscale(UP, mode=mode)
        cluster.deploy(replicas=3)
        await let_run(an_updater(cluster), minutes(60))

        assert cluster.acts == []
        assert cpu(cluster) == [500] * 3

    run_virtually(scene())
