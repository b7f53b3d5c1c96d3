"""Reviews of our own access: the question whether we may do something, which nobody is refused."""

from typing import Final

import msgspec

from trimtab.api.decoding import Wire, decode
from trimtab.api.encoding import Written, encode


class _Attributes(Written, frozen=True, kw_only=True):
    verb: str
    group: str = ""
    resource: str
    namespace: str = ""


class _Question(Written, frozen=True, kw_only=True):
    resource_attributes: _Attributes


class _Review(Written, frozen=True, kw_only=True):
    api_version: str
    kind: str
    spec: _Question


class _Status(Wire, frozen=True, kw_only=True):
    allowed: bool | None = None


class _Answer(Wire, frozen=True, kw_only=True):
    status: _Status | None = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)


def encode_access_review(
    verb: str, resource: str, *, group: str = "", namespace: str = ""
) -> bytes:
    """The JSON of the question whether we may do that; in all namespaces if none is named."""
    attributes = _Attributes(verb=verb, group=group, resource=resource, namespace=namespace)
    return encode(
        _Review(
            api_version="authorization.k8s.io/v1",
            kind="SelfSubjectAccessReview",
            spec=_Question(resource_attributes=attributes),
        )
    )


def decode_access_review(data: bytes) -> bool | None:
    """Whether we may, by the JSON of a review that was answered; None if it does not say."""
    status = decode(_ANSWER, data).status
    return None if status is None else status.allowed
