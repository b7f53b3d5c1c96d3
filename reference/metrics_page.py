"""docs/metrics.md: all metrics of all components, and which of them are the original's."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reference import original_metrics
from reference.exposed import Exposed, list_metrics
from reference.original_metrics import OriginalMetric

_HEAD: Final = """\
# Metrics

Every component serves these at `/metrics`, as text for Prometheus: the recommender at `:8942`, the
updater at `:8943`, the admission controller at `:8944`, roles at `:8945`. Those that the original
has (version 1.8) keep its names, types, labels and buckets, so that dashboards and alerts go on
working. Beside them stand `process_*` and `python_*` of the client library, where the original has
`process_*` and `go_*`. A series that stands for an autoscaler goes when the autoscaler does.

How to look at them: [the dashboard and the alerts](observability.md). This page is written by
`make docs` from the code.
"""
_NOTES: Final[Mapping[str, str]] = {
    "recommender": """\
`vpa_quality_*` compares every sample with the uncapped target that stood before it. The series of
`kube_verticalpodautoscaler_*` are there with `--export-recommendations` alone, by the names that
kube-state-metrics once had. The steps `LoadHistory` and `LoadPressure` are ours.
""",
    "updater": """\
The steps are `AdmissionInit`, `ListPods`, `FilterPods` (the plan), `EvictPods` (acts are put on the
agenda) and `total`; the original's `ListVPAs` is part of `ListPods` here, as both come from memory.
No attempt fails by waiting for the rate limit, so there is no `…RateLimiterWaitFailed`.
""",
    "admission-controller": "With several `--workers` the first one shows the sum over all.\n",
    "roles": "The original has no such component.\n",
    "every component": "",
}
_ORIGINAL: Final[Mapping[str, OriginalMetric]] = {
    **original_metrics.RECOMMENDER,
    **original_metrics.UPDATER,
    **original_metrics.ADMISSION,
}


def write_page() -> str:
    """The whole page."""
    sections = (_section(name, metrics) for name, metrics in list_metrics().items())
    return "\n".join([_HEAD, *sections])


def _section(component: str, metrics: Sequence[Exposed]) -> str:
    note = _NOTES[component]
    lines = [f"## {component[0].upper()}{component[1:]}", "", *([note] if note else [])]
    return "\n".join([*lines, *_table(metrics), ""])


def _table(metrics: Sequence[Exposed]) -> Iterator[str]:
    yield "| Metric | Type | Labels | Meaning | Whose |"
    yield "|---|---|---|---|---|"
    for one in metrics:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        whose = "original" if one.name in _ORIGINAL else "ours"
        yield f"| `{one.name}` | {one.kind} | {labels} | {one.text} | {whose} |"
