"""Whom a recommender serves, which pods it tracks, and what it says of targets and conflicts."""

import asyncio
from datetime import timedelta

import pytest
from support.fakes.recommender_cluster import RecommenderCluster
from support.makers.records import NOW, minutes
from support.makers.usage import a_selector

from trimtab.core.model.autoscalers import TargetReference
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.pods import PodPhase
from trimtab.core.model.validation import SettingsError
from trimtab.recommender.settings import RecommenderSettings


@pytest.mark.parametrize(
    ("settings", "fields", "is_served"),
    [
        pytest.param({}, {}, True, id="nobody is named"),
        pytest.param({}, {"recommenders": ("default",)}, True, id="the default one is named"),
        pytest.param({}, {"recommenders": ("other",)}, False, id="another one is named"),
        pytest.param({"name": "other"}, {}, False, id="another one serves only who names it"),
        pytest.param({"name": "b"}, {"recommenders": ("a", "b")}, True, id="one of two is named"),
        pytest.param({"namespace": "default"}, {}, True, id="the only namespace"),
        pytest.param({"namespace": "other"}, {}, False, id="outside the only namespace"),
        pytest.param(
            {"ignored_namespaces": frozenset({"default"})}, {}, False, id="an ignored namespace"
        ),
    ],
)
async def test_a_recommender_serves_whoever_names_it_where_it_looks(
    settings: dict[str, object], fields: dict[str, object], *, is_served: bool
) -> None:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale("web", **fields)  # type: ignore[arg-type]
    report = await world.recommender(**settings).tick()

    assert report.autoscalers == is_served
    assert bool(world.target()) is is_served
    assert world.autoscaler().conditions == () or is_served


