"""Tokens of callers: reviewed by the API server, and requested from it."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from trimtab.api.decoding import DecodeError, Wire, decode
from trimtab.api.encoding import encode
from trimtab.core.page_access import Caller

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


class _Review(Wire, frozen=True, kw_only=True):
    status: _ReviewStatus | None = None


class _RequestStatus(Wire, frozen=True, kw_only=True):
    token: str | None = None


class _Request(Wire, frozen=True, kw_only=True):
    status: _RequestStatus | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)
_REQUEST: Final = msgspec.json.Decoder(_Request)


def encode_token_review(token: str, audiences: Sequence[str] = ()) -> bytes:
    """Return the JSON that asks whose token it is; without audiences, for the API server itself."""
    spec: dict[str, object] = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    return encode({"apiVersion": _AUTHENTICATION, "kind": "TokenReview", "spec": spec})


def decode_token_review(data: bytes, audiences: Sequence[str] = ()) -> Caller | None:
    """Return the owner of a token that was reviewed; None if the token is not accepted.

    An API server that does not know audiences leaves them out of its answer.
    """
    status = decode(_REVIEW, data).status or _ReviewStatus()
    user = status.user or _User()
    is_meant = not audiences or set(audiences) & set(status.audiences or ())
    if not status.authenticated or not is_meant or not user.username:
        return None
    return Caller(user.username, user.uid or "", user.groups or (), user.extra or {})


def encode_page_question(caller: Caller, path: str) -> bytes:
    """Return the JSON of a SubjectAccessReview: may the caller get the path?"""
    extra: Mapping[str, Sequence[str]] = caller.extra
    spec: dict[str, object] = {
        "user": caller.name,
        "uid": caller.uid,
        "groups": list(caller.groups),
        "extra": {name: list(values) for name, values in extra.items()},
        "nonResourceAttributes": {"verb": "get", "path": path},
    }
    return encode(
        {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    )


def encode_token_request(audience: str, seconds: int) -> bytes:
    """Return the JSON that asks for a token of a ServiceAccount, for one audience."""
    spec = {"audiences": [audience], "expirationSeconds": seconds}
    return encode({"apiVersion": _AUTHENTICATION, "kind": "TokenRequest", "spec": spec})


def decode_token_request(data: bytes) -> str:
    """Return the token; a DecodeError if the answer has none."""
    token = (decode(_REQUEST, data).status or _RequestStatus()).token
    if not token:
        raise DecodeError("status.token", "missing")
    return token
