"""The Grafana dashboard: one row for each question that an operator asks.

What a panel looks like is Grafana's affair; here stands what it asks Prometheus. Panels are laid
out from left to right, in rows of 24 columns.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Json: TypeAlias = dict[str, object]

UID: Final = "trimtab"
_COLUMNS: Final = 24
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA: Final = 39
"""Grafana 10 and later."""


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, and what its series are called."""

    expression: str
    legend: str = "__auto"


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture of some queries."""

    title: str
    text: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A question, and the panels that answer it."""

    question: str
    panels: tuple[Panel, ...]


def _one(expression: str, legend: str = "__auto") -> tuple[Query, ...]:
    return (Query(expression, legend),)


_OURS: Final = "and on (job, instance) trimtab_build_info"
_HIS: Final = 'vpa_namespace=~"$namespace"'


def _total(title: str, resource: str, direction: str, unit: str = "short") -> Panel:
    """How much was freed or added in the time that is shown."""
    labels = f'resource="{resource}",direction="{direction}"'
    expression = f"sum(increase(vpa_updater_requests_changed_total{{{labels}}}[$__range]))"
    text = "By evictions and resizes, in the time that is shown."
    return Panel(title, text, _one(expression, direction), kind="stat", unit=unit, width=6)


def _average(metric: str) -> str:
    """How long each step takes."""
    took = f"sum by (step) (rate({metric}_sum[$__rate_interval]))"
    return f"{took} / sum by (step) (rate({metric}_count[$__rate_interval]))"


def _requests(resource: str) -> tuple[Query, ...]:
    return (
        Query(f'sum(vpa_updater_requests{{resource="{resource}"}})', "requested"),
        Query(f'sum(vpa_updater_wanted_requests{{resource="{resource}"}})', "recommended"),
    )


def _per_autoscaler(metric: str) -> tuple[Query, ...]:
    counted = f"sum by (vpa_namespace, vpa_name) (increase({metric}{{{_HIS}}}[$__range]))"
    return _one(f"topk(20, {counted} >= 1)")


