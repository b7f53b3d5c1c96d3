"""Prometheus over real and fake usage: the series that history is read from are there."""

import asyncio
import secrets
from contextlib import suppress

import pytest
from support.stages.components import SLOW_SECONDS

from rig import prometheus, workers
from rig.controlplane import ControlPlane
from rig.node import Node
from rig.prometheus import Prometheus
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import HistoryError
from trimtab.cluster.usage.prometheus import Prometheus as PrometheusSeries
from trimtab.cluster.usage.prometheus import SeriesNames
from trimtab.cluster.usage.prometheus_client import PrometheusAccess, QueryClient, QuerySettings
from trimtab.cluster.usage.prometheus_pressure import PrometheusPressure
from trimtab.core.model.estimation import Measure, PressureSettings
from trimtab.core.usage.pressure import PressureReadings

pytestmark = pytest.mark.e2e

USAGE = {"kwok.x-k8s.io/usage-cpu": "250m", "kwok.x-k8s.io/usage-memory": "64Mi"}


def test_the_usage_of_a_fake_pod_can_be_queried_as_annotated(
    cluster: ControlPlane, namespace: str, fake_prometheus: Prometheus
) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": USAGE},
        "spec": {"containers": [{"name": "app", "image": "none"}]},
    }
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", manifest)
    selected = f'{{namespace="{namespace}",container="app"}}'
    (memory,) = fake_prometheus.wait_for(f"container_memory_working_set_bytes{selected}", bool)
    (cpu,) = fake_prometheus.wait_for(
        f"irate(container_cpu_usage_seconds_total{selected}[1m])",
        lambda found: found and found[0].value > 0,
    )

    assert memory.value == 64 * 2**20
    assert memory.labels["pod"] == "web"
    assert memory.labels["job"] == "fake-usage"
    # The difference of two readings, each of them late by as much as the machine is.
    assert cpu.value == pytest.approx(0.25, rel=0.5)


def test_the_figures_of_a_component_can_be_queried_while_it_is_scraped(
    cluster: ControlPlane, fake_prometheus: Prometheus
) -> None:
    job = f"apiserver-{secrets.token_hex(2)}"
    server = prometheus.Target(job, f"127.0.0.1:{cluster.port}", is_secure=True)
    with fake_prometheus.scraping(server):
        (found,) = fake_prometheus.wait_for(f'up{{job="{job}"}}', bool)
        requests = fake_prometheus.query(f'sum(apiserver_request_total{{job="{job}"}})')

    assert found.value == 1
    assert requests[0].value > 0


def test_the_usage_of_a_real_container_can_be_queried(
    node_cluster: Node, node_namespace: str, node_prometheus: Prometheus
) -> None:
    busy = workers.pod("busy", workers.container("-cpu=200"))
    node_cluster.plane.create(f"/api/v1/namespaces/{node_namespace}/pods", busy)
    selected = f'{{namespace="{node_namespace}",pod="busy",container="app"}}'
    (counted,) = node_prometheus.wait_for(
        f"container_cpu_usage_seconds_total{selected}",
        lambda found: found and found[0].value > 0,
    )
    (memory,) = node_prometheus.wait_for(f"container_memory_working_set_bytes{selected}", bool)

    assert counted.labels["job"] == "kubernetes-cadvisor"
    assert memory.value > 0


async def test_our_source_of_pressure_sees_what_the_kernel_throttles(
    node_cluster: Node, node_namespace: str, node_prometheus: Prometheus
) -> None:
    limits = {"cpu": "50m", "memory": "128Mi"}
    busy = workers.pod("busy", workers.container("-cpu=500", requests=limits, limits=limits))
    node_cluster.plane.create(f"/api/v1/namespaces/{node_namespace}/pods", busy)
    settings = QuerySettings(node_prometheus.address)
    client = QueryClient(settings, PrometheusAccess(), clock=RealClock())
    series = PrometheusSeries(client, SeriesNames())
    found: PressureReadings = PressureReadings()
    async with PrometheusPressure(client, series, PressureSettings(), node_namespace) as source:
        async with asyncio.timeout(SLOW_SECONDS):
            while not found:
                # Until the first scrape there is nothing to find labels in.
                with suppress(HistoryError):
                    found = await source.fetch()
                await asyncio.sleep(3)

    (place,) = found.by_container
    assert place == (node_namespace, "busy", "app")
    assert found.by_container[place].strengths[Measure.THROTTLED] > 0.5
