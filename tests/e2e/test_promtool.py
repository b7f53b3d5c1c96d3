"""Alerts and dashboard: Prometheus' own tool reads every query, and plays every scene."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from rig import programs, prometheus

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(prometheus.why_not()), reason=str(prometheus.why_not())),
]

ROOT = Path(__file__).parents[2]
FILES = ROOT / "charts/trimtab/files"
# What Grafana puts in place of these.
VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$namespace": ".*"}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [programs.find("promtool"), *arguments], capture_output=True, text=True, check=False
    )


def test_prometheus_can_read_the_alerts() -> None:
    run = promtool("check", "rules", str(FILES / "alerts.yaml"))

    assert run.returncode == 0, run.stderr


def test_every_alert_fires_and_is_silent_in_the_scenes_that_say_so() -> None:
    run = promtool("test", "rules", str(ROOT / "tests/e2e/alert_scenes.yaml"))

    assert run.returncode == 0, run.stderr + run.stdout


def test_prometheus_can_read_every_query_of_the_dashboard(tmp_path: Path) -> None:
    document = json.loads((FILES / "dashboards/trimtab.json").read_text(encoding="utf-8"))
    queries = [
        target["expr"] for panel in document["panels"] for target in panel.get("targets", ())
    ]
    for name, value in VARIABLES.items():
        queries = [query.replace(name, value) for query in queries]
    rules = [{"record": f"query:{index}", "expr": each} for index, each in enumerate(queries)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}), encoding="utf-8")
    run = promtool("check", "rules", str(path))

    assert len(queries) > 30
    assert not [query for query in queries if "$" in query]
    assert run.returncode == 0, run.stderr
