"""Field errors read and parse like those of Kubernetes itself."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.wire import field_errors
from trimtab.api.wire.field_errors import ErrorType, FieldError
from trimtab.core.model import quantities


@pytest.mark.parametrize(
    ("error", "text", "reason"),
    [
        pytest.param(
            field_errors.required("spec.a"),
            "spec.a: Required value",
            "FieldValueRequired",
            id="a required field without further words",
        ),
        pytest.param(
            field_errors.required("spec.a", "give it"),
            "spec.a: Required value: give it",
            "FieldValueRequired",
            id="a required field with a detail",
        ),
        pytest.param(
            field_errors.invalid("spec.a", 0, "must be positive"),
            "spec.a: Invalid value: 0: must be positive",
            "FieldValueInvalid",
            id="numbers are shown plain",
        ),
        pytest.param(
            field_errors.invalid("spec.a", "x", "must be y"),
            'spec.a: Invalid value: "x": must be y',
            "FieldValueInvalid",
            id="text is shown in quotes",
        ),
        pytest.param(
            field_errors.invalid("spec.a", quantities.parse("1.0005"), "too fine"),
            'spec.a: Invalid value: "1000500u": too fine',
            "FieldValueInvalid",
            id="a quantity is shown in its canonical form",
        ),
        pytest.param(
            field_errors.type_invalid("spec.a", "true", "must be of type string"),
            'spec.a: Invalid value: "true": must be of type string',
            "FieldValueTypeInvalid",
            id="a wrong type reads like an invalid value",
        ),
        pytest.param(
            field_errors.not_supported("spec.a", "x", ["b", "a"]),
            'spec.a: Unsupported value: "x": supported values: "b", "a"',
            "FieldValueNotSupported",
            id="supported values keep their order",
        ),
        pytest.param(
            field_errors.forbidden("spec.a", "not here"),
            "spec.a: Forbidden: not here",
            "FieldValueForbidden",
            id="a forbidden field shows no value",
        ),
        pytest.param(
            field_errors.too_many("spec.a", 2, 1),
            "spec.a: Too many: 2: must have at most 1 item",
            "FieldValueTooMany",
            id="too many for one item",
        ),
        pytest.param(
            field_errors.too_many("spec.a", 9, 3),
            "spec.a: Too many: 9: must have at most 3 items",
            "FieldValueTooMany",
            id="too many for several items",
        ),
        pytest.param(
            field_errors.duplicate("spec.a[1]", "cpu", "as in a[0]"),
            'spec.a[1]: Duplicate value: "cpu": as in a[0]',
            "FieldValueDuplicate",
            id="a duplicate says where it was first",
        ),
    ],
)
def test_an_error_reads_as_kubernetes_words_it(error: FieldError, text: str, reason: str) -> None:
    assert str(error) == text
    assert error.type == reason
    assert error.body == text.removeprefix(f"{error.path}: ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(0.9, "0.9", id="a plain fraction"),
        pytest.param(0.0, "0", id="no trailing point"),
        pytest.param(-1.0, "-1", id="a negative whole number"),
        pytest.param(0.001, "0.001", id="a thousandth"),
        pytest.param(-999999.5, "-999999.5", id="the last without an exponent"),
        pytest.param(-1e6, "-1e+06", id="a million has an exponent of two digits"),
        pytest.param(-9.999999999999e12, "-9.999999999999e+12", id="all digits are kept"),
        pytest.param(-1e22, "-1e+22", id="a large power of ten"),
    ],
)
def test_a_float_is_printed_as_go_prints_it(value: float, shown: str) -> None:
    assert field_errors.format_value(value) == shown


@given(st.floats(max_value=1, allow_nan=False, allow_infinity=False))
def test_no_digit_of_a_printed_float_is_lost(value: float) -> None:
    assert float(field_errors.format_value(value)) == value


def test_characters_that_go_escapes_in_json_are_escaped() -> None:
    quoted = field_errors.quote('<a&b>"é\n\u2028')

    assert quoted == '"\\u003ca\\u0026b\\u003e\\"é\\n\\u2028"'


@given(st.text())
def test_quoted_text_is_json_for_the_same_text(text: str) -> None:
    assert json.loads(field_errors.quote(text)) == text


def test_a_refusal_for_one_error_names_object_and_error() -> None:
    message = field_errors.refusal("web", [field_errors.required("spec.a")])

    assert message == (
        'VerticalPodAutoscaler.autoscaling.k8s.io "web" is invalid: spec.a: Required value'
    )


def test_a_refusal_lists_several_errors_and_each_text_once() -> None:
    first, second = field_errors.required("spec.a"), field_errors.forbidden("spec.b", "no")

    message = field_errors.refusal("web", [first, second, first])

    assert message == (
        'VerticalPodAutoscaler.autoscaling.k8s.io "web" is invalid: '
        "[spec.a: Required value, spec.b: Forbidden: no]"
    )


def test_every_type_of_error_has_words_of_its_own() -> None:
    bodies = {FieldError(each, "spec.a").body for each in ErrorType}

    assert len(bodies) == len(ErrorType) - 1  # a wrong type is worded like an invalid value
