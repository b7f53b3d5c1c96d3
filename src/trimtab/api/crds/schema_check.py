"""Validation of objects against the schema of their CRD, as the API server does it.

It supports the parts of OpenAPI that our own schemas use. CEL rules are left to the API server: the
webhook's validation covers them, too.
"""

import re
from collections.abc import Iterator
from typing import Final

from trimtab.api.crds.definitions import Schema
from trimtab.api.wire import field_errors
from trimtab.api.wire.codec import JSON
from trimtab.api.wire.field_errors import FieldError

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "array": (list,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def violations(schema: Schema, value: JSON, path: str = "") -> Iterator[FieldError]:
    """Yield every violation of the schema; unknown fields are no violations."""
    if value is None and schema.get("nullable"):
        return
    wanted = _wanted_types(schema)
    if not any(_is_of_type(value, name) for name in wanted):
        detail = f"must be of type {' or '.join(wanted)}"
        # A common mistake: YAML reads an unquoted Off as a boolean.
        hint = '; in YAML write "Off" in quotes' if value is False and "string" in wanted else ""
        yield field_errors.type_invalid(path, _show(value), detail + hint)
        return
    if excess := list(_size_violations(schema, value, path)):
        yield from excess
        return
    yield from _scalar_violations(schema, value, path)
    if isinstance(value, dict):
        for name in _names(schema.get("required")):
            if name not in value:
                yield field_errors.required(_join(path, name))
    for place, part, inner in parts(schema, value, path):
        yield from violations(inner, part, place)


def unknown_fields(schema: Schema, value: JSON, path: str = "") -> Iterator[str]:
    """Yield the path of each unknown field, which the API server would drop."""
    fixed = schema.get("properties")
    if isinstance(value, dict) and isinstance(fixed, dict):
        yield from (_join(path, name) for name in value if name not in fixed)
    for place, part, inner in parts(schema, value, path):
        yield from unknown_fields(inner, part, place)


def parts(schema: Schema, value: JSON, path: str) -> Iterator[tuple[str, JSON, Schema]]:
    """Yield path, value and schema of each field or item that has a schema."""
    if isinstance(value, dict):
        fixed = schema.get("properties")
        for name, part in value.items():
            own = fixed.get(name) if isinstance(fixed, dict) else None
            inner = own or schema.get("additionalProperties")
            if isinstance(inner, dict):
                yield _join(path, name), part, inner
    inner = schema.get("items")
    if isinstance(value, list) and isinstance(inner, dict):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item, inner


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _wanted_types(schema: Schema) -> list[str]:
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [str(schema["type"])]


def _is_of_type(value: JSON, name: str) -> bool:
    match value:
        case bool():  # to Python a number
            return False
        case float() if name == "integer":
            return value.is_integer()
        case _:
            return isinstance(value, _TYPES[name])


def _size_violations(schema: Schema, value: JSON, path: str) -> Iterator[FieldError]:
    name = "maxProperties" if isinstance(value, dict) else "maxItems"
    most, longest = schema.get(name), schema.get("maxLength")
    if isinstance(value, dict | list) and isinstance(most, int) and len(value) > most:
        yield field_errors.too_many(path, len(value), most)
    if isinstance(value, str) and isinstance(longest, int) and len(value) > longest:
        yield field_errors.too_long(path, longest)


def _scalar_violations(schema: Schema, value: JSON, path: str) -> Iterator[FieldError]:
    choices, minimum, pattern = schema.get("enum"), schema.get("minimum"), schema.get("pattern")
    if isinstance(choices, list) and value not in choices:
        yield field_errors.not_supported(path, _show(value), _names(choices))
    if isinstance(minimum, int) and isinstance(value, int | float) and value < minimum:
        detail = f"should be greater than or equal to {minimum}"
        yield field_errors.invalid(path, value, detail)
    if isinstance(pattern, str) and isinstance(value, str) and not re.search(pattern, value):
        yield field_errors.invalid(path, value, f"should match '{pattern}'")


def _names(listed: JSON) -> list[str]:
    return [str(name) for name in listed] if isinstance(listed, list) else []


def _show(value: JSON) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "object"
        case list():
            return "array"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
