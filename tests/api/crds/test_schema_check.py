"""An object beside a schema: what is wrong, and what would be dropped."""

from typing import Any

import pytest

from trimtab.api.crds.schema_check import unknown_fields, violations

QUANTITY: Any = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": "^[0-9]+(Mi|Gi)?$",
    "x-kubernetes-int-or-string": True,
}
PART: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SCHEMA: Any = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 9},
        "mode": {"type": "string", "enum": ["On", "Off"]},
        "count": {"type": "integer", "minimum": 1},
        "share": {"type": "number"},
        "amount": QUANTITY,
        "amounts": {"type": "object", "additionalProperties": QUANTITY, "maxProperties": 2},
        "when": {"type": "string", "format": "date-time", "nullable": True},
        "parts": {"type": "array", "items": PART, "maxItems": 3},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
    "required": ["name"],
}


def found(**fields: Any) -> list[str]:
    return [str(error) for error in violations(SCHEMA, {"name": "x", **fields})]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="only what is required"),
        pytest.param({"mode": "On", "count": 1, "share": 0.5}, id="fitting values"),
        pytest.param({"count": 2.0}, id="a whole number written with a point"),
        pytest.param({"share": 1}, id="a whole number where any is wanted"),
        pytest.param({"amount": 1, "amounts": {"a": "1Gi", "b": 2}}, id="quantities of both kinds"),
        pytest.param({"when": None}, id="null where it is allowed"),
        pytest.param({"parts": [], "amounts": {}}, id="empty lists and maps"),
        pytest.param({"parts": [{"name": "a"}, {"name": "b"}]}, id="items that fit"),
        pytest.param({"other": 1, "anything": {"a": {"b": 1}}}, id="fields that nobody knows"),
    ],
)
def test_an_object_that_fits_its_schema_breaks_nothing(fields: dict[str, Any]) -> None:
    assert found(**fields) == []


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        pytest.param(
            {"name": None}, ['name: Invalid value: "null": must be of type string'], id="a null"
        ),
        pytest.param(
            {"name": 1}, ['name: Invalid value: "1": must be of type string'], id="a number as text"
        ),
        pytest.param(
            {"mode": False},
            [
                (
                    'mode: Invalid value: "false": must be of type string; '
                    'in YAML write "Off" in quotes'
                )
            ],
            id="an unquoted Off",
        ),
        pytest.param(
            {"mode": "Maybe"},
            ['mode: Unsupported value: "Maybe": supported values: "On", "Off"'],
            id="outside a choice",
        ),
        pytest.param(
            {"count": 0},
            ["count: Invalid value: 0: should be greater than or equal to 1"],
            id="below the minimum",
        ),
        pytest.param(
            {"count": True}, ['count: Invalid value: "true": must be of type integer'], id="a truth"
        ),
        pytest.param(
            {"count": 1.5},
            ['count: Invalid value: "1.5": must be of type integer'],
            id="a fraction",
        ),
        pytest.param(
            {"amount": 1.5},
            ['amount: Invalid value: "1.5": must be of type integer or string'],
            id="a quantity with a point that is not quoted",
        ),
        pytest.param(
            {"amounts": {"cpu": []}},
            ['amounts.cpu: Invalid value: "array": must be of type integer or string'],
            id="a list in a map of quantities",
        ),
        pytest.param(
            {"amounts": [], "parts": {}},
            [
                'amounts: Invalid value: "array": must be of type object',
                'parts: Invalid value: "object": must be of type array',
            ],
            id="list and map mixed up",
        ),
        pytest.param({"parts": [{}]}, ["parts[0].name: Required value"], id="inside a list"),
        pytest.param(
            {"parts": [None]},
            ['parts[0]: Invalid value: "null": must be of type object'],
            id="a null in a list",
        ),
    ],
)
def test_each_break_is_named_with_its_path(fields: dict[str, Any], errors: list[str]) -> None:
    assert found(**fields) == errors


def test_a_pattern_is_asked_of_text_only() -> None:
    (error,) = found(amount="one")

    assert error.startswith('amount: Invalid value: "one": should match ')


def test_what_is_required_and_absent_is_named() -> None:
    assert [str(error) for error in violations(SCHEMA, {})] == ["name: Required value"]


@pytest.mark.parametrize("value", [None, "text", 1, True, []])
def test_what_is_no_object_at_all_is_one_error(value: Any) -> None:
    assert len(list(violations(SCHEMA, value))) == 1


def test_unknown_fields_are_found_at_any_depth() -> None:
    value: Any = {
        "name": "x",
        "nmae": "x",
        "parts": [{"name": "a"}, {"name": "b", "size": 1}],
        "amounts": {"whatever": 1},
        "anything": {"goes": True},
    }

    assert list(unknown_fields(SCHEMA, value)) == ["nmae", "parts[1].size"]


def test_unknown_fields_of_what_has_the_wrong_type_are_not_looked_for() -> None:
    assert list(unknown_fields(SCHEMA, {"parts": "none", "amounts": 1})) == []


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        pytest.param(
            {"name": "x" * 10}, "name: Too long: may not be more than 9 bytes", id="a long text"
        ),
        pytest.param(
            {"parts": [{}] * 4}, "parts: Too many: 4: must have at most 3 items", id="a long list"
        ),
        pytest.param(
            {"amounts": dict.fromkeys("abc", "1")},
            "amounts: Too many: 3: must have at most 2 items",
            id="a large map",
        ),
    ],
)
def test_what_is_too_large_is_told_once(fields: dict[str, Any], error: str) -> None:
    assert found(**fields) == [error]
