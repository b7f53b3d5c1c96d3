"""What is written, when and how often: proportional to what changed, fair, and never in the way."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

import pytest
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, amounts, minutes

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
)
from trimtab.core.model.recommendation import RecommendationSettings, ResourceSettings
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.status_changes import PublishingSettings
from trimtab.recommender.controller import Recommender
from trimtab.recommender.reports import TickReport


def a_world(count: int = 1) -> RecommenderCluster:
    """So many Deployments of a pod each, with their autoscalers."""
    world = RecommenderCluster()
    for number in range(count):
        world.deploy(f"web-{number}")
        world.autoscale(f"web-{number}")
    return world


async def tick(world: RecommenderCluster, recommender: Recommender) -> TickReport:
    report = await recommender.tick()
    world.wait()
    return report


SOON_SURE = RecommendationSettings(
    cpu=ResourceSettings(25, confidence_interval=minutes(15)),
    memory=ResourceSettings(250 * MIB, confidence_interval=minutes(15)),
)
"""A history is believed after minutes, so that bounds stand nearly still after an hour."""


async def settled(world: RecommenderCluster, **settings: object) -> Recommender:
    """A recommender that knows everything so well that hardly anything moves any more."""
    recommender = world.recommender(recommendations=SOON_SURE, **settings)
    for _ in range(61):
        await tick(world, recommender)
    return recommender


async def trickling(world: RecommenderCluster) -> Recommender:
    """One that knows it even better: no bound moves far within ten minutes."""
    recommender = await settled(world)
    for _ in range(45):
        await tick(world, recommender)
    return recommender


@pytest.mark.parametrize("count", [5, 20])
@pytest.mark.parametrize("changed", [0, 3])
async def test_f34_statuses_are_written_for_those_that_changed_and_nobody_else(
    count: int, changed: int
) -> None:
    world = a_world(count)
    # No turn of small moves comes up while it is watched.
    recommender = await settled(world, publishing=PublishingSettings(patience=minutes(120)))
    before = world.requests["publish_status"]
    for number in range(changed):
        world.loads[f"web-{number}-0"] = Load(memory=4000 * MIB)
    small_changes = (await tick(world, recommender)).held_back
    for _ in range(2):
        await tick(world, recommender)
    written = world.requests["publish_status"] - before

    assert small_changes == count - changed
    assert changed <= written <= 3 * changed


async def test_f34_bounds_that_creep_are_written_every_ten_minutes_at_most() -> None:
    world = a_world()
    recommender = await settled(world)
    reports = [await tick(world, recommender) for _ in range(41)]

    assert 1 <= sum(report.published for report in reports) <= 5
    assert sum(report.held_back for report in reports) >= 30


async def test_f34_a_small_move_is_written_once_ten_minutes_have_passed() -> None:
    world = a_world()
    tolerant = PublishingSettings(bound_move_fraction=0.9)
    recommender = await settled(world, publishing=tolerant)
    published = [(await tick(world, recommender)).published for _ in range(30)]

    assert sum(published) == 3
    first = published.index(1)
    assert published[first + 1 : first + 11] == [0] * 9 + [1]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["all along", "after a restart"])
async def test_f34_small_moves_trickle_however_they_began(*, is_restarted: bool) -> None:
    """All statuses are written in the first tick; that must not bring them together for ever."""
    world = a_world(20)
    recommender = await trickling(world)
    if is_restarted:
        await recommender.save_all()
        recommender = world.recommender(recommendations=SOON_SURE)
    reports = [await tick(world, recommender) for _ in range(20)]

    # A tenth at a time, and those whose bounds have moved far in the meantime.
    assert max(report.published for report in reports) <= 4
    assert sum(report.published for report in reports) >= 40


async def swing(
    world: RecommenderCluster, recommender: Recommender, ticks: int
) -> list[TickReport]:
    """So many ticks of usage that swings by half up and down, by chance."""
    chance = Random(1)
    reports = []
    for _ in range(ticks):
        for pod in world.pods:
            cpu, memory = chance.uniform(50, 150), chance.uniform(150, 450)
            world.loads[pod.name] = Load(cpu, memory * MIB)
        reports.append(await tick(world, recommender))
    return reports


async def test_f34_usage_that_swings_costs_few_more_statuses() -> None:
    """Peaks of memory windows that have just begun move bounds that no request is near to."""
    ample = a_container(requests=amounts(200, 2000 * MIB))
    world = RecommenderCluster()
    for number in range(20):
        world.deploy(f"web-{number}", ample)
        world.autoscale(f"web-{number}")
    recommender = world.recommender(recommendations=SOON_SURE)
    await swing(world, recommender, 300)
    # The pods are replaced, and their windows begin.
    for number in range(20):
        world.end(f"web-{number}-0")
        world.start(f"web-{number}-1", ample, app=f"web-{number}")
    reports = await swing(world, recommender, 10)

    assert sum(report.published for report in reports) <= 40


async def test_a_lower_bound_that_passes_a_request_is_written_in_that_tick() -> None:
    """A pod that needs more does not wait for the turn of small moves."""
    patient = PublishingSettings(far_move_fraction=1e9, patience=minutes(600))
    world = RecommenderCluster()
    world.deploy("web", a_container(requests=amounts(100, 500 * MIB)))
    world.autoscale()
    recommender = await settled(world, publishing=patient)
    world.loads[""] = Load(memory=480 * MIB)
    said = []
    for _ in range(30):
        await tick(world, recommender)
        (now,) = recommender.state.publications.amounts().numbers
        (one,) = world.autoscaler().recommendation or ()
        said.append((int(now[1, 1]), (one.lower_bound or {})[Resource.MEMORY]))

    passed = [number for number, (lower, _) in enumerate(said) if lower > 500 * MIB]
    assert passed, said
    assert said[passed[0]][1] == said[passed[0]][0]


async def test_checkpoints_are_read_once_and_not_in_every_tick() -> None:
    world = a_world(3)
    recommender = world.recommender()
    await tick(world, recommender)
    await recommender.save_all()
    restarted = world.recommender()
    reports = [await tick(world, restarted) for _ in range(3)]

    assert [report.restored for report in reports] == [3, 0, 0]


async def test_f34_nothing_is_written_twice_while_the_store_lags_behind() -> None:
    world = a_world()
    recommender = world.recommender()
    world.stall("verticalpodautoscalers")
    reports = [await recommender.tick() for _ in range(3)]

    assert [report.published for report in reports] == [1, 0, 0]


@pytest.mark.parametrize("restarts", [0, 1])
async def test_f35_checkpoints_trickle_and_none_is_older_than_ten_minutes(restarts: int) -> None:
    world = a_world(30)
    recommender = world.recommender()
    await tick(world, recommender)
    for _ in range(restarts):
        recommender = world.recommender()
        await tick(world, recommender)
    writes = []
    for _ in range(40):
        report = await tick(world, recommender)
        writes.append(report.checkpoints_written)
        oldest = min(saved_at(one) for one in world.checkpoints)

        assert world.clock.now() - oldest <= minutes(10)
    assert max(writes) <= 4
    assert sum(writes) <= 30 * 5


async def test_f34_histories_that_change_nothing_are_saved_in_every_third_rotation() -> None:
    world = a_world(30)
    recommender = await trickling(world)
    for _ in range(150):
        await tick(world, recommender)
    writes = []
    for _ in range(60):
        writes.append((await tick(world, recommender)).checkpoints_written)
        oldest = min(saved_at(one) for one in world.checkpoints)

        assert world.clock.now() - oldest <= minutes(30)
    # In two of their rotations, with the head start that what would be late has.
    assert 60 <= sum(writes) <= 70


async def test_a_history_that_changes_what_is_recommended_is_saved_within_a_rotation() -> None:
    world = a_world(30)
    recommender = await trickling(world)
    world.loads["web-7-0"] = Load(memory=4000 * MIB)
    changed_at = world.clock.now()
    for _ in range(10):
        await tick(world, recommender)

    assert saved_at(world.checkpoint("web-7-app")) >= changed_at


def samples(world: RecommenderCluster) -> dict[str, int]:
    return {one.autoscaler_name: one.aggregate.total_samples_count for one in world.checkpoints}


@pytest.mark.parametrize("is_read_before", [False, True], ids=["new usage", "usage of before"])
async def test_f34_after_a_start_everything_new_is_saved_once_within_two_minutes(
    *, is_read_before: bool
) -> None:
    world = a_world(30)
    recommender = world.recommender()
    for _ in range(12):
        await tick(world, recommender)
    await recommender.save_all()
    before, started_at = samples(world), world.clock.now()
    # A metrics server may still show what the process before has counted.
    world.read_at = started_at - minutes(1) if is_read_before else None
    recommender = world.recommender()
    first = await tick(world, recommender)
    world.read_at = None
    second = await tick(world, recommender)
    after = samples(world)
    rest = [await tick(world, recommender) for _ in range(10)]

    # Those that had nothing new come with the next reading, the others in rotation by then.
    assert first.checkpoints_written == (0 if is_read_before else 30)
    assert second.checkpoints_written == (30 if is_read_before else 3)
    assert all(after[name] > before[name] for name in before)
    assert max(report.checkpoints_written for report in rest) <= 4


async def test_f34_a_start_writes_no_checkpoint_that_would_be_as_it_was() -> None:
    world = a_world(30)
    recommender = world.recommender()
    for _ in range(3):
        await tick(world, recommender)
    await recommender.save_all()
    for number in range(30):
        world.end(f"web-{number}-0")
    # Until then windows of memory are open, which is news once they close.
    for _ in range(26):
        world.wait(minutes(60))
        await recommender.tick()
    await recommender.save_all()
    recommender = world.recommender()
    reports = [await tick(world, recommender) for _ in range(15)]

    assert sum(report.checkpoints_written for report in reports) == 0


async def test_a_process_that_never_lives_long_saves_what_was_saved_longest_ago() -> None:
    world = SlowStore()
    for number in range(30):
        world.deploy(f"web-{number}")
        world.autoscale(f"web-{number}")
    await tick(world, world.recommender())
    before, world.is_slow = samples(world), True
    for _ in range(3):
        world.wait()
        short = world.recommender(update_worker_count=1, checkpoints_timeout=timedelta(seconds=10))
        report = await short.tick()

        assert report.checkpoints_written == 10
    after = samples(world)
    assert all(after[name] > before[name] for name in before)


async def test_f35_after_a_start_a_slow_server_bounds_what_is_saved_in_one_tick() -> None:
    world = SlowStore()
    for number in range(150):
        world.deploy(f"web-{number}")
        world.autoscale(f"web-{number}")
    await tick(world, world.recommender())
    world.saved.clear()
    world.is_slow = True
    recommender = world.recommender(update_worker_count=1)
    reports = [await recommender.tick() for _ in range(3)]

    assert [report.checkpoints_written for report in reports[:2]] == [60, 60]
    assert (reports[0].checkpoints_left, reports[2].checkpoints_left) == (90, 0)
    assert len(set(world.saved[:150])) == 150


async def test_what_was_never_saved_is_saved_in_the_tick_that_learned_it() -> None:
    world = a_world(30)
    recommender = world.recommender()
    report = await tick(world, recommender)
    names = {one.autoscaler_name for one in world.checkpoints}

    assert report.checkpoints_written == 30
    assert names == {f"web-{number}" for number in range(30)}


async def test_a_container_that_is_new_in_an_old_autoscaler_is_saved_at_once() -> None:
    world = a_world(20)
    recommender = world.recommender()
    for _ in range(3):
        await tick(world, recommender)
    world.start("web-7-0", a_container(name="app"), a_container(name="new"), app="web-7")
    await tick(world, recommender)

    assert world.checkpoints.find("default", "web-7-new") is not None


async def test_a_container_that_taught_nothing_has_no_checkpoint_until_it_does() -> None:
    world = a_world()
    world.silent.add("web-0-0")
    recommender = world.recommender()
    for _ in range(15):
        await tick(world, recommender)
    before = list(world.checkpoints)
    world.silent.clear()
    await tick(world, recommender)

    assert before == []
    assert world.checkpoint("web-0-app").aggregate.total_samples_count == 1


class SlowStore(RecommenderCluster):
    """A cluster whose server takes a second for every checkpoint."""

    is_slow = False

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[str] = []

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self.wait(timedelta(seconds=self.is_slow))
        await super().save_checkpoint(checkpoint)
        self.saved.append(checkpoint.autoscaler_name)


async def test_at_the_end_what_would_be_lost_most_is_saved_first() -> None:
    world = SlowStore()
    for number in range(30):
        world.deploy(f"web-{number}", replicas=1 + (number == 17))
        world.autoscale(f"web-{number}")
    recommender = world.recommender()
    for _ in range(3):
        await tick(world, recommender)
    world.deploy("new")
    world.autoscale("new")
    world.failing.add("save_checkpoint new-app")
    just_saved = await tick(world, recommender)
    world.failing.clear()
    world.saved.clear()
    world.is_slow = True
    report = await recommender.save_all(within=timedelta(seconds=10))

    assert world.saved[:2] == ["new", "web-17"]
    assert report.checkpoints_written == len(world.saved) == 10
    assert report.checkpoints_left == 31 - 10 - just_saved.checkpoints_written


async def test_at_the_end_those_are_counted_for_whom_there_was_no_time_at_all() -> None:
    world = SlowStore()
    for number in range(450):
        world.deploy(f"web-{number}")
        world.autoscale(f"web-{number}")
    recommender = world.recommender()
    await tick(world, recommender)
    await tick(world, recommender)
    world.is_slow = True
    report = await recommender.save_all(within=timedelta(seconds=100))

    assert report.checkpoints_written == 100
    assert report.checkpoints_left == 350


def saved_at(checkpoint: Checkpoint) -> datetime:
    assert checkpoint.aggregate.last_update_time is not None
    return checkpoint.aggregate.last_update_time


async def test_nothing_new_is_nothing_to_save() -> None:
    world = a_world(3)
    recommender = world.recommender()
    await tick(world, recommender)
    await recommender.save_all()
    world.silent |= {f"web-{number}-0" for number in range(3)}
    report = await recommender.save_all()

    assert report.checkpoints_written == 0


async def test_f35_a_server_that_refuses_writes_is_asked_again_and_fairly() -> None:
    world = a_world(10)
    recommender = world.recommender()
    world.failing |= {"publish_status", "save_checkpoint web-3-app"}
    report = await tick(world, recommender)

    assert (report.published, len(report.problems)) == (0, 11)
    world.failing.discard("publish_status")
    report = await tick(world, recommender)
    assert report.published == 10
    for _ in range(15):
        await tick(world, recommender)
    saved = {one.autoscaler_name for one in world.checkpoints}
    assert saved == {f"web-{number}" for number in range(10)} - {"web-3"}
    world.failing.clear()
    await tick(world, recommender)
    assert world.checkpoints.find("default", "web-3-app") is not None


async def test_f35_a_slow_server_ends_the_step_and_nobody_waits_twice() -> None:
    world = SlowWorld(timedelta(seconds=5))
    for number in range(60):
        world.deploy(f"web-{number}")
        world.autoscale(f"web-{number}")
    recommender = world.recommender(update_worker_count=1)
    first = await recommender.tick()
    second = await recommender.tick()

    assert 10 <= first.published <= 14
    told = [one for one in world.autoscalers if one.recommendation]
    assert len(told) == first.published + second.published


class SlowWorld(RecommenderCluster):
    """A cluster whose server takes its time for every status."""

    def __init__(self, latency: timedelta) -> None:
        super().__init__()
        self.latency = latency

    async def publish_status(
        self,
        autoscaler: Autoscaler,
        recommendation: Sequence[ContainerRecommendation],
        conditions: Sequence[Condition],
    ) -> None:
        self.wait(self.latency)
        await super().publish_status(autoscaler, recommendation, conditions)


async def test_f28_one_object_that_cannot_be_written_stops_no_other() -> None:
    world = a_world(5)
    world.failing |= {"publish_status web-2", "workload web-4", "save_checkpoint web-1-app"}
    recommender = world.recommender()
    await tick(world, recommender)
    await recommender.save_all()
    told = {one.name for one in world.autoscalers if one.recommendation}

    assert told == {"web-0", "web-1", "web-3"}
    assert {one.autoscaler_name for one in world.checkpoints} == {"web-0", "web-2", "web-3"}


async def test_f28_a_small_move_that_is_refused_holds_up_no_other() -> None:
    world = a_world(10)
    recommender = await trickling(world)
    world.failing.add("publish_status web-0")
    reports = [await tick(world, recommender) for _ in range(20)]

    # One in each tick but for the two in which it was the turn of the one that is refused.
    assert sum(report.published for report in reports) == 18


def an_orphan(name: str, namespace: str = "default") -> Checkpoint:
    return Checkpoint(namespace, name, "app", AggregateCheckpoint())


async def test_f38_checkpoints_without_an_autoscaler_are_really_deleted() -> None:
    world = a_world()
    world.failing.add("delete_checkpoint stuck-app")
    for name in ("gone", "stuck", "web-0"):
        world.store_checkpoint(an_orphan(name))
    recommender = world.recommender()
    reports = [await tick(world, recommender) for _ in range(25)]

    assert {one.autoscaler_name for one in world.checkpoints} == {"web-0", "stuck"}
    assert sum(report.checkpoints_deleted for report in reports) == 1
    assert any(report.problems for report in reports)


async def test_f38_each_deletion_that_fails_is_told_by_its_own_name_and_tried_again() -> None:
    world = a_world()
    names = ("a", "stuck-1", "b", "stuck-2", "c")
    for name in names:
        world.store_checkpoint(an_orphan(name))
    world.failing |= {"delete_checkpoint stuck-1-app", "delete_checkpoint stuck-2-app"}
    recommender = world.recommender()
    reports = [await tick(world, recommender) for _ in range(25)]
    problems = [problem for report in reports for problem in report.problems]
    world.failing.clear()
    for _ in range(11):
        await tick(world, recommender)

    assert {(one.about, str(one.error)) for one in problems} == {
        ("default/stuck-1-app", "delete_checkpoint stuck-1-app"),
        ("default/stuck-2-app", "delete_checkpoint stuck-2-app"),
    }
    assert {one.autoscaler_name for one in world.checkpoints} == {"web-0"}


async def test_orphans_go_within_one_interval_of_the_collection() -> None:
    world = a_world()
    recommender = world.recommender(checkpoints_gc_interval=minutes(10))
    world.store_checkpoint(an_orphan("gone"))
    for _ in range(11):
        await tick(world, recommender)
    first = {one.autoscaler_name for one in world.checkpoints}
    world.store_checkpoint(an_orphan("gone-too"))
    for _ in range(10):
        await tick(world, recommender)
    second = {one.autoscaler_name for one in world.checkpoints}

    assert first == second == {"web-0"}


async def test_an_autoscaler_that_is_replaced_keeps_its_checkpoints() -> None:
    """The store does not show the new one yet; the server has it."""
    world = a_world()
    recommender = world.recommender()
    await tick(world, recommender)
    await recommender.save_all()
    world.remove_autoscaler("web-0")
    world.stall("verticalpodautoscalers")
    world.autoscale("web-0", uid="another")
    for _ in range(15):
        await tick(world, recommender)
    is_asked = world.requests["has_autoscaler"]
    world.resume()
    await tick(world, recommender)

    assert is_asked
    assert world.requests["delete_checkpoint"] == 0
    assert world.checkpoints.find("default", "web-0-app") is not None
    assert world.target("web-0")


async def test_f38_no_checkpoint_goes_while_the_server_does_not_say_that_it_is_an_orphan() -> None:
    world = a_world()
    world.store_checkpoint(an_orphan("gone"))
    world.failing.add("has_autoscaler")
    recommender = world.recommender()
    reports = [await tick(world, recommender) for _ in range(25)]
    problems = {one.about for report in reports for one in report.problems}
    kept = world.checkpoints.find("default", "gone-app")
    world.failing.clear()
    for _ in range(10):
        await tick(world, recommender)

    assert kept is not None
    assert world.requests["delete_checkpoint"] == 1
    assert problems == {"default/gone-app"}
    assert world.checkpoints.find("default", "gone-app") is None


class OverwrittenWorld(RecommenderCluster):
    """A cluster in which another process writes a checkpoint in the moment of the look."""

    async def has_autoscaler(self, name: AutoscalerName) -> bool:
        found = await super().has_autoscaler(name)
        self.store_checkpoint(an_orphan(name.name))
        return found


async def test_a_checkpoint_that_was_written_since_it_was_seen_is_not_deleted() -> None:
    world = OverwrittenWorld()
    world.store_checkpoint(an_orphan("gone"))
    recommender = world.recommender()
    reports = [await tick(world, recommender) for _ in range(12)]

    assert world.checkpoints.find("default", "gone-app") is not None
    assert [one.about for report in reports for one in report.problems] == ["default/gone-app"]


class SlowlyDeletingWorld(RecommenderCluster):
    """A cluster whose server takes its time for every deletion."""

    async def delete_checkpoint(
        self, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        self.wait(timedelta(seconds=20))
        await super().delete_checkpoint(namespace, name, resource_version)


async def test_orphans_for_which_there_was_no_time_do_not_wait_for_the_next_interval() -> None:
    world = SlowlyDeletingWorld()
    for number in range(9):
        world.store_checkpoint(an_orphan(f"gone-{number}"))
    recommender = world.recommender(update_worker_count=1, checkpoints_gc_interval=minutes(10))
    while world.requests["delete_checkpoint"] == 0:
        await tick(world, recommender)
    begun = world.clock.now()
    deleted = [(await tick(world, recommender)).checkpoints_deleted for _ in range(2)]

    assert deleted == [3, 3]
    assert world.clock.now() - begun < minutes(5)
    assert list(world.checkpoints) == []


@pytest.mark.parametrize(
    "unreadable",
    [
        pytest.param(Unreadable("default", "gone", DecodeError("", "odd")), id="the one it is of"),
        pytest.param(Unreadable("", "", DecodeError("", "odd")), id="nobody knows which"),
    ],
)
async def test_checkpoints_of_autoscalers_that_cannot_be_read_are_never_deleted(
    unreadable: Unreadable,
) -> None:
    world = a_world()
    world.store_checkpoint(an_orphan("gone"))
    world.truth.autoscalers.spoil(unreadable)
    recommender = world.recommender()
    for _ in range(30):
        await tick(world, recommender)

    assert world.checkpoints.find("default", "gone-app") is not None


async def test_f37_checkpoints_of_other_namespaces_are_left_alone() -> None:
    world = a_world()
    world.store_checkpoint(an_orphan("gone", "elsewhere"))
    recommender = world.recommender(ignored_namespaces=frozenset({"elsewhere"}))
    for _ in range(30):
        await tick(world, recommender)

    assert world.checkpoints.find("elsewhere", "gone-app") is not None


async def test_a_change_of_the_spec_is_acknowledged() -> None:
    world = a_world()
    recommender = world.recommender()
    await tick(world, recommender)
    world.autoscale("web-0")
    await tick(world, recommender)
    said = world.autoscaler("web-0")

    assert said.observed_generation == said.generation == 2


async def test_a_condition_that_somebody_removed_is_put_back() -> None:
    world = a_world()
    recommender = world.recommender()
    await tick(world, recommender)
    await world.publish_conditions(world.autoscaler("web-0"), ())
    await tick(world, recommender)

    assert [one.type for one in world.autoscaler("web-0").conditions] == ["RecommendationProvided"]