_WORKS: Final = Row(
    "Is it working?",
    (
        Panel(
            "Copies that run",
            "By component and version.",
            _one("count by (component, version) (trimtab_build_info)", "{{component}} {{version}}"),
            kind="stat",
            width=6,
        ),
        Panel(
            "Copies that act",
            "One of each component that elects a leader, all of the admission controller.",
            _one("sum by (component) (trimtab_leading)", "{{component}}"),
            kind="stat",
            width=6,
        ),
        Panel(
            "New pods get their size",
            "1 while the webhook's self-test passes somewhere.",
            _one("max(vpa_admission_controller_self_test_passed)", "self-test"),
            kind="stat",
            width=6,
        ),
        Panel(
            "The webhook's certificate lasts",
            "Nothing to see where it comes from files.",
            _one(
                "min(vpa_admission_controller_certificate_expiry_timestamp_seconds > 0) - time()",
                "certificate",
            ),
            kind="stat",
            unit="s",
            width=6,
        ),
        Panel(
            "Ticks a minute",
            "What should be steady.",
            (
                Query(
                    "60 * sum(rate(vpa_recommender_execution_latency_seconds_count"
                    '{step="total"}[$__rate_interval]))',
                    "recommender",
                ),
                Query(
                    "60 * sum(rate(vpa_updater_execution_latency_seconds_count"
                    '{step="total"}[$__rate_interval]))',
                    "updater",
                ),
            ),
        ),
        Panel(
            "Readings of usage a second",
            "Those that count, are too old, or absurd; OOM kills are among them.",
            _one(
                "sum by (kind, outcome) (rate("
                "vpa_recommender_samples_total[$__rate_interval])) > 0",
                "{{kind}} {{outcome}}",
            ),
        ),
        Panel(
            "What goes wrong, a minute",
            "The log has each of these with its error.",
            (
                Query(
                    "60 * sum by (step) (rate(vpa_recommender_problems_total[$__rate_interval]))",
                    "recommender {{step}}",
                ),
                Query(
                    "60 * sum(rate(vpa_recommender_failed_ticks_total[$__rate_interval]))",
                    "recommender ticks",
                ),
                Query(
                    "60 * sum(rate(vpa_updater_failed_turns_total[$__rate_interval]))",
                    "updater turns",
                ),
                Query(
                    "60 * sum(rate(vpa_updater_blind_ticks_total[$__rate_interval]))",
                    "updater blind",
                ),
                Query(
                    "60 * sum(rate(vpa_admission_controller_upkeep_failures_total"
                    "[$__rate_interval]))",
                    "webhook upkeep",
                ),
                Query(
                    "60 * sum by (reason) (rate("
                    "vpa_admission_controller_misunderstood_reviews_total[$__rate_interval])) > 0",
                    "review {{reason}}",
                ),
            ),
        ),
    ),
)
_SAVED: Final = Row(
    "What did it save?",
    (
        _total("Cores freed", "cpu", "freed"),
        _total("Cores added", "cpu", "added"),
        _total("Memory freed", "memory", "freed", unit="bytes"),
        _total("Memory added", "memory", "added", unit="bytes"),
        Panel("Cores requested", "Of all pods with an autoscaler.", _requests("cpu")),
        Panel(
            "Memory requested",
            "Of all pods with an autoscaler.",
            _requests("memory"),
            unit="bytes",
        ),
        Panel(
            "How far usage is from the recommendation",
            "The middle of all samples: -0.3 is a third less than what is recommended.",
            _one(
                "histogram_quantile(0.5, sum by (le, resource) (rate("
                "vpa_quality_usage_recommendation_relative_diffs_bucket[$__rate_interval])))",
                "{{resource}}",
            ),
            unit="percentunit",
        ),
    ),
)
_TOUCHED: Final = Row(
    "Whom did it touch, and why?",
    (
        Panel(
            "Acts a minute",
            "Evictions, resizes and ends of boosts, and what came of them.",
            _one(
                "60 * sum by (act, result) (rate(vpa_updater_acts_total[$__rate_interval])) > 0",
                "{{act}} {{result}}",
            ),
        ),
        Panel(
            "New pods a minute",
            "And how each was admitted.",
            _one(
                "60 * sum by (outcome) (rate("
                "vpa_admission_controller_pod_outcomes_total[$__rate_interval])) > 0",
                "{{outcome}}",
            ),
        ),
        Panel(
            "OOM kills an hour",
            "Each raises the memory that is recommended.",
            _one(
                "3600 * sum(rate(vpa_recommender_samples_total"
                '{kind="oom_kill",outcome="accepted"}[$__rate_interval]))',
                "kills",
            ),
        ),
        Panel(
            "Evictions by autoscaler",
            "In the time that is shown.",
            _per_autoscaler("vpa_updater_evicted_pods_total"),
            kind="table",
        ),
        Panel(
            "Resizes by autoscaler",
            "In place, in the time that is shown; ends of boosts are among them.",
            _per_autoscaler("vpa_updater_in_place_updated_pods_total"),
            kind="table",
        ),
        Panel(
            "What the API server refused",
            "Evictions and resizes, in the time that is shown.",
            (
                Query(
                    "sum by (vpa_namespace, vpa_name, reason) (increase("
                    f"vpa_updater_failed_eviction_attempts_total{{{_HIS}}}[$__range])) >= 1"
                ),
                Query(
                    "sum by (vpa_namespace, vpa_name, reason) (increase("
                    f"vpa_updater_failed_in_place_update_attempts_total{{{_HIS}}}[$__range])) >= 1"
                ),
            ),
            kind="table",
        ),
        Panel(
            "Startup boosts",
            "Containers that are boosted now.",
            _one("sum(vpa_updater_boosted_containers)", "boosted"),
        ),
        Panel(
            "Boosts that end, a minute",
            "By cause.",
            _one(
                "60 * sum by (cause) (rate(vpa_updater_boosts_ended_total[$__rate_interval])) > 0",
                "{{cause}}",
            ),
        ),
        Panel(
            "Roles that change hands, an hour",
            "Where the role keeper runs.",
            _one(
                "3600 * sum by (change) (rate(vpa_roles_changes_total[$__rate_interval]))",
                "{{change}}",
            ),
        ),
    ),
)
_HELD: Final = Row(
    "What is held, and what keeps it?",
    (
        Panel(
            "Pods that are held",
            "By reason; docs/updater.md has what helps against each.",
            _one("sum by (reason) (vpa_updater_held_pods) > 0", "{{reason}}"),
            width=12,
        ),
        Panel(
            "Decisions to hold, an hour",
            "A pod that stays held counts once.",
            _one(
                "3600 * sum by (reason) (rate(vpa_updater_holds_total[$__rate_interval])) > 0",
                "{{reason}}",
            ),
            width=12,
        ),
        Panel(
            "Acts that wait for the rate limit",
            "More than none for hours: the limit is what keeps changes back.",
            _one("sum(vpa_updater_waiting_acts)", "waiting"),
        ),
        Panel(
            "Autoscalers",
            "By mode, and whether they have pods and a recommendation.",
            _one(
                "sum by (update_mode, has_recommendation, matches_pods) ("
                "vpa_recommender_vpa_objects_count) > 0",
            ),
            kind="table",
        ),
        Panel(
            "Workloads with a role",
            "By how their lease stands.",
            _one("sum by (standing) (vpa_roles_workloads) > 0", "{{standing}}"),
        ),
    ),
)
_COST: Final = Row(
    "What does it cost?",
    (
        Panel(
            "CPU",
            "Cores that each process uses.",
            _one(
                f"rate(process_cpu_seconds_total[$__rate_interval]) {_OURS}", "{{job}} {{instance}}"
            ),
        ),
        Panel(
            "Memory",
            "Of each process.",
            _one(f"process_resident_memory_bytes {_OURS}", "{{job}} {{instance}}"),
            unit="bytes",
        ),
        Panel(
            "What a new pod waits for the webhook",
            "Of all reviews of pods.",
            (
                Query(
                    "histogram_quantile(0.5, sum by (le) (rate(vpa_admission_controller_"
                    'admission_latency_seconds_bucket{resource="Pod"}[$__rate_interval])))',
                    "half of them",
                ),
                Query(
                    "histogram_quantile(0.99, sum by (le) (rate(vpa_admission_controller_"
                    'admission_latency_seconds_bucket{resource="Pod"}[$__rate_interval])))',
                    "99 of 100",
                ),
            ),
            unit="s",
        ),
        Panel(
            "Steps of the recommender",
            "How long each takes.",
            _one(_average("vpa_recommender_execution_latency_seconds"), "{{step}}"),
            unit="s",
        ),
        Panel(
            "Steps of the updater",
            "How long each takes.",
            _one(_average("vpa_updater_execution_latency_seconds"), "{{step}}"),
            unit="s",
        ),
        Panel(
            "What is kept and written",
            "Aggregates in memory; statuses and checkpoints a minute.",
            (
                Query("sum(vpa_recommender_aggregate_container_states_count)", "aggregates"),
                Query(
                    "60 * sum(rate(vpa_recommender_statuses_published_total[$__rate_interval]))",
                    "statuses",
                ),
                Query(
                    "60 * sum by (outcome) (rate("
                    "vpa_recommender_checkpoints_total[$__rate_interval]))",
                    "checkpoints {{outcome}}",
                ),
            ),
        ),
    ),
)
ROWS: Final = (_WORKS, _SAVED, _TOUCHED, _HELD, _COST)