@pytest.mark.parametrize(
    "fields",
    [
        {"interval": timedelta()},
        {"checkpoint_rotation": -minutes(1)},
        {"update_worker_count": 0},
        {"oom_ceiling_bytes": 0},
        {"namespace": "a", "ignored_namespaces": frozenset({"b"})},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        RecommenderSettings(**fields)  # type: ignore[arg-type]


def test_the_defaults_are_those_of_the_original_s_flags() -> None:
    settings = RecommenderSettings()

    assert settings.name == "default"
    assert settings.interval == minutes(1)
    assert settings.checkpoints_timeout == minutes(1)
    assert settings.checkpoints_gc_interval == minutes(10)
    assert settings.update_worker_count == 10
    assert settings.memory_saver is False


async def test_the_memory_saver_tracks_only_pods_that_an_autoscaler_is_for() -> None:
    world = RecommenderCluster()
    world.deploy("web", replicas=2)
    world.deploy("lone", replicas=3)
    world.autoscale("web")
    thrifty = world.recommender(memory_saver=True)

    assert (await world.recommender().tick()).pods == 5
    assert (await thrifty.tick()).pods == 2
    world.autoscale("lone")
    assert (await thrifty.tick()).pods == 5
    world.remove_deployments()
    assert (await thrifty.tick()).pods == 5


async def test_pods_that_wait_for_a_place_are_not_tracked() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.start("web-1", phase=PodPhase.PENDING)

    assert (await world.recommender().tick()).pods == 1


async def test_f37_pods_outside_the_only_namespace_cost_nothing() -> None:
    world = RecommenderCluster()
    world.deploy()
    for number in range(20):
        world.deploy(namespace=f"other-{number}")
    report = await world.recommender(namespace="default").tick()

    assert (report.pods, report.cpu.accepted) == (1, 1)


async def test_a_target_that_somebody_owns_is_not_supported() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.own("Rollout", "web")
    world.autoscale()
    await world.recommender().tick()
    condition = world.condition("ConfigUnsupported")

    assert condition is not None
    assert condition.reason == "TargetNotTopmost"
    assert world.target() == {}


async def test_a_target_that_somebody_comes_to_own_keeps_its_recommendation() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale()
    recommender = world.recommender()
    await recommender.tick()
    before = world.target()
    world.own("Rollout", "web")
    world.wait()
    await recommender.tick()
    condition = world.condition("ConfigUnsupported")

    assert before != {}
    assert world.target() == before
    assert condition is not None


async def test_a_selector_takes_part_of_the_pods_and_none_while_its_gate_is_off() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.start("web-1", labels={"role": "leader"})
    world.autoscale(selector=a_selector(role="leader"))
    world.silent.add("web-1")
    await world.recommender().tick()
    off = RecommenderCluster()
    off.deploy()
    off.autoscale(selector=a_selector(app="web"))
    await off.recommender(gates=FeatureGates(pod_selector=False)).tick()
    provided, unsupported = (
        world.condition("RecommendationProvided"),
        off.condition("ConfigUnsupported"),
    )

    assert provided is not None
    assert provided.reason == "NoSamples"
    assert unsupported is not None
    assert unsupported.reason == "SelectorDisabled"


async def test_a_selector_changed_while_nobody_looked_starts_a_new_history() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale()
    recommender = world.recommender()
    for _ in range(5):
        await recommender.tick()
        world.wait()
    await recommender.save_all()
    world.autoscale(selector=a_selector(app="web"))
    restarted = world.recommender()
    await restarted.tick()
    await restarted.save_all()

    assert world.checkpoint().aggregate.total_samples_count == 1
    assert world.checkpoint().fingerprint is not None


async def test_f45_two_autoscalers_of_the_same_pods_are_both_told() -> None:
    world = RecommenderCluster()
    world.deploy()
    target = TargetReference("Deployment", "web", "apps/v1")
    world.autoscale("first", target=target, created_at=NOW - minutes(9))
    world.autoscale("second", target=target)
    world.autoscale("apart", target=target, selector=a_selector(role="leader"))
    recommender = world.recommender()
    await recommender.tick()
    stronger, weaker = (
        world.condition("ConfigConflict", "first"),
        world.condition("ConfigConflict", "second"),
    )

    assert stronger is not None
    assert "second" in stronger.message
    assert weaker is not None
    assert "left to first" in weaker.message
    assert world.condition("ConfigConflict", "apart") is None
    world.remove_autoscaler("second")
    await recommender.tick()
    assert world.condition("ConfigConflict", "first") is None


async def test_an_autoscaler_without_pods_says_so_and_keeps_its_recommendation() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale()
    recommender = world.recommender()
    await recommender.tick()
    before = world.target()
    world.end("web-0")
    world.wait()
    await recommender.tick()
    empty, provided = world.condition("NoPodsMatched"), world.condition("RecommendationProvided")

    assert empty is not None
    assert provided is not None
    assert (empty.status, provided.status) == ("True", "True")
    assert world.target() == before


async def test_run_ticks_at_once_and_a_failing_tick_does_not_end_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = BrokenWorld()
    world.deploy()
    world.autoscale()
    recommender = world.recommender()
    running = asyncio.create_task(recommender.run())
    await world.tick_done()
    failed = recommender.last_result
    first = world.clock.now()
    world.is_broken = False
    for _ in range(3):
        await world.tick_done()
    worked = recommender.last_result
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert first - NOW <= minutes(1)
    assert failed is not None
    assert isinstance(failed.failure, ZeroDivisionError)
    assert worked is not None
    assert worked.failure is None
    assert world.target()
    assert [record.message for record in caplog.records] == ["tick failed"] * len(caplog.records)


class BrokenWorld(RecommenderCluster):
    """A cluster that meets a bug of ours."""

    is_broken = True

    def arrive(self, name: str, about: str = "") -> None:
        if self.is_broken and name == "workload":
            raise ZeroDivisionError
        super().arrive(name, about)


async def test_run_waits_until_everything_was_listed_and_then_ticks() -> None:
    world = RecommenderCluster()
    world.deploy()
    world.autoscale()
    world.view_age = None
    recommender = world.recommender()
    running = asyncio.create_task(recommender.run())
    await world.clock.nap_begun.wait()

    assert world.requests.total() == 0
    world.view_age = timedelta()
    world.clock.nap_over.set()
    await world.tick_done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert world.target()
