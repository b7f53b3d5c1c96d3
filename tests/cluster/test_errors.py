"""Which error a status of the server means."""

import json
from datetime import timedelta

import pytest

from trimtab.api.wire.status_errors import Cause, Status, decode_status
from trimtab.cluster.errors import (
    ApiError,
    BudgetError,
    ClusterError,
    ConflictError,
    CredentialsError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    Right,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
    refusal,
)

BUDGET = Cause("DisruptionBudget", "The disruption budget web needs 2 healthy pods")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        pytest.param(Status(401), UnauthorizedError, id="401 is unauthorized"),
        pytest.param(Status(403), ForbiddenError, id="403 is forbidden"),
        pytest.param(Status(404), NotFoundError, id="404 is not found"),
        pytest.param(Status(409), ConflictError, id="409 is a conflict"),
        pytest.param(Status(409, "AlreadyExists"), ConflictError, id="existing is a conflict too"),
        pytest.param(Status(410), GoneError, id="410 is gone"),
        pytest.param(Status(422), InvalidError, id="422 is invalid"),
        pytest.param(Status(429), TooManyRequestsError, id="429 is too many requests"),
        pytest.param(Status(429, causes=(BUDGET,)), BudgetError, id="429 of a disruption budget"),
        pytest.param(Status(500, causes=(BUDGET,)), ApiError, id="500 for two budgets at once"),
        pytest.param(Status(418), ApiError, id="a status that nobody treats apart"),
        pytest.param(Status(), ApiError, id="a status that says nothing"),
    ],
)
def test_each_status_becomes_the_error_that_callers_catch(
    status: Status, kind: type[ApiError]
) -> None:
    error = refusal("GET /api", status)

    assert type(error) is kind
    assert error.request == "GET /api"
    assert error.causes == status.causes


@pytest.mark.parametrize(
    ("status", "text"),
    [
        pytest.param(Status(404, "NotFound", "no such pod"), "GET /x: no such pod", id="message"),
        pytest.param(Status(404, "NotFound"), "GET /x: NotFound", id="else the reason"),
        pytest.param(Status(404), "GET /x: 404", id="else the code"),
    ],
)
def test_an_error_says_what_was_asked_and_what_came_of_it(status: Status, text: str) -> None:
    assert str(refusal("GET /x", status)) == text


FORBIDDEN = 'is forbidden: User "system:serviceaccount:kube-system:vpa-updater" cannot'


@pytest.mark.parametrize(
    ("message", "right", "text"),
    [
        pytest.param(
            f"verticalpodautoscalers.autoscaling.k8s.io {FORBIDDEN} list resource "
            '"verticalpodautoscalers" in API group "autoscaling.k8s.io" at the cluster scope',
            Right("list", "verticalpodautoscalers", "autoscaling.k8s.io"),
            "list verticalpodautoscalers.autoscaling.k8s.io",
            id="of all namespaces",
        ),
        pytest.param(
            f'pods "web-0" {FORBIDDEN} create resource "pods/eviction" in API group "" '
            'in the namespace "shop": RBAC: role.rbac.authorization.k8s.io "x" not found',
            Right("create", "pods/eviction", "", "shop"),
            "create pods/eviction in shop",
            id="of one namespace and a subresource",
        ),
        pytest.param(
            'pods "web-0" is forbidden: exceeded quota: small, requested: cpu=1',
            None,
            "None",
            id="a quota is no right",
        ),
    ],
)
def test_f43_a_forbidden_request_names_the_missing_verb_and_resource(
    message: str, right: Right | None, text: str
) -> None:
    error = refusal("GET /x", Status(403, "Forbidden", message))

    assert isinstance(error, ForbiddenError)
    assert error.right == right
    assert str(error.right) == text


def test_too_many_requests_tell_how_long_to_wait() -> None:
    error = refusal("GET /x", Status(429, retry_after=timedelta(seconds=7)))

    assert isinstance(error, TooManyRequestsError)
    assert error.retry_after == timedelta(seconds=7)


def test_an_unreachable_server_may_or_may_not_have_got_the_request() -> None:
    refused = UnreachableError("PATCH /x", "connection refused", was_sent=False)
    silent = UnreachableError("PATCH /x", "timed out")

    assert str(refused) == "PATCH /x: connection refused"
    assert (refused.was_sent, silent.was_sent) == (False, True)


def test_broken_credentials_name_the_file_and_the_field() -> None:
    error = CredentialsError("/etc/kubeconfig", "users[me].token", "too strange")

    assert str(error) == "/etc/kubeconfig: users[me].token: too strange"
    assert str(CredentialsError("/etc/token", "", "is empty")) == "/etc/token: is empty"
    assert isinstance(error, ClusterError)


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        pytest.param({}, Status(), id="nothing at all"),
        pytest.param(
            {"code": None, "reason": None, "message": None, "details": None},
            Status(),
            id="nulls for everything",
        ),
        pytest.param(
            {"code": 429, "details": {"retryAfterSeconds": 10, "causes": [{"reason": "Slow"}]}},
            Status(429, causes=(Cause("Slow"),), retry_after=timedelta(seconds=10)),
            id="a delay and a cause",
        ),
        pytest.param(
            {"code": 422, "details": {"causes": [{"message": "must be set", "field": "spec"}]}},
            Status(422, causes=(Cause("", "must be set", "spec"),)),
            id="a field that is wrong",
        ),
        pytest.param({"details": {"retryAfterSeconds": 0}}, Status(), id="a delay of zero is none"),
        pytest.param({"details": {"retryAfterSeconds": -1}}, Status(), id="nor is a negative one"),
    ],
)
def test_a_status_is_read_with_all_that_it_leaves_out(
    wire: dict[str, object], status: Status
) -> None:
    assert decode_status(json.dumps(wire).encode()) == status
