"""What can go wrong with the API server, by what a caller can do about it.

    ClusterError
    ├── CredentialsError           no way in: a kubeconfig, a token or a plugin is broken
    │   └── PluginError            a plugin that a kubeconfig names gives nothing
    ├── RivalError                 our lease is in the hands of something other than Trimtab
    ├── HistoryError               past usage cannot be read now
    │   └── TooMuchHistoryError    a part of it is too large to be read at once
    └── ApiError                   a request that failed; any status that nobody treats apart
        ├── UnauthorizedError      401: the server does not know us
        ├── ForbiddenError         403: a right is missing (`right` says which), or a quota is full
        ├── NotFoundError          404
        ├── ConflictError          409: somebody was faster, or it exists already
        ├── GoneError              410: that version is forgotten; list anew
        ├── InvalidError           422: the server does not accept the object or the patch
        ├── TooManyRequestsError   429: later, perhaps after `retry_after`
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
    """Anything that keeps us from the cluster."""


class CredentialsError(ClusterError):
    """Something that should let us in and does not: says where it stands and what is wrong."""

    def __init__(self, source: str, field: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (source, field, problem) if part))
        self.source = source
        """The file, program or folder."""
        self.field = field
        """The path of the field in it; empty where it is about the whole."""
        self.problem = problem


class PluginError(CredentialsError):
    """A program that a kubeconfig names does not give us what lets us in."""

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
    """Past usage cannot be read now; says from where and what is wrong."""


class TooMuchHistoryError(HistoryError):
    """A part of history is too large to be read at once; smaller parts may do."""


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
    """What a role would have to allow."""

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
    """We may not do that."""

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
    """What the server would say to a request that it is known to refuse."""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = f'cannot {verb} resource "{resource}" in API group "{group}" {where}'
    status = Status(code=HTTPStatus.FORBIDDEN, reason="Forbidden", message=message)
    return ForbiddenError(request, status)


class NotFoundError(ApiError):
    """There is no such object."""


class ConflictError(ApiError):
    """The object is not, or no longer, what we took it for."""


class GoneError(ApiError):
    """The server has forgotten the version from which we wanted to go on."""


class InvalidError(ApiError):
    """The server does not accept what we sent."""


class TooManyRequestsError(ApiError):
    """The server wants us to come later."""

    @property
    def retry_after(self) -> timedelta | None:
        """Wait that the server asks for, at most `LONGEST_WAIT`; None if it asks for none."""
        wanted = self.status.retry_after
        return None if wanted is None else min(wanted, LONGEST_WAIT)


class BudgetError(TooManyRequestsError):
    """A PodDisruptionBudget protects the pod."""


class UnreachableError(ApiError):
    """The server did not answer, or not to the end."""

    def __init__(self, request: str, problem: str, *, was_sent: bool = True) -> None:
        super().__init__(request, Status(message=problem))
        self.was_sent = was_sent
        """Whether the request may have reached the server."""


class TooLargeError(UnreachableError):
    """The answer has more bytes than we take; a smaller page may do."""


_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    HTTPStatus.UNAUTHORIZED: UnauthorizedError,
    HTTPStatus.FORBIDDEN: ForbiddenError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.GONE: GoneError,
    HTTPStatus.UNPROCESSABLE_ENTITY: InvalidError,
    HTTPStatus.TOO_MANY_REQUESTS: TooManyRequestsError,
}


def tell(error: Exception) -> str:
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
            # The text of asyncio names the call that failed, that of the system the reason.
            return os.strerror(number).lower() if number in errno.errorcode else text
        case _:
            return str(error) or type(error).__name__


def refusal(request: str, status: Status) -> ApiError:
    """The error that a status of the server means."""
    kind = _BY_CODE.get(status.code, ApiError)
    if kind is TooManyRequestsError and any(c.reason == _BUDGET_CAUSE for c in status.causes):
        kind = BudgetError
    return kind(request, status)
