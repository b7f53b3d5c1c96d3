"""Past pods: which labels and owners a pod of the past had, as far as those who scraped it tell.

Metrics have no place for every character of a label's name, so that `app.kubernetes.io/name` comes
back as `app_kubernetes_io_name`. The names that selectors and living pods use are known: what could
be one of them is taken for it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from trimtab.core.records import dataclass

_NOT_IN_METRICS: Final = re.compile(r"[^a-zA-Z0-9_]")
_HUMP: Final = re.compile(r"([a-z0-9])([A-Z])")


Owner: TypeAlias = tuple[str, str]
"""The kind and the name of a workload."""


@dataclass(frozen=True, slots=True)
class PastPod:
    """What is known of a pod that is gone."""

    labels: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    """Its workload, and what owns that; the direct owner first."""


@dataclass(frozen=True, slots=True)
class PodTrace:
    """What is told of a pod: its labels or its owners, and until when that was so."""

    pod: str
    labels: Mapping[str, str]
    """With the names that metrics can have."""
    until: float
    """Seconds since the epoch."""
    owners: tuple[Owner, ...] = ()


def restore_pods(traces: Iterable[PodTrace], known_names: Iterable[str]) -> dict[str, PastPod]:
    """What is known of each pod, the newest where it changed, under the names that are known."""
    by_form: dict[str, list[str]] = {}
    for name in sorted(set(known_names)):
        by_form.setdefault(_form(name), []).append(name)
    newest: dict[str, PodTrace] = {}
    for trace in traces:
        known = newest.get(trace.pod)
        if known is None or known.until <= trace.until:
            newest[trace.pod] = trace
    return {
        pod: PastPod(
            {
                name: value
                for told, value in trace.labels.items()
                for name in by_form.get(_form(told), [told])
            },
            trace.owners,
        )
        for pod, trace in newest.items()
    }


def list_owners(owner: Owner, owners: Mapping[Owner, Owner]) -> tuple[Owner, ...]:
    """An owner and all who own it in turn, given who owns whom."""
    found = [owner]
    while (above := owners.get(found[-1])) is not None and above not in found:
        found.append(above)
    return tuple(found)


def _form(name: str) -> str:
    """What is left of a name in metrics; kube-state-metrics takes humps away, too."""
    return _HUMP.sub(r"\1_\2", _NOT_IN_METRICS.sub("_", name)).lower()
