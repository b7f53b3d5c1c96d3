"""The recommender's metrics: their names are the original's, and they follow its ticks."""

import re
from dataclasses import dataclass

import pytest
from prometheus_client import REGISTRY, generate_latest
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, a_container, amounts, minutes
from support.readers.metrics_page import differences

from reference.original_metrics import RECOMMENDER
from trimtab.cli.runtime.pages import format_metrics
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.pods import Allocation, ContainerKind
from trimtab.recommender.controller import Recommender
from trimtab.recommender.metrics import RecommenderMeter, note_query
from trimtab.recommender.reports import ResourceSource, TickResult

TICKS = 'vpa_recommender_execution_latency_seconds_count{step="total"}'


def read_all() -> dict[str, float]:
    text = generate_latest(REGISTRY).decode()
    return {
        name: float(value) for name, value in re.findall(r"^(\w\S*) (\S+)$", text, re.MULTILINE)
    }


@dataclass
class Metered:
    """A recommender whose ticks are counted, and what has grown: metrics outlive tests."""

    world: RecommenderCluster
    recommender: Recommender
    meter: RecommenderMeter
    before: dict[str, float]

    async def tick(self) -> None:
        at = self.world.clock.now()
        self.meter.note(TickResult(at, await self.recommender.tick()), self.recommender.state)
        self.world.wait(minutes(1))

    def grown(self, series: str) -> float:
        return read_all().get(series, 0.0) - self.before.get(series, 0.0)


@pytest.fixture
async def metered() -> Metered:
    world = RecommenderCluster()
    world.deploy(replicas=2)
    world.autoscale()
    return Metered(world, world.recommender(), RecommenderMeter(), read_all())


def objects(**labels: str) -> float:
    usual = {"api": "v1", "unsupported_config": "false"}
    value = REGISTRY.get_sample_value("vpa_recommender_vpa_objects_count", usual | labels)
    assert value is not None
    return value


async def test_every_metric_is_what_it_is_in_the_original(metered: Metered) -> None:
    world = metered.world
    world.silent.add("web-1")
    await metered.tick()
    world.silent.clear()
    world.loads[""] = Load(cpu=400, memory=900 * MIB)
    await metered.tick()
    world.loads[""] = Load(cpu=10, memory=100 * MIB)
    world.kill("web-0")
    await metered.tick()
    world.deploy("new")
    world.autoscale("new")
    await metered.tick()
    note_query(200, "get", minutes(1))

    assert differences(format_metrics().decode(), RECOMMENDER) == {}


def test_queries_for_history_are_counted_by_their_status() -> None:
    name = "vpa_recommender_prometheus_client_api_requests"
    before = read_all()
    note_query(503, "get", minutes(1))
    after = read_all()
    labels = '{code="503",method="get"}'
    grown = {
        series: after[series] - before.get(series, 0.0)
        for series in (f"{name}_count{labels}", f"{name}_duration_seconds_sum{labels}")
    }

    assert grown == {f"{name}_count{labels}": 1, f"{name}_duration_seconds_sum{labels}": 60}


async def test_resources_are_counted_by_where_they_were_read(metered: Metered) -> None:
    sidecar = a_container(name="proxy", kind=ContainerKind.SIDECAR)
    told = a_container(name="told", requests=amounts(1), status=Allocation(amounts(1)))
    metered.world.start("web-2", told, sidecar)
    await metered.tick()
    await metered.tick()

    counts = {
        source: metered.grown(f'vpa_resources_get_resources_count{{source="{source}"}}')
        for source in ResourceSource
    }
    assert counts == {
        ResourceSource.STATUS: 1,
        ResourceSource.SIDECAR_STATUS: 0,
        ResourceSource.SPEC: 2,
        ResourceSource.SIDECAR_SPEC: 1,
    }


async def test_a_tick_is_timed_by_step_and_as_a_whole(metered: Metered) -> None:
    await metered.tick()
    await metered.tick()

    assert metered.grown(TICKS) == 2
    step = 'vpa_recommender_execution_latency_seconds_count{step="LoadVPAs"}'
    assert metered.grown(step) == 2


async def test_samples_are_counted_by_what_became_of_them(metered: Metered) -> None:
    metered.world.read_at = metered.world.clock.now()
    await metered.tick()
    await metered.tick()

    series = 'vpa_recommender_samples_total{{kind="cpu",outcome="{}"}}'
    assert metered.grown(series.format("accepted")) == 2
    assert metered.grown(series.format("outdated")) == 2


async def test_usage_that_cannot_be_read_counts_as_an_error(metered: Metered) -> None:
    await metered.tick()
    metered.world.failing.add("fetch")
    await metered.tick()

    series = (
        "vpa_recommender_metric_server_responses"
        '{{client_name="default-metrics-client",is_error="{}"}}'
    )
    assert metered.grown(series.format("false")) == 1
    assert metered.grown(series.format("true")) == 1
    assert metered.grown('vpa_recommender_problems_total{step="LoadMetrics"}') == 1


async def test_autoscalers_are_counted_by_kind_and_anew_in_each_tick(metered: Metered) -> None:
    metered.world.autoscale("lost", mode=UpdateMode.OFF)
    await metered.tick()
    served = objects(update_mode="Recreate", has_recommendation="true", matches_pods="true")
    lost = {"update_mode": "Off", "has_recommendation": "false", "matches_pods": "false"}
    before = objects(**lost, unsupported_config="true")
    metered.world.remove_autoscaler("lost")
    await metered.tick()

    assert (served, before) == (1, 1)
    assert objects(**lost, unsupported_config="true") == 0


async def test_the_first_recommendation_is_timed_once(metered: Metered) -> None:
    metered.world.wait(minutes(3))
    await metered.tick()
    await metered.tick()

    prefix = "vpa_recommender_recommendation_latency_seconds"
    assert metered.grown(f"{prefix}_count") == 1
    assert metered.grown(f"{prefix}_sum") == 180


async def test_a_first_recommendation_that_the_store_does_not_show_yet_is_timed_once(
    metered: Metered,
) -> None:
    metered.world.stall("verticalpodautoscalers")
    await metered.tick()
    metered.world.loads[""] = Load(cpu=4000)
    await metered.tick()

    assert metered.world.requests["publish_status"] == 2
    assert metered.grown("vpa_recommender_recommendation_latency_seconds_count") == 1


async def test_a_recommendation_from_before_a_restart_is_not_timed_again(metered: Metered) -> None:
    await metered.tick()
    again = Metered(metered.world, metered.world.recommender(), RecommenderMeter(), read_all())
    await again.tick()

    assert again.grown("vpa_recommender_recommendation_latency_seconds_count") == 0


async def test_what_is_known_and_written_is_counted(metered: Metered) -> None:
    await metered.tick()

    assert read_all()["vpa_recommender_aggregate_container_states_count"] == 1
    assert metered.grown("vpa_recommender_statuses_published_total") == 1
    assert metered.grown('vpa_recommender_checkpoints_total{outcome="written"}') == 1


async def test_a_tick_that_saw_nothing_or_failed_is_not_timed(metered: Metered) -> None:
    metered.world.view_age = None
    await metered.tick()
    failed = TickResult(metered.world.clock.now(), failure=ValueError("odd"))
    metered.meter.note(failed, metered.recommender.state)

    assert metered.grown(TICKS) == 0
    assert metered.grown("vpa_recommender_failed_ticks_total") == 1
