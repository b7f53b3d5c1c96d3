"""Access reviews: questions about permissions of our own account or of another one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import msgspec

from trimtab.api.wire import codec
from trimtab.api.wire.codec import DecodeError, Wire
from trimtab.core.webhook.page_access import Caller


class _Status(Wire, frozen=True, kw_only=True):
    allowed: bool | None = None
    denied: bool | None = None


class _Review(Wire, frozen=True, kw_only=True):
    status: _Status | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)


@dataclass(frozen=True, slots=True)
class Question:
    """A permission to ask about."""

    verb: str
    resource: str
    """With its subresource: `pods/eviction`."""
    group: str = ""
    name: str = ""
    """Name of one object; empty for any."""
    namespace: str = ""
    """Empty for all namespaces."""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {resource}{named}" + (f" in {self.namespace}" * bool(self.namespace))


def list_questions(
    rules: Sequence[Mapping[str, Sequence[str]]], namespace: str = ""
) -> Iterator[Question]:
    """Yield everything that some rules of a role allow, in a namespace or everywhere."""
    for rule in rules:
        names = rule.get("resourceNames") or ("",)
        for group, resource, name, verb in product(
            rule["apiGroups"], rule["resources"], names, rule["verbs"]
        ):
            yield Question(verb, resource, group, name, namespace)


def encode_question(question: Question, account: tuple[str, str] | None = None) -> bytes:
    """Return the JSON of a question about our own account or a ServiceAccount (namespace, name)."""
    resource, _, subresource = question.resource.partition("/")
    attributes = {
        "verb": question.verb,
        "group": question.group,
        "resource": resource,
        "subresource": subresource,
        "name": question.name,
        "namespace": question.namespace,
    }
    spec: dict[str, object] = {"resourceAttributes": attributes}
    if account is not None:
        namespace, name = account
        spec["user"] = f"system:serviceaccount:{namespace}:{name}"
        accounts = "system:serviceaccounts"
        spec["groups"] = [accounts, f"{accounts}:{namespace}", "system:authenticated"]
    kind = "SelfSubjectAccessReview" if account is None else "SubjectAccessReview"
    return codec.encode({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})


def decode_answer(data: bytes) -> bool | None:
    """Return the answer in the JSON of a review; None if it has none.

    A denial outweighs a permission: an answer with both is in error.
    """
    status = codec.decode(_REVIEW, data).status
    if status is None:
        return None
    return False if status.denied else status.allowed


_AUTHENTICATION: Final = "authentication.k8s.io/v1"


class _User(Wire, frozen=True, kw_only=True):
    username: str | None = None
    uid: str | None = None
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _ReviewStatus(Wire, frozen=True, kw_only=True):
    authenticated: bool | None = None
    user: _User | None = None
    audiences: tuple[str, ...] | None = None


class _TokenReview(Wire, frozen=True, kw_only=True):
    status: _ReviewStatus | None = None


class _RequestStatus(Wire, frozen=True, kw_only=True):
    token: str | None = None


class _Request(Wire, frozen=True, kw_only=True):
    status: _RequestStatus | None = None


_TOKEN_REVIEW: Final = msgspec.json.Decoder(_TokenReview)
_REQUEST: Final = msgspec.json.Decoder(_Request)


def encode_token_review(token: str, audiences: Sequence[str] = ()) -> bytes:
    """Return the JSON that asks for the owner of a token; without audiences, for the API server."""
    spec: dict[str, object] = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    return codec.encode({"apiVersion": _AUTHENTICATION, "kind": "TokenReview", "spec": spec})


def decode_token_review(data: bytes, audiences: Sequence[str] = ()) -> Caller | None:
    """Return the owner of a reviewed token; None if the token is not accepted.

    An API server that does not support audiences omits them from its answer.
    """
    status = codec.decode(_TOKEN_REVIEW, data).status or _ReviewStatus()
    user = status.user or _User()
    is_meant = not audiences or set(audiences) & set(status.audiences or ())
    if not status.authenticated or not is_meant or not user.username:
        return None
    return Caller(user.username, user.uid or "", user.groups or (), user.extra or {})


def encode_page_question(caller: Caller, path: str) -> bytes:
    """Return the JSON of a SubjectAccessReview that asks if the caller may get the path."""
    extra: Mapping[str, Sequence[str]] = caller.extra
    spec: dict[str, object] = {
        "user": caller.name,
        "uid": caller.uid,
        "groups": list(caller.groups),
        "extra": {name: list(values) for name, values in extra.items()},
        "nonResourceAttributes": {"verb": "get", "path": path},
    }
    return codec.encode(
        {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    )


def encode_token_request(audience: str, seconds: int) -> bytes:
    """Return the JSON that requests a token of a ServiceAccount for one audience."""
    spec = {"audiences": [audience], "expirationSeconds": seconds}
    return codec.encode({"apiVersion": _AUTHENTICATION, "kind": "TokenRequest", "spec": spec})


def decode_token_request(data: bytes) -> str:
    """Return the token; raises DecodeError if the answer has none."""
    token = (codec.decode(_REQUEST, data).status or _RequestStatus()).token
    if not token:
        raise DecodeError("status.token", "missing")
    return token
