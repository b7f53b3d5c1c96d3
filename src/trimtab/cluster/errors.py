"""Errors of the API server, sorted by what a caller can do about them.

    ClusterError
    ├── CredentialsError           a kubeconfig, a token or a plugin is broken
    │   └── PluginError            a plugin that a kubeconfig names gives no credentials
    ├── RivalError                 something other than Trimtab holds our lease
    ├── HistoryError               past usage cannot be read now
    │   └── TooMuchHistoryError    a part of it is too large to be read at once
    └── ApiError                   a request that failed, with any status not listed below
        ├── UnauthorizedError      401: the server does not know us
        ├── ForbiddenError         403: a right is missing (`right` says which), or a quota is full
        ├── NotFoundError          404
        ├── ConflictError          409: another client was faster, or the object exists already
        ├── GoneError              410: the server has forgotten that version; list again
        ├── InvalidError           422: the server does not accept the object or the patch
        ├── TooManyRequestsError   429: try later, perhaps after `retry_after`
        │   └── BudgetError        a PodDisruptionBudget does not allow the eviction now
        └── UnreachableError       no answer, or not all of it: network, TLS, timeouts
            └── TooLargeError      the answer has more bytes than a component takes

The error of the library below stays as `__cause__`.
"""

import errno
import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from trimtab.api.wire.status_errors import Cause, Status

_MISSING_RIGHT: Final = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_BUDGET_CAUSE: Final = "DisruptionBudget"
LONGEST_WAIT: Final = timedelta(seconds=30)
"""The longest `Retry-After` that a component obeys: a larger one would blind it for as long."""


class ClusterError(Exception):
    """Any error in the work with the cluster."""


class CredentialsError(ClusterError):
    """Credentials that cannot be used; the message names their place and the problem."""

    def __init__(self, source: str, field: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (source, field, problem) if part))
        self.source = source
        """The file, program or folder."""
        self.field = field
        """The path of the field in it; empty if the error is about the whole."""
        self.problem = problem


class PluginError(CredentialsError):
    """A plugin that a kubeconfig names does not give us credentials."""

    def __init__(self, program: str, field: str, problem: str) -> None:
        super().__init__(f"the plugin {program} that the kubeconfig names", field, problem)
        self.source = program


class RivalError(ClusterError):
    """The lease that we want is held, and renewed, by something other than Trimtab (F42)."""

    def __init__(self, lease: str, holder: str) -> None:
        super().__init__(
            f"the lease {lease} is held by {holder}, which is not Trimtab: another autoscaler "
            "seems to run here; stop it, or name another lease by --leader-elect-resource-name"
        )
        self.holder = holder


class HistoryError(ClusterError):
    """Past usage cannot be read now; the message names the source and the problem."""


class TooMuchHistoryError(HistoryError):
    """A part of history is too large to be read at once; smaller parts may work."""


class ApiError(ClusterError):
    """A request that failed."""

    def __init__(self, request: str, status: Status) -> None:
        super().__init__(f"{request}: {status.message or status.reason or status.code}")
        self.request = request
        """The method and the path."""
        self.status = status

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The fields or rules that the server names."""
        return self.status.causes


class UnauthorizedError(ApiError):
    """The server does not know who we are."""


@dataclass(frozen=True, slots=True)
class Right:
    """A right that a role would have to allow."""

    verb: str
    resource: str
    """With its subresource: `pods/eviction`."""
    group: str = ""
    namespace: str = ""
    """Empty for all namespaces."""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}" + (f" in {self.namespace}" if self.namespace else "")


class ForbiddenError(ApiError):
    """We lack the right, or a policy or quota forbids it."""

    @property
    def right(self) -> Right | None:
        """The right that is missing; None where something other than roles forbids it."""
        found = _MISSING_RIGHT.search(self.status.message)
        if found is None:
            return None
        return Right(found["verb"], found["resource"], found["group"], found["namespace"] or "")


def missing_right(
    request: str, verb: str, resource: str, *, group: str = "", namespace: str = ""
) -> ForbiddenError:
    """Return the error that the server would give to a request that it is known to refuse."""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = f'cannot {verb} resource "{resource}" in API group "{group}" {where}'
    status = Status(code=HTTPStatus.FORBIDDEN, reason="Forbidden", message=message)
    return ForbiddenError(request, status)


class NotFoundError(ApiError):
    """There is no such object."""


class ConflictError(ApiError):
    """The object is not, or no longer, in the version that was expected."""


class GoneError(ApiError):
    """The server has forgotten the version from which a watch or a list should go on."""


class InvalidError(ApiError):
    """The server does not accept what we sent."""


class TooManyRequestsError(ApiError):
    """The server asks for fewer requests."""

    @property
    def retry_after(self) -> timedelta | None:
        """Wait that the server asks for, at most `LONGEST_WAIT`; None if it asks for none."""
        wanted = self.status.retry_after
        return None if wanted is None else min(wanted, LONGEST_WAIT)


class BudgetError(TooManyRequestsError):
    """A PodDisruptionBudget protects the pod."""


class UnreachableError(ApiError):
    """The server did not answer, or not completely."""

    def __init__(self, request: str, problem: str, *, was_sent: bool = True) -> None:
        super().__init__(request, Status(message=problem))
        self.was_sent = was_sent
        """True if the request may have reached the server."""


class TooLargeError(UnreachableError):
    """The answer has more bytes than the client takes; a smaller page may work."""


_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    HTTPStatus.UNAUTHORIZED: UnauthorizedError,
    HTTPStatus.FORBIDDEN: ForbiddenError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.GONE: GoneError,
    HTTPStatus.UNPROCESSABLE_ENTITY: InvalidError,
    HTTPStatus.TOO_MANY_REQUESTS: TooManyRequestsError,
}


def describe(error: Exception) -> str:
    """Describe an error of the network, in words for people where there are any."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the certificate is not trusted: {error.verify_message.rstrip('.')}"
        case ssl.SSLError(reason=str() as reason):
            return f"TLS failed: {reason.replace('_', ' ').lower()}"
        case socket.gaierror():
            return "the name of the host cannot be found"
        case TimeoutError():
            return "no answer in time"
        case OSError(strerror=str() as text, errno=int() as number) if number > 0:
            # asyncio's text names the call that failed, the system's text the reason.
            return os.strerror(number).lower() if number in errno.errorcode else text
        case _:
            return str(error) or type(error).__name__


def refusal(request: str, status: Status) -> ApiError:
    """Return the error that a status of the server stands for."""
    kind = _BY_CODE.get(status.code, ApiError)
    if kind is TooManyRequestsError and any(c.reason == _BUDGET_CAUSE for c in status.causes):
        kind = BudgetError
    return kind(request, status)
