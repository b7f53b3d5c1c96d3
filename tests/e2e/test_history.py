"""History from a real Prometheus, over real usage and over a fake one."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from e2e.worlds import World, a_template
from support.makers.records import MIB
from support.stages.components import SLOW_SECONDS, install, running

from rig import prometheus, waiting, workers
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from rig.node import Node
from rig.prometheus import Prometheus
from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.core.model.autoscalers import Condition
from trimtab.core.model.resources import Resource

pytestmark = pytest.mark.e2e

CPU_SAMPLES = 'vpa_recommender_samples_total{kind="cpu",outcome="accepted"}'
PAST_SAMPLES = 'vpa_recommender_samples_total{kind="past_cpu",outcome="accepted"}'
QUERIES = 'vpa_recommender_prometheus_client_api_requests_count{code="200",method="get"}'
CPU = "container_cpu_usage_seconds_total"
BUCKET = 1.05
PATIENCE = 3 * SLOW_SECONDS

recommender = partial(running, "recommender")


@contextmanager
def telling_labels(world: World) -> Iterator[prometheus.Target]:
    """The labels of the pods that there are now, told as kube-state-metrics does."""
    path = f"/api/v1/namespaces/{world.namespace}/pods"
    items = world.plane.wait_for(path, lambda found: found["items"])["items"]
    names = [item["metadata"]["name"] for item in items]
    labels = 'namespace="{}",pod="{}",label_app="web",label_pod_template_hash="x"'
    lines = [f"kube_pod_labels{{{labels.format(world.namespace, name)}}} 1\n" for name in names]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write("".join(lines).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield prometheus.component("kube-state-metrics", server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def down(asked: Prometheus) -> Iterator[None]:
    """Prometheus is not there for as long as the block lasts."""
    asked.process.end()
    try:
        yield
    finally:
        asked.process.restart()
        asked.process.wait_until(asked.is_ready)


def history(asked: Prometheus, resolution: str = "10s") -> tuple[str, ...]:
    return (
        "--storage=prometheus",
        f"--prometheus-address={asked.address}",
        "--history-length=15m",
        f"--history-resolution={resolution}",
    )


def condition(world: World, kind: str) -> Condition | None:
    _, body = world.plane.request("GET", world.autoscaler)
    found = decode_autoscaler(body).conditions
    return next((one for one in found if one.type == kind), None)


def forget_everything(world: World) -> None:
    world.plane.request("DELETE", world.checkpoints)
    world.plane.wait_for(world.checkpoints, lambda found: not found["items"])
    world.forget_status()


def test_real_usage_of_pods_that_are_gone_gives_the_targets_of_before(
    node_cluster: Node, node_namespace: str, node_prometheus: Prometheus, tmp_path: Path
) -> None:
    plane = node_cluster.plane
    install(plane)
    world = World(plane, node_namespace)
    world.deploy(workers.template([workers.container("-cpu=150", "-memory=300")]))
    world.autoscale()
    with telling_labels(world) as labels, node_prometheus.scraping(labels):
        with recommender(plane.kubeconfig, tmp_path, *world.flags()) as first:
            # Enough that the start of the worker is not what the target is made of.
            waiting.wait_for(
                lambda: first.metric(CPU_SAMPLES), lambda n: n >= 11, patience_seconds=PATIENCE
            )
            before = world.wait_for_target(lambda told: len(told) == 2)
        world.stop_pods()
        forget_everything(world)
        with recommender(
            plane.kubeconfig, tmp_path, *world.flags(*history(node_prometheus))
        ) as run:
            after = world.wait_for_target(lambda told: len(told) == 2)
            # What a tick has done is told when it is over.
            past = waiting.wait_for(lambda: run.metric(PAST_SAMPLES), bool)
            live = run.metric(CPU_SAMPLES)
            queries = run.metric(QUERIES)
            log = run.process.log.read_text(encoding="utf-8")
            (told,) = node_prometheus.query(
                f'quantile_over_time(0.9, rate({CPU}{{namespace="{node_namespace}",'
                'container="app"}[1m])[15m:10s])'
            )

    assert past >= 10
    assert live == 0
    assert queries >= 4
    assert '"containers": "namespace/pod/container"' in log
    assert '"pod_labels": "kube_pod_labels label_"' in log
    # What the worker holds does not change, and its peak is the same whoever has read it.
    assert after[Resource.MEMORY] == before[Resource.MEMORY]
    assert after[Resource.MEMORY] >= 300 * MIB * 1.15
    # Within a bucket of what Prometheus itself says; windows begin and end at other moments.
    assert after[Resource.CPU] == pytest.approx(told.value * 1150, rel=BUCKET**2 - 1)
    # What was read live was read at other moments, on a machine that does much else.
    assert after[Resource.CPU] == pytest.approx(before[Resource.CPU], rel=BUCKET**4 - 1)


def test_f14_a_real_prometheus_that_comes_late_is_asked_again(
    cluster: ControlPlane, namespace: str, fake_prometheus: Prometheus, tmp_path: Path
) -> None:
    install(cluster)
    world = World(cluster, namespace)
    world.deploy(a_template(cpu="150m", memory="400Mi"))
    world.autoscale()
    # A past sample counts only where no live one covers its moment. The first live one is up to
    # a period of metrics-server old, and covers another.
    scraped = f'count_over_time(container_memory_working_set_bytes{{namespace="{namespace}"}}[5m])'
    waiting.wait_for(
        lambda: fake_prometheus.query(f"max({scraped})"),
        lambda found: found and found[0].value >= 40,
        patience_seconds=PATIENCE,
    )
    flags = world.flags(*history(fake_prometheus, "1s"))
    with ExitStack() as outage:
        outage.enter_context(down(fake_prometheus))
        with recommender(cluster.kubeconfig, tmp_path, *flags) as run:
            without = waiting.wait_for(
                lambda: condition(world, "FetchingHistory"),
                lambda found: found and found.reason == "HistoryUnavailable",
                patience_seconds=SLOW_SECONDS,
            )
            ready, past_without = run.ask("/readyz"), run.metric(PAST_SAMPLES)
            outage.close()
            waiting.wait_for(
                lambda: condition(world, "FetchingHistory"),
                lambda found: found is None,
                patience_seconds=SLOW_SECONDS,
            )
            past = waiting.wait_for(lambda: run.metric(PAST_SAMPLES), bool)
            target = world.wait_for_target(lambda told: len(told) == 2)
            log = run.process.log.read_text(encoding="utf-8")

    assert without is not None
    assert without.status == "True"
    assert fake_prometheus.address in without.message
    assert ready == (200, "OK")
    assert past_without == 0
    assert past >= 10
    # The job has another name than the usual one, and counts all the same.
    assert '"job": "(any)"' in log
    assert target[Resource.CPU] == pytest.approx(150 * 1.15, rel=0.25)
    assert 400 * MIB * 1.15 <= target[Resource.MEMORY] <= 400 * MIB * 1.15 * 1.08