def write_dashboard() -> str:
    """The dashboard as Grafana imports it."""
    document = {
        "uid": UID,
        "title": "Trimtab",
        "description": "A Vertical Pod Autoscaler: is it working, and what does it do?",
        "tags": ["kubernetes", "autoscaling", "trimtab"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": list(_lay_out(ROWS)),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _variables() -> list[Json]:
    namespaces = "label_values(vpa_updater_evicted_pods_total, vpa_namespace)"
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "namespace",
            "label": "Namespace of autoscalers",
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": namespaces, "refId": "namespaces"},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        },
    ]


def _lay_out(rows: Sequence[Row]) -> Iterator[Json]:
    """All panels with their places, each row headed by its question."""
    number, top = 1, 0
    for row in rows:
        yield _heading(row.question, number, top)
        number, left, top = number + 1, 0, top + 1
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                left, top = 0, top + _HEIGHT
            place = {"x": left, "y": top, "w": panel.width, "h": _HEIGHT}
            yield _picture(panel, number, place)
            number, left = number + 1, left + panel.width
        top += _HEIGHT


def _heading(question: str, number: int, top: int) -> Json:
    place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
    return {"id": number, "type": "row", "title": question, "gridPos": place, "panels": []}


def _picture(panel: Panel, number: int, place: Mapping[str, int]) -> Json:
    is_table = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": query.expression,
            "legendFormat": query.legend,
            "instant": is_table,
            "range": not is_table,
            **({"format": "table"} if is_table else {}),
        }
        for index, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {},
        "targets": targets,
    }
