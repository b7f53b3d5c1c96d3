"""A backtest of what runs in a cluster: its pods by selector, their past from Prometheus."""

import asyncio
import json
import time

import pytest
from e2e.worlds import World, a_template
from support.servers.prometheus import FakePrometheus, serving
from support.stages.components import install

from rig.controlplane import ControlPlane
from trimtab.cli.main import main

pytestmark = pytest.mark.e2e


def test_only_workloads_whose_pods_the_selector_picks_are_replayed(
    cluster: ControlPlane, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    install(cluster)
    world = World(cluster, namespace)
    template = a_template(cpu="20m", memory="100Mi")
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "20m"}}
    world.deploy(template)
    found = cluster.wait_for(f"/api/v1/namespaces/{namespace}/pods", lambda told: told["items"])
    pod = found["items"][0]["metadata"]["name"]
    fake = FakePrometheus(now=time.time())
    for name in (pod, "other-0"):
        labels = {"namespace": namespace, "pod": name, "container": "app", "job": "kubelet"}
        moments = [fake.now + 300.0 * each for each in range(-300, 1)]
        counter = {moment: moment - moments[0] for moment in moments}
        fake.tell("container_cpu_usage_seconds_total", labels, counter)
        fake.tell("container_memory_working_set_bytes", labels, dict.fromkeys(moments, 1e9))

    async def replay(selector: str) -> int:
        async with serving(fake):
            arguments = ["--namespace", namespace, "--prometheus-address", fake.address]
            arguments += ["--kubeconfig", str(cluster.kubeconfig), "--selector", selector]
            arguments += ["--days", "1", "--policy", "today", "--per-workload", "--format", "json"]
            return await asyncio.to_thread(main, ["backtest", "--jobs", "1", *arguments])

    code = asyncio.run(replay("app=web"))
    rows = json.loads(capsys.readouterr().out)
    refused = asyncio.run(replay("app=(web"))

    assert code == 0
    assert [row["workload"] for row in rows] == [None, f"{namespace}/web/app"]
    # It needs a whole core, and requests a fiftieth of it.
    assert [row["scenario"] for row in rows] == ["as-is", "as-is"]
    assert rows[1]["cpu_short_area"] == pytest.approx(0.98, abs=0.001)
    assert refused == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("trimtab: ")
