"""How the simulated API server says no: the same errors, with the same meaning, as the real one."""

from datetime import timedelta
from http import HTTPStatus

from trimtab.api.statuses import Cause, Status
from trimtab.cluster import errors
from trimtab.cluster.errors import ApiError, Right


def refuse(request: str, code: HTTPStatus, message: str = "", *causes: Cause) -> ApiError:
    """The error that a status of the server means."""
    return errors.refusal(request, Status(code, code.phrase, message or code.phrase, causes))


def not_found(request: str) -> ApiError:
    """There is no such object."""
    return refuse(request, HTTPStatus.NOT_FOUND)


def conflict(request: str, message: str = "the object has been modified") -> ApiError:
    """The object is not what it was taken for."""
    return refuse(request, HTTPStatus.CONFLICT, message)


def invalid(request: str, field: str, message: str) -> ApiError:
    """The server does not accept the object; it says which field."""
    cause = Cause("FieldValueInvalid", message, field)
    return refuse(request, HTTPStatus.UNPROCESSABLE_ENTITY, f"{field}: {message}", cause)


def forbidden(request: str, message: str) -> ApiError:
    """Something, a role or a quota, does not allow it."""
    return refuse(request, HTTPStatus.FORBIDDEN, message)


def lacks_right(request: str, right: Right) -> ApiError:
    """No role gives the component that right."""
    return forbidden(
        request,
        f'cannot {right.verb} resource "{right.resource}" in API group "{right.group}"'
        + (f' in the namespace "{right.namespace}"' if right.namespace else ""),
    )


def over_budget(request: str, budget: str) -> ApiError:
    """A PodDisruptionBudget does not allow it now."""
    cause = Cause("DisruptionBudget", f"The disruption budget {budget} does not allow it.")
    return refuse(request, HTTPStatus.TOO_MANY_REQUESTS, "", cause)


def too_many_requests(request: str, retry_after: timedelta | None = None) -> ApiError:
    """The server wants the caller to come later."""
    code = HTTPStatus.TOO_MANY_REQUESTS
    status = Status(code, code.phrase, "the server is busy", retry_after=retry_after)
    return errors.refusal(request, status)
