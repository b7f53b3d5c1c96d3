"""The real command beside a small cluster that only shows."""

import asyncio
import csv
import json
import sys
from io import StringIO
from pathlib import Path

import pytest
import yaml
from support.readers.terminal import Seen, in_terminal
from support.servers.read_only_cluster import ReadOnlyCluster, served

from trimtab.cli.main import main

TRIMTAB = Path(sys.executable).parent / "trimtab"
LONG = "a-deployment-with-a-name-that-nobody-would-want-to-type"


@pytest.fixture
def cluster() -> ReadOnlyCluster:
    """An autoscaler of which everything is known but little for sure, and one without anything."""
    made = ReadOnlyCluster()
    made.deploy(LONG, resources={"requests": {"cpu": "100m", "memory": "100Mi"}})
    told = {
        "containerName": "app",
        "target": {"cpu": "150m", "memory": "300Mi"},
        "lowerBound": {"cpu": "100m", "memory": "250Mi"},
        "upperBound": {"cpu": "1000", "memory": "9Ti"},
    }
    for name, status in (
        (LONG, {"recommendation": {"containerRecommendations": [told]}}),
        ("b", {}),
    ):
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        metadata = {"name": name, "namespace": "shop"}
        made.add_object(
            "verticalpodautoscalers",
            {"metadata": metadata, "spec": {"targetRef": target}, "status": status},
        )
    return made


async def _show(cluster: ReadOnlyCluster, folder: Path, *arguments: str) -> Seen:
    async with served(cluster, folder) as kubeconfig:
        command = [str(TRIMTAB), "get", "--kubeconfig", str(kubeconfig), *arguments]
        return await asyncio.to_thread(in_terminal, command)


@pytest.mark.parametrize("more", [(), ("-A",)], ids=["one namespace", "all of them"])
async def test_no_line_wraps_in_a_terminal_of_80_columns_and_no_number_is_cut(
    cluster: ReadOnlyCluster, tmp_path: Path, more: tuple[str, ...]
) -> None:
    seen = await _show(cluster, tmp_path, *more)
    cpu, memory = (line.split() for line in seen.lines[1:3])

    assert seen.code == 0
    assert max(map(len, seen.lines)) <= 80
    assert cpu[-6:] == ["CPU", "100m", "150m", "100m", "1k", "+50%"]
    assert memory == ["MEMORY", "100Mi", "300Mi", "250Mi", "9437184Mi", "+200%"]


async def test_programs_are_told_the_whole_names_and_exact_amounts(
    cluster: ReadOnlyCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    told: StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert told is not None
    # Workers of pytest-xdist have a width in the environment, and output follows it.
    monkeypatch.delenv("COLUMNS", raising=False)
    written = {}
    async with served(cluster, tmp_path) as kubeconfig:
        for form in ("json", "yaml", "csv", "table"):
            given = ["get", "--kubeconfig", str(kubeconfig), "-o", form]
            assert await asyncio.to_thread(main, given) == 0
            written[form] = capsys.readouterr().out
    records = json.loads(written["json"])
    rows = list(csv.DictReader(StringIO(written["csv"])))

    assert [each["name"] for each in records] == [LONG, "b"]
    assert records[0]["upperBound"] == {"cpu": "1k", "memory": "9Ti"}
    assert yaml.safe_load(written["yaml"]) == records
    assert (rows[1]["resource"], rows[1]["target"]) == ("memory", str(300 * 2**20))
    assert LONG in written["table"]


async def test_what_others_have_named_is_no_formula_in_a_spreadsheet(
    cluster: ReadOnlyCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = cluster.objects["verticalpodautoscalers"][0]
    (told,) = found["status"]["recommendation"]["containerRecommendations"]
    told["containerName"] = "=now()\x1b[2J"
    async with served(cluster, tmp_path) as kubeconfig:
        given = ["get", "--kubeconfig", str(kubeconfig), "-o", "csv"]
        assert await asyncio.to_thread(main, given) == 0
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))

    assert "'=now()\\x1b[2J" in [row["container"] for row in rows]


async def test_an_autoscaler_that_is_not_there_is_named(
    cluster: ReadOnlyCluster, tmp_path: Path
) -> None:
    seen = await _show(cluster, tmp_path, "nobody")

    assert (seen.code, seen.lines) == (1, ["trimtab: there is no autoscaler nobody"])
