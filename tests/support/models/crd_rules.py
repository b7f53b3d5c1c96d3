"""The second check that an API server makes: the schema of the CRD, then its CEL rules."""

from collections.abc import Iterator
from typing import Any

import celpy
from celpy.adapter import json_to_cel
from celpy.celtypes import DurationType, MapType, StringType

from trimtab.api.crds import definitions
from trimtab.api.crds.definitions import Schema
from trimtab.api.crds.schema_check import parts, violations
from trimtab.api.wire import field_errors
from trimtab.api.wire.field_errors import ErrorType, FieldError

_BLOCKING = {ErrorType.REQUIRED, ErrorType.NOT_SUPPORTED, ErrorType.TYPE_INVALID}
"""An API server evaluates no rules on an object with such errors, nor on a bad duration."""


def crd_violations(item: dict[str, Any]) -> list[FieldError]:
    """What the CRD of the autoscaler has against an object."""
    schema = definitions.schema(definitions.AUTOSCALER)
    found = list(violations(schema, item))
    if any(error.type in _BLOCKING or error.path.endswith(".duration") for error in found):
        return found
    return found + list(broken_rules(schema, item, ""))


def broken_rules(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    """Every CEL rule that a value or a part of it breaks."""
    rules = schema.get("x-kubernetes-validations", [])
    assert isinstance(rules, list)
    for rule in rules:
        assert isinstance(rule, dict)
        if not evaluate(str(rule["rule"]), schema, value):
            yield field_errors.invalid(path, "object", str(rule["message"]))
    for place, part, inner in parts(schema, value, path):
        yield from broken_rules(inner, part, place)


def evaluate(rule: str, schema: Schema, value: Any) -> bool:
    environment = celpy.Environment()
    program = environment.program(environment.compile(rule))
    seen = json_to_cel(value)
    assert isinstance(seen, MapType)
    for name, part, inner in parts(schema, value, ""):
        if inner.get("format") == "duration":
            seen[StringType(name)] = DurationType(str(part))
    return bool(program.evaluate({"self": seen}))
