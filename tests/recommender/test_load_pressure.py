"""Pressure beside the ticks: a source never delays a tick, and what it says is shown."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import structlog
from prometheus_client import REGISTRY, generate_latest
from recommender.test_load_history import MINUTE, passes, running, virtually
from support.fakes.clocks import LoopClock
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, amounts

from trimtab.api.explain.recommendation import NumbersFrom, Origin
from trimtab.cluster.errors import ClusterError
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.estimation import Estimator, Measure, PressureKind
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import Resource
from trimtab.core.usage.pressure import PressureReading, PressureReadings
from trimtab.recommender import logs, pages
from trimtab.recommender.controller import Recommender
from trimtab.recommender.metrics import RecommenderMeter
from trimtab.recommender.reports import Step, TickReport, TickResult
from trimtab.recommender.settings import RecommenderSettings

COST = RecommenderSettings(recommendations=RecommendationSettings(estimator=Estimator.COST))
PLACE = ("default", "web-0", "app")
TEN_MINUTES = 10 * MINUTE


@dataclass
class Source:
    """A source of pressure that says what a test decides."""

    world: RecommenderCluster
    said: dict[Measure, float] = field(default_factory=dict)
    error: Exception | None = None
    is_silent: bool = False
    reads: int = 0

    async def fetch(self) -> PressureReadings:
        self.reads += 1
        if self.is_silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        if not self.said:
            return PressureReadings()
        return PressureReadings(
            {PLACE: PressureReading(self.world.clock.now().timestamp(), self.said)}
        )


@dataclass
class Scene:
    world: RecommenderCluster
    source: Source
    recommender: Recommender
    reports: list[TickReport]

    def problems(self) -> list[Step]:
        return [each.step for report in self.reports for each in report.problems]


@asynccontextmanager
async def a_scene(settings: RecommenderSettings = COST) -> AsyncIterator[Scene]:
    """A container whose limits are its requests: one core and 1 GiB, and that started long ago."""
    world = RecommenderCluster()
    world.clock = LoopClock()  # type: ignore[assignment]
    size = amounts(1000, 1024 * MIB)
    world.deploy(replicas=0)
    long_ago = world.clock.now() - 1000 * MINUTE
    world.start(
        "web-0",
        a_container(requests=size, limits=size),
        created_at=long_ago,
        started_at=long_ago,
        ready_since=long_ago,
    )
    world.autoscale()
    world.loads = {"": Load(cpu=700, memory=300 * MIB)}
    source, reports = Source(world), list[TickReport]()
    meter = RecommenderMeter()

    def report(result: TickResult) -> None:
        assert result.report is not None
        reports.append(result.report)
        logs.log_tick(result, recommender.state)
        meter.note(result, recommender.state)

    recommender = Recommender(world, world, settings=settings, clock=world.clock, report=report)
    recommender.read_pressure(source)
    async with running(recommender):
        yield Scene(world, source, recommender, reports)


def signal_count(kind: PressureKind) -> float:
    text = generate_latest(REGISTRY).decode()
    name = f'vpa_recommender_pressure_signals_total{{kind="{kind}"}}'
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@virtually
async def test_a_signal_raises_the_target_and_is_explained_logged_and_counted() -> None:
    before = signal_count(PressureKind.CPU_THROTTLED)
    with structlog.testing.capture_logs() as told:
        async with a_scene() as scene:
            await passes(2 * TEN_MINUTES)
            assert scene.world.target()[Resource.CPU] == 1000
            scene.source.said = {Measure.THROTTLED: 0.8}
            await passes(2 * TEN_MINUTES)
            state, name = scene.recommender.state, AutoscalerName("default", "web")
            origin = Origin(NumbersFrom.RECOMMENDER, scene.world.clock.now())
            page = pages.explain(state, name, COST, origin)

    assert scene.world.target()[Resource.CPU] == 1268
    assert page is not None
    (remark,) = [each for each in page.remarks if "signal" in each]
    assert "container app, signal cpu_throttled at " in remark
    assert "web-0 was throttled in 80% of its CPU periods, so cpu rose from 1 to 1268m" in remark
    (event,) = [each for each in told if each["event"] == "target raised under pressure"]
    assert (event["autoscaler"], event["pod"], event["kind"]) == (
        "default/web",
        "web-0",
        "cpu_throttled",
    )
    assert signal_count(PressureKind.CPU_THROTTLED) == before + 1


@virtually
async def test_a_source_without_an_answer_delays_no_tick() -> None:
    async with a_scene() as scene:
        scene.source.is_silent = True
        await passes(TEN_MINUTES)

    assert len(scene.reports) >= 10
    assert Step.LOAD_PRESSURE in scene.problems()
    assert scene.world.target()


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ClusterError("no route"), id="an error that is expected"),
        pytest.param(RuntimeError("a defect"), id="any other error"),
    ],
)
def test_a_source_that_fails_stops_no_tick(error: Exception) -> None:
    async def scene() -> None:
        async with a_scene() as scene:
            scene.source.error = error
            await passes(TEN_MINUTES)
        assert len(scene.reports) >= 10
        assert Step.LOAD_PRESSURE in scene.problems()
        assert scene.world.target()
        # It is asked again once it may have recovered.
        assert scene.source.reads >= 8

    virtually(scene)()


@virtually
async def test_nothing_is_read_for_percentiles() -> None:
    async with a_scene(RecommenderSettings()) as scene:
        await passes(TEN_MINUTES)

    assert scene.source.reads == 0
