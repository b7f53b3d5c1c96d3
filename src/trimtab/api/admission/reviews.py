"""AdmissionReviews: the requests of the API server to a webhook, and the webhook's answers.

The objects in a request stay undecoded. Each is decoded once, by its own kind, and only if needed.
"""

from http import HTTPStatus
from typing import Final, TypeAlias, assert_never

import msgspec

from trimtab.api.wire import codec, field_errors, quantities
from trimtab.api.wire.codec import DecodeError, Wire, Written
from trimtab.api.wire.field_errors import FieldError
from trimtab.api.wire.quantities import NOT_GIVEN
from trimtab.core.model.json_patch import Patch

_API_VERSION: Final = "admission.k8s.io/v1"


class _Resource(Wire, frozen=True, kw_only=True):
    group: str | None = None
    version: str | None = None
    resource: str | None = None


class _Request(Wire, frozen=True, kw_only=True):
    uid: str | None = None
    resource: _Resource | None = None
    sub_resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    operation: str | None = None
    dry_run: bool | None = None
    object: msgspec.Raw = NOT_GIVEN
    old_object: msgspec.Raw = NOT_GIVEN


class _Review(Wire, frozen=True, kw_only=True):
    api_version: str | None = None
    request: _Request | None = None


class _Identity(Wire, frozen=True, kw_only=True):
    uid: str | None = None


class _IdentifiedReview(Wire, frozen=True, kw_only=True):
    request: _Identity | None = None


class _Cause(Written, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(Written, frozen=True, kw_only=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: list[_Cause] = msgspec.field(default_factory=list)


class _Status(Written, frozen=True, kw_only=True):
    status: str
    message: str
    reason: str
    details: _Details
    code: int


class _Response(Written, frozen=True, kw_only=True):
    """The response without the uid of the request, which is appended later."""

    allowed: bool
    status: _Status | None = None
    patch_type: str = ""
    patch: bytes = b""
    warnings: list[str] = msgspec.field(default_factory=list)


class _WrittenReview(Written, frozen=True, kw_only=True):
    api_version: str
    kind: str
    response: _Response


_DRAFT_END: Final = b"}}"

_DECODER: Final = msgspec.json.Decoder(_Review)
_UID_DECODER: Final = msgspec.json.Decoder(_IdentifiedReview)


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request of the API server: whether an operation is allowed, and with which patch."""

    uid: str
    group: str
    version: str
    resource: str
    """The plural name: `pods`."""
    subresource: str
    namespace: str
    name: str
    """Empty if the API server is still to generate the name."""
    operation: str
    object: bytes | None
    """JSON of the object; None on deletion."""
    old_object: bytes | None
    """JSON of the stored object; None on creation."""
    is_dry_run: bool = False
    """True if the API server will store nothing, whatever the answer."""


class Allowed(msgspec.Struct, frozen=True, gc=False):
    """The operation may happen, with the patch applied."""

    patch: Patch = ()
    warnings: tuple[str, ...] = ()


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The autoscaler must not be stored, because of these errors."""

    name: str
    errors: tuple[FieldError, ...]
    warnings: tuple[str, ...] = ()


Answer: TypeAlias = Allowed | Refused


def decode_review(data: bytes) -> AdmissionRequest:
    """Return the request in the JSON of an AdmissionReview."""
    review = codec.decode(_DECODER, data)
    if review.api_version not in {None, _API_VERSION}:
        raise DecodeError("apiVersion", f"{review.api_version} is not {_API_VERSION}")
    source = review.request
    if source is None:
        raise DecodeError("request", "an AdmissionReview without a request asks nothing")
    resource = source.resource or _Resource()
    return AdmissionRequest(
        uid=source.uid or "",
        group=resource.group or "",
        version=resource.version or "",
        resource=resource.resource or "",
        subresource=source.sub_resource or "",
        namespace=source.namespace or "",
        name=source.name or "",
        operation=source.operation or "",
        object=source.object if quantities.is_given(source.object) else None,
        old_object=source.old_object if quantities.is_given(source.old_object) else None,
        is_dry_run=bool(source.dry_run),
    )


def decode_uid(data: bytes) -> str:
    """Return the uid of the request in an AdmissionReview; nothing else is decoded."""
    source = codec.decode(_UID_DECODER, data).request
    return (source and source.uid) or ""


def encode_review(uid: str, answer: Answer) -> bytes:
    """Return the JSON of the AdmissionReview that answers the request with this uid."""
    return address_draft(draft_review(answer), uid)


def draft_review(answer: Answer) -> bytes:
    """Return that JSON without the uid: it is equal for all requests with the same answer."""
    review = _WrittenReview(
        api_version=_API_VERSION, kind="AdmissionReview", response=_write_response(answer)
    )
    return codec.encode(review).removesuffix(_DRAFT_END)


def address_draft(draft: bytes, uid: str) -> bytes:
    """Return the complete JSON of an answer: a draft with the uid of the request."""
    return b'%b,"uid":%b%b' % (draft, codec.encode(uid), _DRAFT_END)


def _write_response(answer: Answer) -> _Response:
    warnings = list(answer.warnings)
    match answer:
        case Allowed(patch=()):
            return _Response(allowed=True, warnings=warnings)
        case Allowed(patch=patch):
            return _Response(
                allowed=True, patch_type="JSONPatch", patch=codec.encode(patch), warnings=warnings
            )
        case Refused():
            return _Response(allowed=False, status=_write_status(answer), warnings=warnings)
        case _:
            assert_never(answer)


def _write_status(refused: Refused) -> _Status:
    kind, _, group = field_errors.KIND.partition(".")
    causes = [
        _Cause(reason=error.type, message=error.body, field=error.path) for error in refused.errors
    ]
    return _Status(
        status="Failure",
        message=field_errors.refusal(refused.name, refused.errors),
        reason="Invalid",
        details=_Details(name=refused.name, group=group, kind=kind, causes=causes),
        code=HTTPStatus.UNPROCESSABLE_ENTITY,
    )
