"""A report for programs: the record of JSON and YAML, and the rows of CSV."""

from collections.abc import Iterator
from typing import Final

from trimtab.cli.output import amounts
from trimtab.cli.report.observe import ClusterReport
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.report.sizes import ContainerSizing, WorkloadSizing

_COLUMNS: Final = (
    "namespace",
    "kind",
    "name",
    "autoscaler",
    "container",
    "pods",
    "samples",
    "history_seconds",
    "confidence",
    "resource",
    "request",
    "recommended_request",
    "limit",
    "recommended_limit",
    "change",
    "node_share",
    "severity",
    "doubt",
)


def csv_rows(report: ClusterReport) -> Iterator[list[object]]:
    """Yield the titles, then a row per container and resource, in millicores and bytes."""
    yield [*_COLUMNS]
    for workload in report.workloads:
        for container in workload.containers:
            for resource in BOTH:
                yield _csv_row(workload, container, resource)


def to_record(report: ClusterReport) -> dict[str, object]:
    """Return the whole report as one record."""
    totals = report.totals
    return {
        "source": report.source,
        "score": totals.score,
        "requested": amounts.write_quantities(totals.requested),
        "recommended": amounts.write_quantities(totals.wanted),
        "capacity": amounts.write_quantities(totals.capacity),
        "workloads": [_workload_record(each) for each in report.workloads],
        "notes": list(report.notes),
    }


def _workload_record(workload: WorkloadSizing) -> dict[str, object]:
    return {
        "namespace": workload.workload.namespace,
        "kind": workload.workload.kind,
        "name": workload.workload.name,
        "apiVersion": workload.api_version or None,
        "autoscaler": None if workload.autoscaler is None else workload.autoscaler.name,
        "pods": workload.pods,
        "severity": workload.severity.value,
        "binding": workload.binding and workload.binding.value,
        "nodeShares": {kind.value: round(share, 4) for kind, share in workload.shares.items()},
        "containers": [_container_record(each) for each in workload.containers],
    }


def _container_record(container: ContainerSizing) -> dict[str, object]:
    change = {kind: container.difference(kind) for kind in BOTH if container.recommended}
    return {
        "name": container.name,
        "pods": container.pods,
        "severity": container.severity.value,
        "severities": {kind.value: container.severity_of(kind).value for kind in BOTH},
        "current": _allocation_record(container.current),
        "recommended": container.recommended and _allocation_record(container.recommended),
        "change": {kind.value: amount for kind, amount in change.items()},
        "samples": container.learned.samples,
        "historySeconds": int(container.learned.span.total_seconds()),
        "confidence": round(container.learned.confidence, 4),
        "doubt": container.doubt and container.doubt.value,
        "held": [kind.value for kind in BOTH if kind in container.held],
    }


def _allocation_record(allocation: Allocation) -> dict[str, object]:
    return {
        "requests": amounts.write_quantities(allocation.requests or NO_AMOUNTS),
        "limits": amounts.write_quantities(allocation.limits or NO_AMOUNTS),
    }


def _csv_row(
    workload: WorkloadSizing, container: ContainerSizing, resource: Resource
) -> list[object]:
    name, recommended = workload.workload, container.recommended or Allocation()
    quantities = (
        container.current.requests,
        recommended.requests,
        container.current.limits,
        recommended.limits,
    )
    return [
        *(name.namespace, name.kind, name.name),
        "" if workload.autoscaler is None else workload.autoscaler.name,
        *(container.name, container.pods, container.learned.samples),
        int(container.learned.span.total_seconds()),
        *(f"{container.learned.confidence:.4f}", resource.value),
        *((each or NO_AMOUNTS).get(resource, "") for each in quantities),
        container.difference(resource) if container.recommended else "",
        f"{workload.shares[resource]:.4f}" if resource in workload.shares else "",
        *(container.severity_of(resource).value, container.doubt or ""),
    ]
