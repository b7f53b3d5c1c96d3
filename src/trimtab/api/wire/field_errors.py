"""Field errors in the words of Kubernetes, so that clients print and parse them as usual.

A `FieldError` is one cause of a 422 answer: its type is the cause's reason, its path the cause's
field, its body the cause's message.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

from trimtab.core.model.quantities import Quantity

Shown: TypeAlias = str | int | float | Quantity
"""A value that an error shows."""

KIND: Final = "VerticalPodAutoscaler.autoscaling.k8s.io"


class ErrorType(StrEnum):
    """Kind of a mistake; the value is the cause's reason on the wire."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_MANY = "FieldValueTooMany"
    DUPLICATE = "FieldValueDuplicate"
    TOO_LONG = "FieldValueTooLong"


_WORDS: Final = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.TOO_LONG: "Too long",
}

# Go escapes these in JSON even where JSON does not ask for it.
_GO_ESCAPES: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})

_FIXED_POINT_LIMIT: Final = 1e6
"""From this value on, Go prints floats with an exponent."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake in one field."""

    type: ErrorType
    path: str
    shown: str = ""
    """The offending value as it is printed; empty for the types that print none."""
    detail: str = ""

    @property
    def body(self) -> str:
        """The error without its path."""
        return ": ".join(part for part in (_WORDS[self.type], self.shown, self.detail) if part)

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def required(path: str, detail: str = "") -> FieldError:
    """Return the error for a required field that is missing."""
    return FieldError(ErrorType.REQUIRED, path, detail=detail)


def invalid(path: str, value: Shown, detail: str) -> FieldError:
    """Return the error for a value that breaks a rule."""
    return FieldError(ErrorType.INVALID, path, format_value(value), detail)


def type_invalid(path: str, value: Shown, detail: str) -> FieldError:
    """Return the error for a value of the wrong JSON type."""
    return FieldError(ErrorType.TYPE_INVALID, path, format_value(value), detail)


def not_supported(path: str, value: str, supported: Iterable[str]) -> FieldError:
    """Return the error for a value outside a closed set; the choices are listed in their order."""
    listed = ", ".join(map(quote, supported))
    return FieldError(ErrorType.NOT_SUPPORTED, path, quote(value), f"supported values: {listed}")


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error for a field that must not be given here."""
    return FieldError(ErrorType.FORBIDDEN, path, detail=detail)


def too_many(path: str, count: int, limit: int) -> FieldError:
    """Return the error for a list that is too long."""
    items = "item" if limit == 1 else "items"
    return FieldError(ErrorType.TOO_MANY, path, str(count), f"must have at most {limit} {items}")


def too_long(path: str, limit: int) -> FieldError:
    """Return the error for a text that is too long; the text is not shown."""
    return FieldError(ErrorType.TOO_LONG, path, detail=f"may not be more than {limit} bytes")


def duplicate(path: str, value: str, detail: str) -> FieldError:
    """Return the error for a value that may occur only once."""
    return FieldError(ErrorType.DUPLICATE, path, quote(value), detail)


def refusal(name: str, errors: Sequence[FieldError]) -> str:
    """Return the message that refuses an autoscaler of this name."""
    texts = list(dict.fromkeys(map(str, errors)))
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return f"{KIND} {quote(name)} is invalid: {shown}"


def quote(text: str) -> str:
    """Return the text as a JSON string, escaped as Go escapes it."""
    return json.dumps(text, ensure_ascii=False).translate(_GO_ESCAPES)


def format_value(value: Shown) -> str:
    """Return the value as an error prints it: text and quantities quoted, numbers plain."""
    match value:
        case str():
            return quote(value)
        case Quantity():
            return quote(str(value))
        case float():
            return _format_float(value)
        case int():
            return str(value)


def _format_float(value: float) -> str:
    if abs(value) < _FIXED_POINT_LIMIT:
        return repr(value).removesuffix(".0")
    mantissa, exponent = f"{Decimal(repr(value)).normalize():e}".split("e")
    return f"{mantissa}e{int(exponent):+03}"
