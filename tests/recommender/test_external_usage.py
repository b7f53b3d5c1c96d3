"""Which pods are asked for where usage comes pod by pod, and what becomes of the answers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs
from support.fakes.recommender_cluster import RecommenderCluster
from support.makers.records import MIB, a_container
from support.makers.usage import a_selector

from trimtab.api.usage.external_metrics import PodGroup
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.errors import ClusterError
from trimtab.core.model.pods import PodPhase
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector
from trimtab.recommender.controller import MOST_TOLD, Recommender
from trimtab.recommender.load_usage import ExternalUsage
from trimtab.recommender.settings import RecommenderSettings


class Measured:
    """Usage of the pods that it is asked for."""

    def __init__(self, world: RecommenderCluster) -> None:
        self.world = world
        self.asked: list[PodGroup] = []
        self.problems: tuple[Exception, ...] = ()
        self.failure: ClusterError | None = None

    async def fetch(self, groups: Sequence[PodGroup]) -> UsageColumns:
        self.asked = list(groups)
        if self.failure is not None:
            raise self.failure
        now = self.world.clock.now().timestamp()
        pods = [(group.namespace, pod) for group in groups for pod in group.pods]
        rows = [(*pod, "app", now, 100, 0, True, False) for pod in pods]
        rows += [(*pod, "app", now, 0, 300 * MIB, False, True) for pod in pods]
        return replace(UsageColumns(*zip(*rows, strict=True)), problems=self.problems)


class Watched:
    """A recommender whose usage is measured elsewhere."""

    def __init__(self, world: RecommenderCluster, **settings: object) -> None:
        self.measured = Measured(world)
        source = ExternalUsage(self.measured, lambda: self.recommender.state)
        given = RecommenderSettings(**settings)  # type: ignore[arg-type]
        self.recommender = Recommender(world, source, settings=given, clock=world.clock)

    def asked(self) -> set[tuple[str, Selector, tuple[str, ...]]]:
        groups = self.measured.asked
        return {(group.namespace, group.selector, group.pods) for group in groups}


@pytest.fixture
async def world() -> RecommenderCluster:
    made = RecommenderCluster()
    made.deploy(replicas=2)
    made.autoscale()
    return made


async def test_pods_are_asked_for_by_the_selector_of_their_autoscaler(
    world: RecommenderCluster,
) -> None:
    world.deploy("db", namespace="other")
    world.autoscale("db", namespace="other")
    world.deploy("alone")
    watched = Watched(world)
    await watched.recommender.tick()

    assert watched.asked() == {
        ("default", a_selector(app="web"), ("web-0", "web-1")),
        ("other", a_selector(app="db"), ("db-0",)),
    }
    assert world.target()[Resource.CPU] >= 100
    assert world.target()[Resource.MEMORY] >= 300 * MIB


async def test_a_pod_that_two_autoscalers_learn_from_is_asked_for_once(
    world: RecommenderCluster,
) -> None:
    world.autoscale("twin", target=world.autoscaler().target)
    watched = Watched(world)
    await watched.recommender.tick()

    assert watched.asked() == {("default", a_selector(app="web"), ("web-0", "web-1"))}
    assert world.target() == world.target("twin") != {}


async def test_pods_that_do_not_run_or_are_not_ours_are_not_asked_for(
    world: RecommenderCluster,
) -> None:
    world.put_pod(structs.replace(world.pod("web-1"), phase=PodPhase.SUCCEEDED))
    world.deploy("theirs", a_container())
    world.autoscale("theirs", recommenders=("somebody-else",))
    watched = Watched(world)
    await watched.recommender.tick()

    assert watched.asked() == {("default", a_selector(app="web"), ("web-0",))}


async def test_parts_that_cannot_be_read_are_told_and_the_rest_teaches(
    world: RecommenderCluster,
) -> None:
    watched = Watched(world)
    watched.measured.problems = tuple(ValueError(str(number)) for number in range(100))
    report = await watched.recommender.tick()

    assert report.cpu.accepted == report.memory.accepted == 2
    assert len(report.problems) == MOST_TOLD
    assert world.target()


async def test_f13_external_metrics_that_are_gone_freeze_targets(world: RecommenderCluster) -> None:
    watched = Watched(world)
    await watched.recommender.tick()
    before = world.target()
    watched.measured.failure = ClusterError("gone")
    for _ in range(60):
        world.wait()
        report = await watched.recommender.tick()

    assert world.target() == before
    assert [problem.about for problem in report.problems] == ["usage"]
    assert world.condition("UsageStale") is not None
