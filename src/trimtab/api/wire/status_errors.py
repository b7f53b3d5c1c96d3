"""Refusals of the API server: a `Status` object instead of the requested one."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from trimtab.api.wire.codec import Int32, Wire, decode


class _Cause(Wire, frozen=True, kw_only=True):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class _Details(Wire, frozen=True, kw_only=True):
    causes: tuple[_Cause, ...] | None = None
    retry_after_seconds: Int32 | None = None


class _Status(Wire, frozen=True, kw_only=True):
    code: Int32 | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_DECODER: Final = msgspec.json.Decoder(_Status)


@dataclass(frozen=True, slots=True)
class Cause:
    """One of the causes of a refusal."""

    reason: str
    message: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """Reason and causes of a refusal."""

    code: int = 0
    """The HTTP status; 0 if the object has none."""
    reason: str = ""
    """A word for machines: `NotFound`, `AlreadyExists`."""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after: timedelta | None = None


def decode_status(data: bytes) -> Status:
    """Return the refusal in the JSON of one Status."""
    source = decode(_DECODER, data)
    details = source.details or _Details()
    # A delay of zero stands for none, as in the original.
    seconds = details.retry_after_seconds or 0
    return Status(
        code=source.code or 0,
        reason=source.reason or "",
        message=source.message or "",
        causes=tuple(_convert_cause(cause) for cause in details.causes or ()),
        retry_after=timedelta(seconds=seconds) if seconds > 0 else None,
    )


def _convert_cause(source: _Cause) -> Cause:
    return Cause(source.reason or "", source.message or "", source.field or "")
