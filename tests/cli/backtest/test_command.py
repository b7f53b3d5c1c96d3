"""`trimtab backtest`: what it answers, in which formats, and what it refuses."""

import asyncio
import csv
import gzip
import io
import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import polars as pl
import pytest
from distributed import LocalCluster
from support.servers.prometheus import FakePrometheus, serving

from trimtab.cli.main import main

Backtest: TypeAlias = Callable[..., tuple[int, str, str]]

_HALF_A_DAY = 144
_POLICY = """
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: never-small, namespace: shop}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  updatePolicy: {updateMode: Recreate}
  resourcePolicy:
    containerPolicies: [{containerName: "*", minAllowed: {cpu: "3"}}]
"""


@pytest.fixture
def backtest(capsys: pytest.CaptureFixture[str]) -> Backtest:
    """The command inside this process."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["backtest", "--jobs", "1", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two workloads that need the same all the time, for a day and a half."""
    lines = ["workload,resource,start_unix,step_seconds,source_id,values"]
    for name, cpu, memory in (("web", 400, 900), ("db", 1600, 2000)):
        for resource, value in (("cpu_millicores", cpu), ("memory_mib", memory)):
            values = " ".join([str(value)] * 3 * _HALF_A_DAY)
            lines.append(f"{name},{resource},1767225600,300,none,{values}")
    path = tmp_path / "usage.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_what_workloads_are_called_is_obeyed_by_no_terminal_and_no_spreadsheet(
    backtest: Backtest, trace: Path
) -> None:
    named = trace.read_text(encoding="utf-8").replace("web,", "=[/b]\x1b[2J,")
    trace.write_text(named, encoding="utf-8")
    asked = ("--trace", trace, "--policy", "today", "--quiet", "--per-workload", "--format")
    written = {form: backtest(*asked, form)[1] for form in ("table", "csv", "markdown")}
    rows = list(csv.DictReader(io.StringIO(written["csv"])))

    assert rows[1]["workload"] == "'=[/b]\\x1b[2J"
    assert not any("\x1b" in text for text in written.values())
    assert "=[/b]\\x1b[2J" in written["table"]


def test_policies_are_compared_in_one_table(backtest: Backtest, trace: Path) -> None:
    code, told, progress = backtest("--trace", trace, "--policy", "today", "--policy", "trimtab")

    assert code == 0
    assert "starting over-strict" in told
    assert "CPU slack %" in told
    assert "50.0" in told
    # Standard error is no terminal here.
    assert progress == ""


