"""What is told of a tick: an event for each decision, with what it was about."""

import pytest
import structlog
from structlog.typing import EventDict
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import minutes

from trimtab.recommender import logs
from trimtab.recommender.controller import Recommender
from trimtab.recommender.reports import TickResult


async def tell_of_tick(world: RecommenderCluster, recommender: Recommender) -> list[EventDict]:
    with structlog.testing.capture_logs() as told:
        at = world.clock.now()
        logs.log_tick(TickResult(at, await recommender.tick()), recommender.state)
    world.wait(minutes(1))
    return list(told)


@pytest.fixture
async def world() -> RecommenderCluster:
    made = RecommenderCluster()
    made.deploy()
    made.autoscale()
    made.loads[""] = Load(cpu=500, memory=1e9)
    return made


def test_history_is_told_with_how_it_is_labelled() -> None:
    with structlog.testing.capture_logs() as told:
        logs.log_history(3, {"job": "kubelet"})

    assert told == [
        {"event": "history read", "log_level": "info", "namespaces": 3, "job": "kubelet"}
    ]


async def test_a_new_target_is_told_with_its_autoscaler_and_its_amounts(
    world: RecommenderCluster,
) -> None:
    first, last = await tell_of_tick(world, world.recommender())

    assert first == {
        "event": "recommendation published",
        "log_level": "info",
        "autoscaler": "default/web",
        "targets": {"app": {"cpu": "587m", "memory": "1168723596"}},
    }
    assert (last["event"], last["published"], last["cpu_samples"]) == ("tick done", 1, 1)


async def test_a_status_whose_targets_stay_is_not_worth_much_talk(
    world: RecommenderCluster,
) -> None:
    recommender = world.recommender()
    await tell_of_tick(world, recommender)
    world.autoscale()
    told = await tell_of_tick(world, recommender)

    assert [(one["event"], one["log_level"]) for one in told] == [
        ("status published", "debug"),
        ("tick done", "info"),
    ]


async def test_what_went_wrong_is_told_with_the_step_and_what_it_was_about(
    world: RecommenderCluster,
) -> None:
    world.failing.add("publish_status")
    told = await tell_of_tick(world, world.recommender())

    (problem,) = [one for one in told if one["log_level"] == "warning"]
    assert (problem["event"], problem["step"]) == ("step incomplete", "UpdateVPAs")
    assert problem["about"] == "default/web"
    assert "publish_status" in problem["error"]


async def test_where_much_goes_wrong_some_is_told_and_the_rest_counted(
    world: RecommenderCluster,
) -> None:
    for number in range(logs.MOST_PROBLEMS + 3):
        world.deploy(f"more-{number}")
        world.autoscale(f"more-{number}")
    world.failing.add("publish_status")
    told = await tell_of_tick(world, world.recommender())

    problems = [one for one in told if one["event"] == "step incomplete"]
    assert len(problems) == logs.MOST_PROBLEMS + 1
    assert (problems[-1]["step"], problems[-1]["left_out"]) == ("UpdateVPAs", 4)


async def test_a_tick_that_saw_nothing_is_no_news(world: RecommenderCluster) -> None:
    world.view_age = None
    told = await tell_of_tick(world, world.recommender())

    assert [one["log_level"] for one in told] == ["debug"]


async def test_what_was_saved_at_the_end_is_told(world: RecommenderCluster) -> None:
    recommender = world.recommender()
    await recommender.tick()
    world.wait(minutes(1))
    await recommender.tick()
    with structlog.testing.capture_logs() as told:
        logs.log_saving(await recommender.save_all())

    (said,) = told
    assert (said["event"], said["written"], said["unsaved"]) == ("checkpoints saved", 1, 0)


async def test_how_much_could_not_be_saved_at_the_end_is_a_warning(
    world: RecommenderCluster,
) -> None:
    recommender = world.recommender()
    await recommender.tick()
    world.wait(minutes(1))
    await recommender.tick()
    with structlog.testing.capture_logs() as told:
        logs.log_saving(await recommender.save_all(within=minutes(0)))

    assert [(one["event"], one["unsaved"], one["log_level"]) for one in told] == [
        ("checkpoints unsaved", 1, "warning"),
        ("checkpoints saved", 1, "info"),
    ]
