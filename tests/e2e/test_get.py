"""`trimtab get` on a real API server: what somebody sees who only reads."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from e2e.worlds import World, a_small_world
from support.stages.components import READING, an_account

from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

_STATUS = {
    "recommendation": {
        "containerRecommendations": [
            {
                "containerName": "app",
                "target": {"cpu": "150m", "memory": "300Mi"},
                "lowerBound": {"cpu": "100m", "memory": "250Mi"},
                "upperBound": {"cpu": "1", "memory": "1Gi"},
            }
        ]
    }
}


def _get(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("trimtab")
    return subprocess.run(
        [program, "get", "--kubeconfig", kubeconfig, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "80"},
    )


@pytest.fixture
def world(cluster: ControlPlane, namespace: str) -> World:
    return a_small_world(cluster, namespace, _STATUS)


def test_a_reader_sees_requests_beside_what_is_recommended(world: World, tmp_path: Path) -> None:
    reader = an_account(world.plane, world.namespace, READING, tmp_path)
    shown = _get(reader, "-n", world.namespace)
    records = json.loads(_get(reader, "-n", world.namespace, "-o", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(_get(world.plane.kubeconfig, "-A", "-o", "csv").stdout)))

    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[0] == [
        "NAME",
        "MODE",
        "CONTAINER",
        "REQUEST",
        "TARGET",
        "LOWER",
        "UPPER",
        "DIFFERENCE",
    ]
    assert lines[1][-6:] == ["CPU", "100m", "150m", "100m", "1", "+50%"]
    assert lines[2] == ["MEMORY", "100Mi", "300Mi", "250Mi", "1024Mi", "+200%"]
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    assert records[0]["target"] == {"cpu": "150m", "memory": "300Mi"}
    assert records == yaml.safe_load(_get(reader, "-n", world.namespace, "-o", "yaml").stdout)
    own = [row for row in rows if row["namespace"] == world.namespace]
    assert [row["request"] for row in own] == ["100", str(100 * 1024**2)]


def test_what_is_not_there_is_told_in_one_line(world: World, tmp_path: Path) -> None:
    missing = _get(world.plane.kubeconfig, "-n", world.namespace, "web", "nobody")
    nowhere = _get(tmp_path / "none")
    stranger = an_account(world.plane, world.namespace, [], tmp_path)
    forbidden = _get(stranger, "-n", world.namespace)

    assert (missing.returncode, missing.stderr) == (1, "trimtab: there is no autoscaler nobody\n")
    assert "150m" in missing.stdout
    for failed in (nowhere, forbidden):
        assert (failed.returncode, failed.stdout) == (1, "")
        assert failed.stderr.startswith("trimtab: no ")
        assert failed.stderr.count("\n") == 1
