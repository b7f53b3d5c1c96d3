"""Dashboard and alerts ask for metrics and labels that components really have."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.readers.prometheus_queries import read_query

from reference import dashboard, exposed

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
FILES = ROOT / "charts/trimtab/files"
ALERTS: list[Json] = [
    rule
    for group in yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
SCENES: list[Json] = yaml.safe_load(
    (ROOT / "tests/e2e/alert_scenes.yaml").read_text(encoding="utf-8")
)["tests"]
PANELS: list[Json] = json.loads((FILES / "dashboards/trimtab.json").read_text(encoding="utf-8"))[
    "panels"
]
OF_PROCESSES = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
OF_TARGETS = {"job", "instance"}


def known_series() -> dict[str, set[str]]:
    """By the name of each series the labels that it has."""
    found = {name: set[str]() for name in OF_PROCESSES}
    for metrics in exposed.list_metrics().values():
        for one in metrics:
            parts = ("_bucket", "_count", "_sum") if one.kind == "histogram" else ("",)
            for part in parts:
                more = {"le"} if part == "_bucket" else set()
                found[one.name + part] = set(one.labels) | more
    return found


SERIES = known_series()
QUERIES = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in ALERTS),
    *(
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in PANELS
        for target in panel.get("targets", ())
    ),
]


@pytest.mark.parametrize("expression", QUERIES)
def test_a_query_names_only_series_and_labels_that_there_are(expression: str) -> None:
    named = read_query(expression)
    labels = OF_TARGETS.union(*(SERIES.get(name, set()) for name in named.metrics))

    assert named.metrics
    assert named.metrics - SERIES.keys() == set()
    assert named.labels - labels == set()
    assert {(name, label) for name, label in named.selected if label not in SERIES[name]} == set()


@pytest.mark.parametrize(
    ("expression", "metrics", "labels"),
    [
        pytest.param("sum by (a, b) (rate(x_total[5m])) > 0", {"x_total"}, {"a", "b"}, id="a sum"),
        pytest.param('x{c="by"} / on (d) y', {"x", "y"}, {"d"}, id="two that are joined"),
        pytest.param("min(x > 0) - time() < 7 * 24", {"x"}, set(), id="numbers and functions"),
        pytest.param('label_replace(x, "c", "d", "", "")', {"x"}, set(), id="texts"),
        pytest.param("x unless on (a) group by (a) (y)", {"x", "y"}, {"a"}, id="all but some"),
    ],
)
def test_metrics_and_labels_are_told_from_the_words_of_the_language(
    expression: str, metrics: set[str], labels: set[str]
) -> None:
    named = read_query(expression)

    assert (named.metrics, named.labels) == (metrics, labels)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_where_help_is_found(rule: Json) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}

    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["for"]
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    assert anchor in anchors


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_has_scenes_in_which_it_fires_and_in_which_it_does_not(rule: Json) -> None:
    own = [scene for scene in SCENES if scene["name"].split()[0] == rule["alert"]]
    outcomes = Counter(
        any(
            rule["alert"] in sample["labels"]
            for test in scene["promql_expr_test"]
            for sample in test.get("exp_samples", ())
        )
        for scene in own
    )

    assert outcomes[True] >= 1
    assert outcomes[False] >= 1


def test_the_dashboard_is_what_make_docs_would_write() -> None:
    path = FILES / "dashboards/trimtab.json"
    is_current = path.read_text(encoding="utf-8") == dashboard.write_dashboard()

    assert is_current, "the dashboard is not current: run `make docs`, and commit what it writes"


def test_the_dashboard_asks_whichever_prometheus_its_reader_chooses() -> None:
    document = json.loads(dashboard.write_dashboard())
    variables = {each["name"]: each["type"] for each in document["templating"]["list"]}
    sources = {target["datasource"]["uid"] for each in PANELS for target in each.get("targets", ())}

    assert (document["uid"], document["title"]) == ("trimtab", "Trimtab")
    assert variables == {"datasource": "datasource", "namespace": "query"}
    assert sources == {"${datasource}"}


def test_the_dashboard_has_a_row_for_each_question_of_an_operator() -> None:
    questions = [panel["title"] for panel in PANELS if panel["type"] == "row"]

    assert questions == [
        "Is it working?",
        "What did it save?",
        "Whom did it touch, and why?",
        "What is held, and what keeps it?",
        "What does it cost?",
    ]


def test_panels_lie_beside_each_other_and_never_upon_each_other() -> None:
    taken = Counter(
        (x, y)
        for place in (panel["gridPos"] for panel in PANELS)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )

    assert max(taken.values()) == 1
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert all(panel["title"] for panel in PANELS)
    assert all(panel["description"] for panel in PANELS if panel["type"] != "row")
