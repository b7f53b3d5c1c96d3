"""The role keeper's log: an event for each change, and for each workload whose standing differs."""

from typing import Final, assert_never

import structlog

from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.roles import RolePlan, Standing
from trimtab.roles.reports import (
    Broken,
    Changed,
    Outdated,
    RoleChangeFailed,
    RoleReport,
    RolesPlanned,
    RoleViewNotReady,
)

_logger: Final = structlog.stdlib.get_logger(__name__)


class RoleLogger:
    """Logs reports; the standing of a workload only if it has changed."""

    def __init__(self) -> None:
        self._logged: dict[WorkloadName, tuple[Standing, str | None]] = {}

    def log(self, report: RoleReport) -> None:
        """Log a report."""
        match report:
            case RolesPlanned(plans):
                for plan in plans:
                    self._log_standing(plan)
                self._logged = {plan.post.workload: _standing(plan) for plan in plans}
            case Changed(plan, pod, change):
                _logger.info("role changed", change=change.value, pod=_name(pod), **_about(plan))
            case Outdated(plan):
                _logger.debug("lease not as seen", **_about(plan))
            case RoleChangeFailed(plan, error):
                _logger.warning("role not changed", **_about(plan), error=str(error))
            case RoleViewNotReady():
                _logger.debug("nothing done: the view of the cluster is old or not complete")
            case Broken():
                # The loop itself has logged the failed tick, with a traceback.
                pass
            case _:
                assert_never(report)

    def _log_standing(self, plan: RolePlan) -> None:
        if self._logged.get(plan.post.workload) != _standing(plan):
            holder = None if plan.holder is None else plan.holder.name
            _logger.info("role stands otherwise", holder=holder, **_about(plan))


def _standing(plan: RolePlan) -> tuple[Standing, str | None]:
    return plan.standing, None if plan.holder is None else plan.holder.uid


def _about(plan: RolePlan) -> dict[str, str]:
    post = plan.post
    return {
        "workload": "/".join(post.workload),
        "lease": post.lease,
        "standing": plan.standing.value,
    }


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
