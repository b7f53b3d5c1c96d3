"""The role keeper's metrics, from its reports."""

from collections import Counter as Tally
from typing import Final, assert_never

from prometheus_client import Counter, Gauge

from trimtab.core.roles import Standing
from trimtab.roles.reports import (
    Broken,
    Changed,
    Outdated,
    RoleChangeFailed,
    RoleReport,
    RolesPlanned,
    RoleViewNotReady,
)

GROUPS: Final = Gauge(
    "vpa_roles_workloads",
    "Workloads that have a role to give, by how that stands now.",
    ["standing"],
)
CHANGES: Final = Counter(
    "vpa_roles_changes",
    "How often a pod got the role (Give) or lost it (Take).",
    ["change"],
)
FAILURES: Final = Counter(
    "vpa_roles_failed_changes",
    "How often what was begun about a workload could not be done.",
)
OUTDATED: Final = Counter(
    "vpa_roles_outdated_plans",
    "How often nothing was done yet because a lease was not what the view of it showed.",
)
BLIND_TICKS: Final = Counter(
    "vpa_roles_blind_ticks",
    "Ticks that found out nothing because the view of the cluster was old or not complete.",
)
FAILED_TICKS: Final = Counter("vpa_roles_failed_ticks", "Ticks that failed as a whole.")


def note(report: RoleReport) -> None:
    """Count a report."""
    match report:
        case RolesPlanned(plans):
            counts = Tally(plan.standing for plan in plans)
            for standing in Standing:
                GROUPS.labels(standing).set(counts[standing])
        case Changed(change=change):
            CHANGES.labels(change).inc()
        case RoleChangeFailed():
            FAILURES.inc()
        case Outdated():
            OUTDATED.inc()
        case RoleViewNotReady():
            BLIND_TICKS.inc()
        case Broken():
            FAILED_TICKS.inc()
        case _:
            assert_never(report)