def test_programs_get_every_score_and_people_the_same_ones(backtest: Backtest, trace: Path) -> None:
    asked = ("--trace", trace, "--policy", "today", "--quiet", "--per-workload", "--format")
    rows = json.loads(backtest(*asked, "json")[1])
    lines = list(csv.DictReader(io.StringIO(backtest(*asked, "csv")[1])))
    _, markdown, progress = backtest(*asked, "markdown")

    assert [row["workload"] for row in rows] == [None, "web", "db"]
    assert rows[0]["cpu_slack"] == pytest.approx(0.5)
    assert rows[0]["good_after"] is None
    assert [float(line["memory_slack"]) for line in lines] == pytest.approx([0.5] * 3)
    assert markdown.splitlines()[2].startswith("| over-strict | today | 50.0 | 24.00 |")
    assert progress == ""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Eight workloads of different sizes, half of which grow, for a day and a half."""
    lines = ["workload,resource,start_unix,step_seconds,source_id,values"]
    for number in range(8):
        for resource, value in (("cpu_millicores", 60), ("memory_mib", 150)):
            first, later = (
                (value << number // 2) + number,
                (value << number // 2) * (1 + number % 2),
            )
            values = " ".join([str(first)] * _HALF_A_DAY + [str(later)] * 2 * _HALF_A_DAY)
            lines.append(f"w{number},{resource},1767225600,300,none,{values}")
    path = tmp_path / "fleet.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_every_format_has_intervals_and_ratios_to_the_original(
    backtest: Backtest, fleet: Path
) -> None:
    asked = ("--trace", fleet, "--policy", "original,today", "--format")
    written = {
        form: backtest(*asked, form)[1] for form in ("table", "markdown", "json", "csv", "html")
    }
    original, today = json.loads(written["json"])
    row = list(csv.DictReader(io.StringIO(written["csv"])))[1]
    ratio = today["ratio_to_original"]["memory_slack"]

    assert "ratio_to_original" not in original
    assert ratio["lowest"] <= ratio["value"] <= ratio["highest"]
    assert ratio["value"] == pytest.approx(today["memory_slack"] / original["memory_slack"])
    assert float(row["memory_slack_ratio"]) == ratio["value"]
    assert float(row["memory_slack_ratio_highest"]) == ratio["highest"]
    assert float(row["memory_slack_lowest"]) == today["confidence_95"]["memory_slack"][0]
    lowest, highest = (100 * end for end in today["confidence_95"]["memory_slack"])
    shown = f"{100 * today['memory_slack']:.1f} ({lowest:.1f}..{highest:.1f})"
    compared = f"{ratio['value']:.2f} ({ratio['lowest']:.2f}..{ratio['highest']:.2f})"
    for form in ("table", "markdown", "html"):
        assert shown in written[form], form
        assert compared in written[form], form


def test_size_classes_say_who_pays(backtest: Backtest, fleet: Path) -> None:
    asked = ("--trace", fleet, "--policy", "original,today", "--by-size", "--format")
    rows = json.loads(backtest(*asked, "json")[1])
    table, page = (backtest(*asked, form)[1] for form in ("table", "html"))
    sizes = {row["size"]: row for row in rows if row["policy"] == "today" and row["size"]}

    assert list(sizes)[:2] == ["CPU < 100m", "CPU 100m to 1"]
    assert sum(row["workloads"] for row in sizes.values()) == 2 * 8
    assert sizes["memory 256Mi to 1Gi"]["ratio_to_original"]["oom_episodes"]["value"] is not None
    assert re.search(r"memory 256Mi to 1Gi +\d+ +today .* x\d", table)
    assert "memory 256Mi to 1Gi" in page


@pytest.mark.parametrize(
    ("given", "names"),
    [
        pytest.param(["over-loose,under-loose"], ["over-loose", "under-loose"], id="commas"),
        pytest.param(["over-loose", "over-loose"], ["over-loose"], id="each once"),
        pytest.param(
            ["under-loose", "all"],
            ["under-loose", "over-strict", "over-loose", "under-strict", "under-strict-cpucap"],
            id="all but as-is",
        ),
    ],
)
def test_scenarios_may_be_repeated_separated_by_commas_or_all(
    backtest: Backtest, trace: Path, given: list[str], names: list[str]
) -> None:
    flags = [word for each in given for word in ("--scenario", each)]
    rows = json.loads(backtest("--trace", trace, "--policy", "today", *flags, "-o", "json")[1])

    assert [row["scenario"] for row in rows] == names


def test_the_manifest_of_an_autoscaler_is_a_policy(
    backtest: Backtest, trace: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(_POLICY, encoding="utf-8")
    _, told, _ = backtest(
        "--trace", trace, "--policy", policy, "--scenario", "under-loose", "--format", "json"
    )

    row = json.loads(told)[0]
    assert row["policy"] == "never-small"
    # Nearly all the time both request 3 cores, and need one on average.
    assert row["cpu_slack_core_hours"] == pytest.approx(48.0, rel=0.01)


def test_requests_of_today_are_refused_where_nobody_knows_them(
    backtest: Backtest, trace: Path
) -> None:
    code, told, error = backtest("--trace", trace, "--scenario", "as-is")

    assert (code, told) == (2, "")
    assert "as-is needs requests, and none are known: choose another --scenario" in error


def test_a_page_for_a_browser_is_written_to_a_file(
    backtest: Backtest, trace: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    code, told, _ = backtest(
        "--trace", trace, "--policy", "today", "--format", "html", "--output", page
    )

    assert (code, told) == (0, "")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_format_and_the_file_have_the_flags_of_other_commands(
    backtest: Backtest, trace: Path, tmp_path: Path
) -> None:
    page = tmp_path / "rows.json"
    code, written, _ = backtest("--trace", trace, "--policy", "today", "-o", "json", "-f", page)

    assert (code, written) == (0, "")
    assert json.loads(page.read_text(encoding="utf-8"))[0]["policy"] == "today"


_TWO = ("--sweep", "--percentile", "0.9", "--margin", "0.1", "--margin", "2")
_SWEEP = (*_TWO, "--half-life-hours", "24")


def test_a_sweep_names_the_cheapest_setting_that_is_safe(backtest: Backtest, trace: Path) -> None:
    _, told, _ = backtest("--trace", trace, *_SWEEP, "--quiet")
    answer = json.loads(backtest("--trace", trace, *_SWEEP, "--format", "json", "--quiet")[1])

    assert "The cheapest within 0.1 OOM episodes of a workload in a month: p90 +10% 24h" in told
    assert "p90 +200% 24h" in told
    assert answer["cheapest"] == "p90 +10% 24h"
    assert answer["frontier"] == ["p90 +10% 24h"]
    assert [point["policy"] for point in answer["points"]] == ["p90 +10% 24h", "p90 +200% 24h"]


def test_a_sweep_says_so_if_nothing_is_safe_enough(backtest: Backtest, trace: Path) -> None:
    _, told, _ = backtest(
        "--trace", trace, *_SWEEP, "--scenario", "under-strict", "--max-oom-per-month", "0"
    )

    assert "None stays within 0 OOM episodes of a workload in a month; the safest is p90" in told


def test_a_file_with_a_line_for_each_moment_is_read_and_its_gaps_are_told(
    backtest: Backtest, tmp_path: Path
) -> None:
    path = tmp_path / "usage.csv.gz"
    lines = ["time,workload,cpu_cores,memory_mib"]
    lines += [f"{300 * each},web,0.5,100" for each in range(_HALF_A_DAY) if not 9 < each < 22]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines))
    code, told, notes = backtest("--trace", path, "--policy", "today", "--format", "json")

    assert code == 0
    assert json.loads(told)[0]["cpu_slack"] == pytest.approx(0.5)
    assert "note: gaps of 1.0 h in all were filled with the last value before them" in notes


def test_the_same_table_in_parquet_gives_the_same_answer(
    backtest: Backtest, tmp_path: Path
) -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC) + each * timedelta(minutes=5) for each in range(40)]
    columns = {"time": moments, "workload": "web", "cpu_cores": 0.5, "memory_bytes": 2**30}
    frame = pl.DataFrame(columns)
    frame.write_parquet(tmp_path / "usage.parquet")
    frame.write_csv(tmp_path / "usage.csv")
    told = [
        backtest("--trace", tmp_path / name, "--policy", "today", "--format", "csv", "--quiet")
        for name in ("usage.csv", "usage.parquet")
    ]

    assert told[0] == told[1]
    assert told[0][0] == 0


def test_a_dask_cluster_gives_the_same_answer_to_the_bit(backtest: Backtest, trace: Path) -> None:
    asked = ("--trace", trace, "--policy", "trimtab", "--format", "json", "--quiet")
    here = backtest(*asked)
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        there = backtest(*asked, "--scheduler", cluster.scheduler_address)

    assert here[:2] == there[:2]


def test_a_dask_scheduler_that_does_not_answer_is_one_line_and_exit_code_one(
    backtest: Backtest, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.cli.backtest.executors._PATIENCE_SECONDS", 1)
    code, told, error = backtest("--trace", trace, "--scheduler", "tcp://127.0.0.1:9")

    assert (code, told) == (1, "")
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in error


def test_the_workloads_of_a_namespace_are_replayed_as_prometheus_remembers_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = FakePrometheus(now=time.time())
    for pod, cores in (("web-5d4f8c7b9d-x2x4z", 0.5), ("db-0", 1.0)):
        labels = {"namespace": "shop", "pod": pod, "container": "app", "job": "kubelet"}
        moments = [fake.now + 300.0 * each for each in range(-300, 1)]
        counter = {moment: cores * (moment - moments[0]) for moment in moments}
        fake.tell("container_cpu_usage_seconds_total", labels, counter)
        fake.tell("container_memory_working_set_bytes", labels, dict.fromkeys(moments, 1e9))

    async def run() -> int:
        async with serving(fake):
            arguments = ["--namespace", "shop", "--prometheus-address", fake.address]
            arguments += ["--days", "1", "--policy", "today", "--per-workload", "--format", "json"]
            return await asyncio.to_thread(main, ["backtest", "--jobs", "1", *arguments])

    code = asyncio.run(run())
    told, progress = capsys.readouterr()

    assert code == 0
    assert [row["workload"] for row in json.loads(told)] == [None, "shop/db/app", "shop/web/app"]
    assert "reading 1 days of shop" in progress
    assert "note: what is requested today cannot be read: " in progress
    assert "begin over-strict, as their requests are unknown: shop/db/app, shop/web/app" in progress


def test_a_prometheus_that_does_not_answer_is_one_line_and_exit_code_one(
    backtest: Backtest,
) -> None:
    code, told, error = backtest(
        "--namespace", "shop", "--prometheus-address", "http://127.0.0.1:9"
    )

    assert (code, told) == (1, "")
    assert error.splitlines()[-1].startswith("trimtab: ")


@pytest.mark.parametrize(
    ("arguments", "flaw"),
    [
        pytest.param(["--trace", "nowhere.csv"], "cannot read nowhere.csv", id="no such file"),
        pytest.param(["--trace", "{trace}", "--policy", "best"], "'best'", id="no such policy"),
        pytest.param(["--trace", "{trace}", "--scenario", "odd"], "'odd'", id="no such scenario"),
        pytest.param(["--trace", "{bad}"], "no column 'time'", id="no recorded usage"),
        pytest.param([], "--trace", id="nothing to replay"),
        pytest.param(["--namespace", "shop", "--trace", "{trace}"], "either", id="two sources"),
        pytest.param(["--namespace", "shop", "--days", "0"], "--days", id="no time at all"),
        pytest.param(
            ["--trace", "{trace}", "--output", "{bad}/page", "--policy", "today"],
            "cannot write",
            id="nowhere to write to",
        ),
        pytest.param(
            ["--trace", "{trace}", "--sweep", "--percentile", "90"],
            "target_percentile",
            id="a percentile of more than one",
        ),
        pytest.param(
            ["--trace", "{trace}", "--sweep", "--policy", "today"],
            "one autoscaler",
            id="a sweep of what has no settings",
        ),
        pytest.param(
            ["--trace", "{trace}", "--sweep", "--scenario", "over-loose", "--scenario", "odd"],
            "'odd'",
            id="a sweep that begins in two ways",
        ),
        pytest.param(
            ["--trace", "{trace}", "--policy", "{bad}"],
            "no VerticalPodAutoscaler",
            id="a file without an autoscaler",
        ),
    ],
)
def test_a_call_that_makes_no_sense_is_one_line_and_exit_code_two(
    backtest: Backtest, trace: Path, tmp_path: Path, arguments: list[str], flaw: str
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: Pod\n", encoding="utf-8")
    code, told, error = backtest(*(each.format(trace=trace, bad=bad) for each in arguments))

    assert (code, told) == (2, "")
    assert error.startswith("trimtab: ")
    assert flaw in error
    assert error.count("\n") == 1
