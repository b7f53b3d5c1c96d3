"""`trimtab run`: all components in one process beside a cluster, as their flags say.

They share the connection, the views of the cluster, the log and the address; the module of each
component builds it. This is for small clusters and trials: in larger ones each component should
have its own replicas and permissions.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from structlog.contextvars import bound_contextvars

from trimtab.cli.components import admission, admission_webhook, recommender, roles, updater
from trimtab.cli.errors import FailedError, NoClusterError
from trimtab.cli.flags import run, start
from trimtab.cli.flags.common import CommonFlags
from trimtab.cli.flags.run import RunFlags, SharedFlags
from trimtab.cli.runtime import component, http_server, logs, process
from trimtab.cli.runtime.workers import WorkerProcesses

_COMMON: Final = SharedFlags()
_FLAGS: Final = RunFlags()
_NAME: Final = "run"
_PORT: Final = 8942
_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
"""Environment variable that is set in every pod."""
_WITHOUT_CLUSTER: Final = "to see everything at work without a cluster: trimtab demo"
_WITHOUT_ADMISSION: Final = (
    "the admission controller is left out, since the API server finds no Service for it outside of"
    " the cluster: register it by --register-by-url --webhook-address=https://HOST"
    " --webhook-port=8000, or pass --no-admission"
)


def run_all(
    *,
    flags: RunFlags = _FLAGS,
    common: SharedFlags = _COMMON,
) -> int:
    """Run all components until a signal ends them; return the exit code."""
    together = flags.together
    address = choose_address(together.address, os.environ)
    http_server.parse_address(address)
    orders = _check(run.share(flags), common, os.environ)
    warnings = [*orders.list_warnings(), *component.check_variables(common, flags)]
    with ExitStack() as open_endpoints, bound_contextvars(component=_NAME):
        parts = list(orders.make_parts(open_endpoints))
        logs.set_up(common.logs)
        start.log_start(_NAME, common, flags, warnings)
        serve = partial(component.serve, common, address, parts)
        try:
            return process.run(partial(serve, context=together.context))
        except NoClusterError as error:
            raise FailedError(f"{error}; {_WITHOUT_CLUSTER}") from error


def choose_address(given: str, environment: Mapping[str, str]) -> str:
    """Return the address to listen on.

    Outside a pod only this machine may read pages. In a pod the kubelet has to reach them.
    """
    usual = f":{_PORT}" if _IN_CLUSTER in environment else f"127.0.0.1:{_PORT}"
    return given or usual


@dataclass(frozen=True, slots=True)
class _Orders:
    """The checked command lines of the components."""

    recommender: recommender.RecommenderOrder
    updater: updater.UpdaterOrder
    admission: admission.AdmissionOrder | None
    roles: roles.RolesOrder | None
    advice: Sequence[str]

    def make_parts(self, open_endpoints: ExitStack) -> Iterator[component.ComponentSpec]:
        """Yield the specs of the components; the stack closes their sockets."""
        yield recommender.make_part(self.recommender)
        yield updater.make_part(self.updater)
        if self.admission is not None:
            endpoint = open_endpoints.enter_context(admission.opened(self.admission))
            yield admission.make_part(self.admission, endpoint, WorkerProcesses())
        if self.roles is not None:
            yield roles.make_part(self.roles)

    def list_warnings(self) -> list[str]:
        """Return warnings about the command line."""
        # Warnings about common flags are the same for all components.
        return [*self.recommender.warnings, *self.advice]


def _check(flags: RunFlags, common: CommonFlags, environment: Mapping[str, str]) -> _Orders:
    """Check the flags; a UsageError if they are invalid."""
    together, given = flags.together, flags.admission.registration
    is_reached = given.register_by_url or not given.register_webhook or _IN_CLUSTER in environment
    has_admission = is_reached and not together.no_admission
    advice = recommender.list_advice(flags.recommender)
    if has_admission:
        advice = [*advice, *admission_webhook.list_advice(flags.admission)]
    elif not together.no_admission:
        advice = [*advice, _WITHOUT_ADMISSION]
    return _Orders(
        recommender.check((), flags.recommender, common),
        updater.check((), flags.updater, common),
        admission.check((), flags.admission, common) if has_admission else None,
        roles.check((), flags.roles, common) if together.roles else None,
        advice,
    )
