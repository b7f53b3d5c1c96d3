from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from simulation.toys import Stage
from support.makers.records import a_recommendation, amounts

from trimtab.core.model.autoscalers import AutoscalerName, UpdateMode
from trimtab.core.model.matching import acts_on_running_pods
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.simulation.checks.hindsight import Hindsight, RecentValues
from trimtab.simulation.faults.calm import Calm
from trimtab.simulation.world.facts import FaultBegan, FaultEnded, ProcessCrashed, ProcessStarted
from trimtab.simulation.world.virtual_time import START, run_virtually

SPAN = timedelta(minutes=10)
LEADERS = Selector((LabelRequirement("role", Operator.IN, ("leader",)),))


def after(minutes: float) -> timedelta:
    return timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("now", "seen"),
    [
        pytest.param(0, ["a"], id="the first"),
        pytest.param(5, ["a", "b"], id="both within the span"),
        pytest.param(12, ["a", "b"], id="the first was true when the span began"),
        pytest.param(15, ["b"], id="the first is forgotten"),
        pytest.param(1000, ["b"], id="the last is never forgotten"),
    ],
)
def test_a_timeline_knows_all_that_was_true_within_its_span(now: float, seen: list[str]) -> None:
    timeline: RecentValues[str] = RecentValues(SPAN)
    timeline.put(START, "a")
    if now:
        timeline.put(START + after(5), "b")

    assert timeline.seen(START + after(now)) == seen


def test_a_timeline_tells_what_was_true_at_a_moment() -> None:
    timeline: RecentValues[str] = RecentValues(SPAN)
    timeline.put(START + after(1), "a")
    timeline.put(START + after(2), "b")

    assert timeline.at(START) is None
    assert timeline.at(START + after(1.5)) == "a"
    assert timeline.at(START + after(2)) == "b"


def test_an_edited_autoscaler_may_be_believed_for_a_while_in_its_old_version() -> None:
    async def work() -> None:
        stage = Stage()
        past = Hindsight(stage.world, SPAN)
        pod = stage.put_pods(1)[0]
        before = stage.put_autoscaler(mode=UpdateMode.RECREATE)
        await stage.wait(after(60))
        stage.world.change_autoscaler(replace(before, mode=UpdateMode.OFF))

        def modes() -> list[UpdateMode]:
            return [each.mode for each in past.governors(pod, acts_on_running_pods)]

        assert modes() == [UpdateMode.RECREATE, UpdateMode.OFF]
        await stage.wait(after(9))
        assert modes() == [UpdateMode.RECREATE, UpdateMode.OFF]
        await stage.wait(after(2))
        assert modes() == [UpdateMode.OFF]

    run_virtually(work())


def test_a_pod_may_seem_to_be_what_its_labels_were_a_moment_ago() -> None:
    async def work() -> None:
        stage = Stage()
        past = Hindsight(stage.world, SPAN)
        stage.put_autoscaler(name="leaders", selector=LEADERS)
        pod = stage.put_pods(1, labels={"app": "web", "role": "leader"})[0]
        await stage.wait(after(60))
        pod = stage.world.pods.put(structs.replace(pod, labels={"app": "web"}))

        assert past.governors(pod, acts_on_running_pods)
        assert past.relabelled_at(WorkloadName("default", "Deployment", "web")) is not None
        await stage.wait(after(11))
        assert not past.governors(pod, acts_on_running_pods)

    run_virtually(work())


def test_an_autoscaler_that_is_gone_may_still_be_seen_for_a_while() -> None:
    async def work() -> None:
        stage = Stage()
        past = Hindsight(stage.world, SPAN)
        pod = stage.put_pods(1)[0]
        stage.put_autoscaler()
        await stage.wait(after(60))
        stage.world.autoscalers.delete("default", "web")

        assert past.governors(pod, acts_on_running_pods)
        await stage.wait(after(11))
        assert not past.governors(pod, acts_on_running_pods)
        assert past.versions(AutoscalerName("default", "web")) == []

    run_virtually(work())


def test_conditions_alone_make_no_new_version() -> None:
    async def work() -> None:
        stage = Stage()
        past = Hindsight(stage.world, SPAN)
        before = stage.put_autoscaler()
        stage.world.autoscalers.put(replace(before, observed_generation=1))
        more = a_recommendation(target=amounts(200))
        stage.world.autoscalers.put(replace(before, recommendation=(more,)))

        assert len(past.versions(before.identity)) == 2

    run_virtually(work())


def test_the_workload_of_a_pod_is_remembered_when_its_owners_are_gone() -> None:
    async def work() -> None:
        stage = Stage()
        past = Hindsight(stage.world, SPAN)
        pod = stage.put_pods(1)[0]
        stage.world.workloads_of("ReplicaSet").delete("default", "web-1")
        stage.world.workloads_of("Deployment").delete("default", "web")
        web = WorkloadName("default", "Deployment", "web")

        assert past.topmost(pod) == web
        assert past.selector_of(web) is not None
        stage.world.pods.delete("default", pod.name)
        assert past.workload_named("default", pod.name) == web

    run_virtually(work())


def test_it_is_calm_when_nothing_is_broken_and_since_the_last_start() -> None:
    async def work() -> None:
        stage = Stage()
        calm = Calm(stage.world)
        assert calm.since == START

        stage.tell(FaultBegan(START + after(1), "cut off updater"))
        stage.tell(FaultBegan(START + after(2), "crash updater"))
        stage.tell(FaultEnded(START + after(3), "cut off updater"))
        assert calm.since is None

        stage.tell(FaultEnded(START + after(4), "crash updater"))
        assert calm.since == START + after(4)
        stage.tell(ProcessStarted(START + after(5), "updater"))
        assert calm.since == START + after(5)
        assert calm.runs("updater")

        stage.tell(ProcessCrashed(START + after(6), "updater", ""))
        assert not calm.runs("updater")

    run_virtually(work())


@pytest.mark.parametrize(
    ("fault", "minutes", "doubtful"),
    [
        pytest.param("clock skew updater at 0:01:00", 1, True, id="just set"),
        pytest.param("clock skew updater at 0:01:00", 11, False, id="set long ago"),
        pytest.param("cut off updater", 1, False, id="another fault"),
    ],
)
def test_clocks_are_in_doubt_for_a_while_after_they_were_set(
    fault: str, minutes: float, *, doubtful: bool
) -> None:
    async def work() -> bool:
        stage = Stage()
        calm = Calm(stage.world)
        stage.tell(FaultBegan(START, fault))
        assert calm.clocks_are_doubtful(START + after(60), SPAN) is fault.startswith("clock")
        stage.tell(FaultEnded(START, fault))
        return calm.clocks_are_doubtful(START + after(minutes), SPAN)

    assert run_virtually(work()) is doubtful
