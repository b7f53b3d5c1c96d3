"""Building blocks of an OpenAPI schema as CustomResourceDefinitions use them.

Every function returns a new dictionary, so that no two places of a document share one.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None
Schema: TypeAlias = dict[str, JSON]

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""The pattern that Kubernetes itself uses in the schemas of its quantities."""

DURATION_PATTERN: Final = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
"""The format alone would accept spellings such as `2 days`."""


def text(description: str, *, choices: Iterable[str] = (), longest: int | None = None) -> Schema:
    """Return the schema of a string, optionally with a closed set of values."""
    listed: list[JSON] = [str(choice) for choice in choices]
    return {
        "description": description,
        **({"enum": listed} if listed else {}),
        **_bound("maxLength", longest),
        "type": "string",
    }


def duration(description: str) -> Schema:
    """Return the schema of a non-negative Go duration; CEL rules see it as a duration."""
    form: Schema = {"description": description, "format": "duration"}
    return {**form, "pattern": DURATION_PATTERN, "type": "string"}


def timestamp(description: str, *, nullable: bool = False) -> Schema:
    """Return the schema of a point in time."""
    form: Schema = {"description": description, "format": "date-time"}
    return {**form, **({"nullable": True} if nullable else {}), "type": "string"}


def integer(description: str, *, form: str = "int32", minimum: int | None = None) -> Schema:
    """Return the schema of a whole number."""
    bound: Schema = {} if minimum is None else {"minimum": minimum}
    return {"description": description, "format": form, **bound, "type": "integer"}


def quantity(description: str = "") -> Schema:
    """Return the schema of a Kubernetes quantity, written as a string or as a number."""
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        **({"description": description} if description else {}),
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": True,
    }


def quantities(description: str, *, most: int | None = None) -> Schema:
    """Return the schema of quantities by resource name."""
    return mapping(description, quantity(), most=most)


def mapping(description: str, values: Schema, *, most: int | None = None) -> Schema:
    """Return the schema of an object with arbitrary keys."""
    form: Schema = {"additionalProperties": values, "description": description}
    return {**form, **_bound("maxProperties", most), "type": "object"}


def array(
    description: str, items: Schema, *, atomic: bool = False, most: int | None = None
) -> Schema:
    """Return the schema of a list; server-side apply replaces an atomic one as a whole."""
    kind: Schema = {"x-kubernetes-list-type": "atomic"} if atomic else {}
    form: Schema = {"description": description, "items": items}
    return {**form, **_bound("maxItems", most), "type": "array", **kind}


def record(
    description: str,
    properties: Mapping[str, Schema],
    *,
    required: Iterable[str] = (),
    atomic: bool = False,
    rules: Mapping[str, str] | None = None,
) -> Schema:
    """Return the schema of an object with fixed fields; `rules` are CEL rules by their messages."""
    needed: list[JSON] = [*required]
    checks: list[JSON] = [
        {"message": message, "rule": rule} for message, rule in (rules or {}).items()
    ]
    return {
        "description": description,
        "properties": dict(properties),
        **({"required": needed} if needed else {}),
        "type": "object",
        **({"x-kubernetes-map-type": "atomic"} if atomic else {}),
        **({"x-kubernetes-validations": checks} if checks else {}),
    }


def _bound(name: str, most: int | None) -> Schema:
    return {} if most is None else {name: most}


def object_schema(
    description: str, *, spec: Schema, status: Schema, required: Iterable[str] = ()
) -> Schema:
    """Return the schema of an object with a spec and a status."""
    return record(
        description,
        {
            "apiVersion": text("The API version of the object."),
            "kind": text("The kind of the object."),
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        required=required,
    )
