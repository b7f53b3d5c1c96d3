"""Past pods: which labels a pod of the past had, as far as those who scraped it tell.

Metrics have no place for every character of a label's name, so that `app.kubernetes.io/name` comes
back as `app_kubernetes_io_name`. The names that selectors and living pods use are known: what could
be one of them is taken for it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_NOT_IN_METRICS: Final = re.compile(r"[^a-zA-Z0-9_]")
_HUMP: Final = re.compile(r"([a-z0-9])([A-Z])")


@dataclass(frozen=True, slots=True)
class PodTrace:
    """What one series tells of a pod: its labels, and until when that was so."""

    pod: str
    labels: Mapping[str, str]
    """With the names that metrics can have."""
    until: float
    """Seconds since the epoch."""


def restore_labels(
    traces: Iterable[PodTrace], known_names: Iterable[str]
) -> dict[str, dict[str, str]]:
    """The labels of each pod, the newest where they changed, under the names that are known."""
    by_form: dict[str, list[str]] = {}
    for name in sorted(set(known_names)):
        by_form.setdefault(_form(name), []).append(name)
    newest: dict[str, PodTrace] = {}
    for trace in traces:
        known = newest.get(trace.pod)
        if known is None or known.until <= trace.until:
            newest[trace.pod] = trace
    return {
        pod: {
            name: value
            for told, value in trace.labels.items()
            for name in by_form.get(_form(told), [told])
        }
        for pod, trace in newest.items()
    }


def _form(name: str) -> str:
    """What is left of a name in metrics; kube-state-metrics takes humps away, too."""
    return _HUMP.sub(r"\1_\2", _NOT_IN_METRICS.sub("_", name)).lower()
