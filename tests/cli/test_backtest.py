"""`trimtab backtest`: what it answers, in which formats, and what it refuses."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

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


def test_policies_are_compared_in_one_table(backtest: Backtest, trace: Path) -> None:
    code, told, progress = backtest("--trace", trace, "--policy", "today", "--policy", "trimtab")

    assert code == 0
    assert "starting over-strict" in told
    assert "CPU slack %" in told
    assert "50.0" in told
    assert "2 of 2 parts replayed" in progress


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


@pytest.mark.parametrize(
    ("arguments", "flaw"),
    [
        pytest.param(["--trace", "nowhere.csv"], "cannot read nowhere.csv", id="no such file"),
        pytest.param(["--trace", "{trace}", "--policy", "best"], "'best'", id="no such policy"),
        pytest.param(["--trace", "{trace}", "--scenario", "odd"], "'odd'", id="no such scenario"),
        pytest.param(["--trace", "{bad}"], "no column 'resource'", id="no recorded usage"),
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
