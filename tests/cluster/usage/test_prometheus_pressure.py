"""Signals of pressure over real HTTP, from a Prometheus whose answers are odd."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import numpy as np
import pytest
from cluster.usage.test_prometheus import END, tell_usage
from support.fakes.clocks import StillClock
from support.fakes.recommender_cluster import RecommenderCluster
from support.servers.prometheus import FakePrometheus, serving

from trimtab.cluster.errors import HistoryError, TooMuchHistoryError
from trimtab.cluster.usage.prometheus import Prometheus, SeriesNames
from trimtab.cluster.usage.prometheus_client import PrometheusAccess, QueryClient, QuerySettings
from trimtab.cluster.usage.prometheus_pressure import PrometheusPressure
from trimtab.core.model.estimation import Estimator, Measure, PressureSettings
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.usage.pressure import PressureReading
from trimtab.recommender.load_pressure import PressureKeeper
from trimtab.recommender.reports import PressureReport
from trimtab.recommender.settings import PressureReadSettings

THROTTLED = "container_cpu_cfs_throttled_periods_total"
WEB = {"namespace": "a", "pod": "web-0", "container": "app"}
PLACE = ("a", "web-0", "app")


def a_series(value: object, **labels: str) -> dict[str, object]:
    return {"metric": labels or WEB, "value": [END, value]}


def an_answer(*series: object) -> bytes:
    data = {"resultType": "vector", "result": list(series)}
    return json.dumps({"status": "success", "data": data}).encode()


@asynccontextmanager
async def a_source(
    fake: FakePrometheus, namespace: str = "", **settings: object
) -> AsyncIterator[PrometheusPressure]:
    fake.now = END
    given = QuerySettings(fake.address, **settings)  # type: ignore[arg-type]
    client = QueryClient(given, PrometheusAccess(), clock=StillClock())
    source = PrometheusPressure(
        client, Prometheus(client, SeriesNames()), PressureSettings(), namespace
    )
    async with source:
        yield source


@asynccontextmanager
async def a_pressed_cluster(**bodies: bytes) -> AsyncIterator[FakePrometheus]:
    async with serving(FakePrometheus()) as fake:
        tell_usage(fake)
        fake.bodies = {f"{metric}{{": body for metric, body in bodies.items()}
        yield fake


async def test_the_containers_above_each_threshold_are_read() -> None:
    async with (
        a_pressed_cluster(
            container_cpu_cfs_throttled_periods_total=an_answer(a_series("0.5")),
            container_pressure_memory_stalled_seconds_total=an_answer(a_series("0.2")),
        ) as fake,
        a_source(fake) as source,
    ):
        found = await source.fetch()
        asked = [one["query"] for one in fake.queries if "max by" in one["query"]]

    strengths = {Measure.THROTTLED: 0.5, Measure.MEMORY_STALLED: 0.2}
    assert found.by_container == {PLACE: PressureReading(END, strengths)}
    assert len(asked) == len(Measure)
    assert asked[0].startswith("max by (namespace, pod, container) ((rate(")
    assert asked[0].endswith(">= 0.25")


async def test_only_the_one_namespace_is_asked_for() -> None:
    async with a_pressed_cluster() as fake, a_source(fake, namespace="shop") as source:
        await source.fetch()
        asked = [one["query"] for one in fake.queries if "max by" in one["query"]]

    assert all('namespace="shop"' in query for query in asked)


async def test_a_series_that_makes_no_sense_stops_no_other_one() -> None:
    odd = [
        a_series("NaN"),
        a_series("+Inf"),
        a_series("-1"),
        a_series("much"),
        a_series(7),
        a_series("0.9", namespace="a", pod="web-1"),
        a_series("0.9", namespace="", pod="web-1", container="app"),
        {"metric": WEB},
        {"metric": {"namespace": 5}, "value": [END, "0.9"]},
        "text",
        None,
    ]
    async with (
        a_pressed_cluster(
            container_cpu_cfs_throttled_periods_total=an_answer(*odd, a_series("0.5"))
        ) as fake,
        a_source(fake) as source,
    ):
        found = await source.fetch()

    assert found.by_container == {PLACE: PressureReading(END, {Measure.THROTTLED: 0.5})}
    assert found.unreadable == len(odd)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b"<html>", HistoryError, id="no JSON"),
        pytest.param(b'{"status":"success"}', HistoryError, id="no result"),
        pytest.param(
            an_answer(*[a_series("0.5", **WEB, filler="x" * 1000)] * 10_000),
            TooMuchHistoryError,
            id="ten megabytes",
        ),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error(
    body: bytes, error: type[Exception]
) -> None:
    async with (
        a_pressed_cluster(container_cpu_cfs_throttled_periods_total=body) as fake,
        a_source(fake, most_bytes=2**20) as source,
    ):
        with pytest.raises(error):
            await source.fetch()


async def test_a_failing_or_slow_server_leaves_the_last_good_answer() -> None:
    settings = RecommendationSettings(estimator=Estimator.COST)
    cluster = RecommenderCluster()
    cluster.deploy()
    cluster.autoscale()
    recommender = cluster.recommender(recommendations=settings)
    await recommender.tick()
    said = an_answer(a_series("0.5", namespace="default", pod="web-0", container="app"))
    async with (
        a_pressed_cluster(container_cpu_cfs_throttled_periods_total=said) as fake,
        a_source(fake) as source,
    ):
        keeper = PressureKeeper(
            source,
            cluster.clock,
            PressureReadSettings(timeout=timedelta(seconds=0.3)),
        )
        await keeper.read()
        good = keeper.load(recommender.state)
        fake.delay = 3600
        await keeper.read()
        slow = keeper.load(recommender.state)
        fake.delay, fake.refusal, fake.bodies = 0, (500, "out of order"), {}
        await keeper.read()
        failed = keeper.load(recommender.state)

    assert good.pressure == PressureReport(reads=1, containers=1)
    assert slow.pressure == failed.pressure == PressureReport(failures=1)
    assert "0.3 s" in str(slow.problems[0].error)
    assert "500" in str(failed.problems[0].error)
    usage = recommender.state.usage
    rows = usage.find_containers(["default"], ["web-0"], ["app"])
    assert usage.containers.pressure.at(rows, np.array([END]), 300).max() == 0.5
