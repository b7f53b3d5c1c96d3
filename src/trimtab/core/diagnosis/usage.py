"""Checks of usage and history: the metrics API covers all pods, and Prometheus has the past."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trimtab.core.diagnosis.durations import brief
from trimtab.core.diagnosis.findings import Finding, Severity, ok

PodName: TypeAlias = tuple[str, str]
"""Namespace and name."""

_FRESH: Final = timedelta(minutes=3)
"""Kubelets are read each 15 s to a minute."""
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class UsageFacts:
    """Readings of the metrics API, beside the pods that it should cover."""

    now: datetime
    readings: Mapping[PodName, datetime]
    """When each pod was last read."""
    expected: Collection[PodName]
    """Pods that have run for long enough to be read."""
    problem: str = ""
    """Reason why the metrics API does not answer, if it does not."""


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """Series that Prometheus has of the past."""

    address: str
    conventions: Mapping[str, str]
    """The labels that identify containers and pods."""
    series: Mapping[str, int]
    """Number of series of each metric."""
    problem: str = ""
    """Reason why nothing can be read there, if nothing can."""


def check_usage(facts: UsageFacts) -> Iterator[Finding]:
    """Check that the metrics API has fresh usage of all pods."""
    if facts.problem:
        yield Finding(
            Severity.PROBLEM,
            f"the metrics API does not answer, so nothing is learned: {facts.problem}",
            "kubectl get apiservice v1beta1.metrics.k8s.io; install or mend metrics-server",
        )
        return
    missing = sorted(set(facts.expected) - set(facts.readings))
    if missing:
        # Without any reading the metrics API is the cause, and not one kubelet.
        is_blind = len(missing) == len(set(facts.expected))
        yield Finding(
            Severity.PROBLEM if is_blind else Severity.WARNING,
            f"no usage is read of {len(missing)} of {len(facts.expected)} running pods "
            f"({_shorten(missing)}); nothing is learned from them",
            "kubectl top pods; then the log of metrics-server: a kubelet may not be reached",
        )
    stale = sorted(name for name, at in facts.readings.items() if facts.now - at > _FRESH)
    if stale:
        oldest = max(facts.now - facts.readings[name] for name in stale)
        yield Finding(
            Severity.WARNING,
            f"the usage of {len(stale)} pods ({_shorten(stale)}) is up to {brief(oldest)} "
            "old; what is recommended for them stays as it was",
            "look at the log of metrics-server",
        )
    if not missing and not stale:
        yield ok(f"usage of {len(facts.readings)} pods is read, and fresh")


def check_history(facts: HistoryFacts | None) -> Iterator[Finding]:
    """Check that Prometheus has the series that the recommender needs."""
    if facts is None:
        yield Finding(
            Severity.NOTE,
            "Prometheus was not asked; it is needed only by a recommender with "
            "--storage=prometheus",
            "name it: trimtab doctor --prometheus-address=http://...",
        )
        return
    if facts.problem:
        yield Finding(
            Severity.PROBLEM,
            f"the past cannot be read: {facts.problem}",
            "try the address from where the recommender runs; check the flags that name its labels",
        )
        return
    for metric, count in facts.series.items():
        if not count:
            yield Finding(
                Severity.PROBLEM,
                f"{facts.address} has no recent series of {metric}: that part of the past is lost",
                "let Prometheus scrape the kubelets' /metrics/cadvisor",
            )
    if facts.conventions.get("pod_labels", "") == facts.conventions.get("pod_owners", ""):
        yield Finding(
            Severity.WARNING,
            f"{facts.address} has neither labels nor owners of pods, so the past of pods that "
            "are gone belongs to no workload",
            "let Prometheus scrape kube-state-metrics",
        )
    conventions = ", ".join(f"{key} {value}" for key, value in sorted(facts.conventions.items()))
    if all(facts.series.values()):
        yield ok(f"{facts.address} has the series that are needed: {conventions}")


def _shorten(names: list[PodName]) -> str:
    shown = ", ".join("/".join(name) for name in names[:_SHOWN])
    return f"{shown} …" if len(names) > _SHOWN else shown
