"""The real command beside a small cluster that only shows."""

import asyncio
import csv
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.readers.terminal import Seen, in_terminal
from support.servers.prometheus import FakePrometheus
from support.servers.prometheus import serving as serving_prometheus
from support.servers.read_only_cluster import ReadOnlyCluster, served

from trimtab.cli.main import main

TRIMTAB = Path(sys.executable).parent / "trimtab"
QUICK = ("--watch-for", "0s", "--min-samples", "1")
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Report = Callable[..., Awaitable[Done]]
NO_USAGE = (
    "trimtab: no usage is known of any container; watch for longer (--watch-for), or read what was"
    " (--prometheus-address)\n"
)


@pytest.fixture
def report(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    told: StringIO,
) -> Report:
    """The command beside a cluster, without the time that a process of its own takes."""
    assert told is not None
    monkeypatch.setenv("COLUMNS", "80")

    async def run(cluster: ReadOnlyCluster, *arguments: str) -> Done:
        async with served(cluster, tmp_path) as kubeconfig:
            given = ["report", "--kubeconfig", str(kubeconfig), *QUICK, *arguments]
            code = await asyncio.to_thread(main, given)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


async def _show(cluster: ReadOnlyCluster, folder: Path, *arguments: str) -> Seen:
    async with served(cluster, folder) as kubeconfig:
        command = [str(TRIMTAB), "report", "--kubeconfig", str(kubeconfig), *QUICK, *arguments]
        return await asyncio.to_thread(in_terminal, command)


async def _records(report: Report, cluster: ReadOnlyCluster, *arguments: str) -> Any:
    done = await report(cluster, "-o", "json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture
def cluster() -> ReadOnlyCluster:
    """Web asks for far too much, db for far too little, and nobody knows of quiet."""
    made = ReadOnlyCluster()
    made.add_node()
    much = {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}
    made.deploy("web", resources=much)
    made.deploy("db", resources={"requests": {"cpu": "10m", "memory": "400Mi"}})
    made.deploy("quiet-and-with-a-name-that-is-far-too-long", namespace="other", replicas=1)
    made.add_pod("alone")
    busy = [each["metadata"]["name"] for each in made.objects["pods"]]
    made.use("500m", "300Mi", [name for name in busy if not name.startswith("quiet")])
    return made


async def test_every_workload_is_beside_what_is_recommended(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    found = await _records(report, cluster, "-A")
    by_name = {each["name"]: each for each in found["workloads"]}
    web, quiet = by_name["web"]["containers"][0], by_name["alone"]

    assert [each["name"] for each in found["workloads"]][:2] == ["db", "web"]
    assert web["current"]["requests"] == {"cpu": "2", "memory": "2Gi"}
    # 500m and 300Mi lie in buckets whose upper ends, with 15 % on top, are these.
    assert web["recommended"]["requests"] == {"cpu": "587m", "memory": "363Mi"}
    assert web["recommended"]["limits"] == {"cpu": "1174m", "memory": "726Mi"}
    assert web["change"] == {"cpu": 2 * (587 - 2000), "memory": 2 * (363 - 2048) * MIB}
    assert (by_name["web"]["binding"], by_name["web"]["severity"]) == ("cpu", "critical")
    assert (quiet["kind"], quiet["containers"][0]["current"]["requests"]) == ("Pod", {})
    assert found["capacity"] == {"cpu": "4", "memory": "16Gi"}


async def test_d25_pods_are_reported_with_what_daemon_sets_leave_of_a_node(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    container = {"name": "app", "resources": {"requests": {"cpu": "3500m", "memory": "1Gi"}}}
    cluster.add_object(
        "daemonsets",
        {
            "metadata": {"namespace": "kube-system", "name": "agent"},
            "spec": {"template": {"spec": {"containers": [container]}}},
            "status": {
                "desiredNumberScheduled": 1,
                "currentNumberScheduled": 1,
                "updatedNumberScheduled": 1,
                "numberReady": 1,
            },
        },
    )
    found = await _records(report, cluster, "-A")
    given = {
        each["name"]: each["containers"][0]["recommended"]["requests"]["cpu"]
        for each in found["workloads"]
        if each["name"] in {"db", "web"}
    }

    # Pods of web have more than that, so the cap takes nothing from them.
    assert given == {"db": "500m", "web": "587m"}


async def test_what_nobody_knows_is_said_and_not_guessed(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    done = await report(cluster, "-o", "json", "-n", "other")
    found = json.loads(done.stdout)
    (quiet,) = found["workloads"]

    assert quiet["severity"] == "unknown"
    assert quiet["containers"][0]["recommended"] is None
    assert quiet["containers"][0]["doubt"] == "NoSamples"
    assert found["requested"] == found["recommended"]


@pytest.mark.parametrize("more", [(), ("-A",), ("-A", "-o", "wide")], ids=["one", "all", "wide"])
async def test_no_line_is_longer_than_a_terminal_of_80_columns(
    cluster: ReadOnlyCluster, tmp_path: Path, more: tuple[str, ...]
) -> None:
    seen = await _show(cluster, tmp_path, *more)
    whole = [line for line in seen.lines if "->" in line and "critical" in line]

    assert seen.code == 0
    assert "\x1b[31mcritical" in seen.raw
    assert whole
    if "wide" not in more:
        assert max(map(len, seen.lines)) <= 80


async def test_what_others_have_named_is_no_formula_in_a_spreadsheet(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    cluster.objects["pods"][0]["spec"]["containers"][0]["name"] = "=now()\x1b[2J"
    rows = list(csv.DictReader(StringIO((await report(cluster, "-o", "csv")).stdout)))

    assert "'=now()\\x1b[2J" in [row["container"] for row in rows]


async def test_all_formats_tell_the_same(cluster: ReadOnlyCluster, report: Report) -> None:
    records = await _records(report, cluster)
    written = {
        form: (await report(cluster, "-o", form)).stdout
        for form in ("yaml", "csv", "markdown", "html")
    }
    rows = list(csv.DictReader(StringIO(written["csv"])))
    cpu = next(row for row in rows if (row["name"], row["resource"]) == ("web", "cpu"))

    assert yaml.safe_load(written["yaml"]) == records
    assert (cpu["request"], cpu["recommended_request"], cpu["limit"]) == ("2000", "587", "4000")
    assert (cpu["change"], cpu["severity"]) == (str(2 * (587 - 2000)), "critical")
    assert (cpu["history_seconds"], cpu["confidence"]) == ("0", "0.0000")
    assert "| shop | deploy/web | - | app | 2 | 0s (0%) | CPU | 2 -> 587m |" in written["markdown"]
    assert "2 &rarr; 587m" in written["html"]
    assert not any(word in written["html"] for word in ("http:", "https:", "src=", "<link"))


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        pytest.param(("--sort", "name"), ["db", "web", "alone"], id="by kind and name"),
        pytest.param(("--sort", "memory"), ["web", "alone", "db"], id="most memory first"),
        pytest.param(("--min-severity", "critical"), ["web"], id="only the worst"),
        pytest.param(("--selector", "app=db"), ["db"], id="only some pods"),
        pytest.param(("-l", "app notin (db)"), ["web", "alone"], id="all but some pods"),
    ],
)
async def test_what_is_shown_and_in_which_order_can_be_chosen(
    cluster: ReadOnlyCluster, report: Report, arguments: tuple[str, ...], names: list[str]
) -> None:
    cluster.usage = [
        each for each in cluster.usage if not each["metadata"]["name"].startswith("db")
    ]
    cluster.use("100m", "300Mi", ["db-1-0", "db-1-1"])
    found = await _records(report, cluster, *arguments)

    assert [each["name"] for each in found["workloads"]] == names


async def test_what_is_left_out_is_still_counted(cluster: ReadOnlyCluster, report: Report) -> None:
    whole = await report(cluster, "--sort", "name")
    worst = await report(cluster, "--min-severity", "critical")

    assert "po/alone" not in worst.stdout
    assert "Not shown, but counted: 1 of the better workloads." in worst.stdout
    assert (
        whole.stdout.split("\n\n")[1].splitlines()[:2]
        == (worst.stdout.split("\n\n")[1].splitlines()[:2])
    )


async def test_what_an_autoscaler_has_published_is_what_is_told(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    told = {"containerName": "app", "target": {"cpu": "111m", "memory": "222Mi"}}
    cluster.add_object(
        "verticalpodautoscalers",
        {
            "metadata": {"name": "mine", "namespace": "shop"},
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}},
            "status": {"recommendation": {"containerRecommendations": [told]}},
        },
    )
    found = await _records(report, cluster, "-l", "app=web")
    (web,) = found["workloads"]

    assert web["autoscaler"] == "mine"
    assert web["containers"][0]["recommended"]["requests"] == {"cpu": "111m", "memory": "222Mi"}


async def test_what_a_horizontal_autoscaler_scales_on_is_left_alone(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    cluster.add_object(
        "horizontalpodautoscalers",
        {
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [{"type": "Resource", "resource": metric}],
            },
        },
    )
    found = await _records(report, cluster, "-l", "app=web")
    shown = await report(cluster, "-l", "app=web")
    (container,) = found["workloads"][0]["containers"]

    assert container["recommended"]["requests"] == {"memory": "363Mi"}
    assert (container["held"], container["change"]["cpu"]) == (["cpu"], 0)
    assert "Held: CPU of deploy/web, on which horizontal autoscalers scale." in shown.stdout


async def test_a_cluster_without_autoscalers_and_visible_nodes_is_reported(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    cluster.missing = {"verticalpodautoscalers", "verticalpodautoscalercheckpoints"}
    cluster.forbidden = {"nodes"}
    found = await _records(report, cluster)

    assert len(found["workloads"]) == 3
    assert [note.partition(" ")[0] for note in found["notes"]] == ["autoscalers", "nodes"]
    assert found["workloads"][0]["binding"] is None


async def test_without_a_metrics_api_one_line_says_what_to_do(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    cluster.missing = {"metrics"}
    done = await report(cluster)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("trimtab: no usage from the metrics API: ")
    assert "--prometheus-address" in done.stderr
    assert done.stderr.count("\n") == 1


async def test_history_of_prometheus_counts_instead_of_a_look(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    fake = FakePrometheus(now=time.time())
    for pod in ("web-1-0", "web-1-gone"):
        labels = {"namespace": "shop", "pod": pod, "container": "app", "job": "kubelet"}
        moments = [fake.now + 300.0 * each for each in range(-300, 1)]
        counter = {moment: moment - moments[0] for moment in moments}
        fake.tell("container_cpu_usage_seconds_total", labels, counter)
        fake.tell("container_memory_working_set_bytes", labels, dict.fromkeys(moments, 1e9))
    cluster.missing = {"metrics"}
    async with serving_prometheus(fake):
        found = await _records(report, cluster, "--prometheus-address", fake.address)
    by_name = {each["name"]: each["containers"][0] for each in found["workloads"]}

    assert found["source"] == "8d of Prometheus"
    assert by_name["web"]["samples"] > 20
    assert by_name["web"]["historySeconds"] > 20 * 3600
    assert by_name["web"]["recommended"]["requests"]["cpu"].startswith("11")
    assert by_name["db"]["doubt"] == "NoSamples"


async def test_a_prometheus_that_does_not_answer_is_a_clear_failure(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    done = await report(cluster, "--prometheus-address", "http://127.0.0.1:9")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("trimtab: no history: ")
    assert done.stderr.count("\n") == 1


async def test_patches_are_written_beside_the_report(
    cluster: ReadOnlyCluster, report: Report, tmp_path: Path
) -> None:
    folder = tmp_path / "patches"
    given = ["--patch", "kustomize", "--out", str(folder), "--allow-thin-data"]
    done = await report(cluster, *given)
    patch = yaml.safe_load((folder / "shop/deployment-web.yaml").read_text(encoding="utf-8"))
    (container,) = patch["spec"]["template"]["spec"]["containers"]

    assert done.returncode == 0
    assert "no file for shop/pod/alone: kustomize cannot patch a Pod" in done.stderr
    assert container["resources"]["requests"] == {"cpu": "587m", "memory": "363Mi"}


@pytest.mark.parametrize(
    ("days", "history"),
    [
        pytest.param(0, "0s (0%), published", id="without a checkpoint"),
        pytest.param(2, "2d (100%), published", id="with one of two days"),
    ],
)
async def test_a_patch_of_what_is_published_needs_a_checkpoint_with_history(
    days: int, history: str, cluster: ReadOnlyCluster, report: Report, tmp_path: Path
) -> None:
    _publish(cluster, "web", {"cpu": "111m", "memory": "222Mi"})
    if days:
        cluster.add_object("verticalpodautoscalercheckpoints", _checkpoint("web", days))
    folder = tmp_path / "patches"
    given = ["-l", "app=web", "--patch", "kustomize", "--out", str(folder)]
    done = await report(cluster, *given)
    written = [path.name for path in folder.rglob("deployment-*.yaml")]

    assert history in done.stdout
    assert written == (["deployment-web.yaml"] if days else [])


def _publish(cluster: ReadOnlyCluster, name: str, target: dict[str, str]) -> None:
    """Add an autoscaler that has recommended something for a Deployment."""
    told = {"containerName": "app", "target": target}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    cluster.add_object(
        "verticalpodautoscalers",
        {
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"targetRef": reference, "updatePolicy": {"updateMode": "Off"}},
            "status": {"recommendation": {"containerRecommendations": [told]}},
        },
    )


def _checkpoint(name: str, days: int) -> dict[str, object]:
    """What a recommender stores that has watched for some days, with a sample each minute."""
    now = datetime.now(UTC)
    histogram = {
        "referenceTimestamp": f"{now:%Y-%m-%dT00:00:00Z}",
        "bucketWeights": {"10": 10000},
        "totalWeight": 10.0,
    }
    return {
        "metadata": {"name": f"{name}-app", "namespace": "shop"},
        "spec": {"vpaObjectName": name, "containerName": "app"},
        "status": {
            "version": "v3",
            "lastUpdateTime": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "firstSampleStart": f"{now - timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}",
            "lastSampleStart": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "totalSamplesCount": days * 1440,
            "cpuHistogram": histogram,
            "memoryHistogram": histogram,
        },
    }


async def test_no_patch_is_written_from_minutes_of_usage(
    cluster: ReadOnlyCluster, report: Report, tmp_path: Path
) -> None:
    folder = tmp_path / "patches"
    done = await report(cluster, "--patch", "kustomize", "--out", str(folder))

    assert not list(folder.rglob("deployment-*.yaml"))
    assert (
        "no file for shop/deployment/web: it has 0s of history, less than 24h (--allow-thin-data)"
        in done.stderr
    )


async def test_autoscalers_are_written_from_any_usage_since_they_have_no_amounts(
    cluster: ReadOnlyCluster, report: Report, tmp_path: Path
) -> None:
    folder = tmp_path / "patches"
    await report(cluster, "--patch", "vpa", "--out", str(folder))

    assert (folder / "shop/deployment-web.yaml").exists()


async def test_without_any_usage_it_says_so_and_fails(
    cluster: ReadOnlyCluster, report: Report
) -> None:
    done = await report(cluster, "-n", "other")

    assert (done.returncode, done.stderr) == (1, NO_USAGE)
    assert "No usage is known, so nothing is recommended." in done.stdout
    assert "as it should be" not in done.stdout


async def test_where_policies_are_off_nothing_is_called_as_it_should_be(report: Report) -> None:
    cluster = ReadOnlyCluster()
    cluster.deploy("web", resources={"requests": {"cpu": "1"}})
    cluster.use("500m", "300Mi")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    off = {"containerPolicies": [{"containerName": "*", "mode": "Off"}]}
    spec = {"targetRef": target, "resourcePolicy": off}
    metadata = {"name": "web", "namespace": "shop"}
    cluster.add_object("verticalpodautoscalers", {"metadata": metadata, "spec": spec})
    done = await report(cluster)
    page = await report(cluster, "-o", "html")

    assert done.returncode == 0
    assert "Nothing is recommended." in done.stdout
    assert "as it should be" not in done.stdout
    assert "saved" not in page.stdout


async def test_a_folder_that_cannot_be_written_is_one_line(
    cluster: ReadOnlyCluster, report: Report, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = await report(cluster, "--patch", "vpa", "--out", str(tmp_path / "file"))

    assert done.returncode == 1
    assert done.stderr.startswith("trimtab: cannot write ")
    assert done.stderr.count("\n") == 1


async def test_an_empty_namespace_is_said_to_be_empty(report: Report) -> None:
    done = await report(ReadOnlyCluster())

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("trimtab: there are no pods in the namespace shop; ")


async def test_whoever_has_seen_enough_ends_it_without_a_traceback(
    cluster: ReadOnlyCluster, tmp_path: Path
) -> None:
    async with served(cluster, tmp_path) as kubeconfig:
        running = await asyncio.create_subprocess_exec(
            *(TRIMTAB, "report", "--kubeconfig", kubeconfig, "--watch-for", "1h"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await cluster.was_measured.wait()
        running.send_signal(signal.SIGINT)
        written = await running.communicate()

    assert (running.returncode, *written) == (130, b"", b"")


@pytest.mark.parametrize("output", ["table", "markdown"])
async def test_names_of_others_cannot_command_a_terminal(
    cluster: ReadOnlyCluster, report: Report, output: str
) -> None:
    cluster.add_pod("odd", owner=("Odd\x1b[2J", "one\x07"))
    done = await report(cluster, "-o", output)

    assert "odd\\x1b[2j/one\\x07" in done.stdout
    assert all(line.isprintable() for line in done.stdout.splitlines())
