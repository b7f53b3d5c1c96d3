"""Label selectors as they are written: the faults that Kubernetes refuses, and building good ones.

`check` finds all faults, as the API server words them for a field of an object. `build` returns the
selector, or refuses with the words of Kubernetes' own clients.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.core.model import selectors
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector

_OPERATORS: Final = {operator.value: operator for operator in Operator}
_OF_VALUES: Final = (Operator.IN, Operator.NOT_IN)


class SelectorError(ValueError):
    """A selector that Kubernetes would refuse."""


class ProblemKind(StrEnum):
    """The kind of a problem; the value is its name in a list of causes."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True, slots=True)
class Expression:
    """An entry of `matchExpressions` as it was written."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectorProblem:
    """One thing that is wrong with a selector."""

    path: str
    """The path of the field below the selector: `matchExpressions[0].values`."""
    kind: ProblemKind
    value: str
    """The value at the path; empty where something is missing."""
    detail: str


def check(
    match_labels: Mapping[str, str], expressions: Sequence[Expression]
) -> list[SelectorProblem]:
    """Return all faults of a selector: labels by key, then expressions in order."""
    problems: list[SelectorProblem] = []
    for key, value in sorted(match_labels.items()):
        problems += _invalid("matchLabels", key, key_flaws(key))
        problems += _invalid(f"matchLabels[{key}]", value, value_flaws(value))
    for index, expression in enumerate(expressions):
        problems += _check_expression(expression, f"matchExpressions[{index}]")
    return problems


def build(match_labels: Mapping[str, str], expressions: Sequence[Expression]) -> Selector:
    """Return the selector of these parts; raise a SelectorError about the first that is refused."""
    equalities = [_build_equality(key, value) for key, value in sorted(match_labels.items())]
    return Selector((*equalities, *map(_build_requirement, expressions)))


def _invalid(path: str, value: str, flaws: Sequence[str]) -> list[SelectorProblem]:
    return [SelectorProblem(path, ProblemKind.INVALID, value, flaw) for flaw in flaws]


def _check_expression(expression: Expression, path: str) -> Iterator[SelectorProblem]:
    yield from _check_operator(expression, path)
    yield from _invalid(f"{path}.key", expression.key, key_flaws(expression.key))
    for index, value in enumerate(expression.values):
        yield from _invalid(f"{path}.values[{index}]", value, value_flaws(value))


def _check_operator(expression: Expression, path: str) -> Iterator[SelectorProblem]:
    operator = _OPERATORS.get(expression.operator)
    if operator is None:
        detail = "not a valid selector operator"
        yield SelectorProblem(f"{path}.operator", ProblemKind.INVALID, expression.operator, detail)
    elif operator in _OF_VALUES and not expression.values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        yield SelectorProblem(f"{path}.values", ProblemKind.REQUIRED, "", detail)
    elif operator not in _OF_VALUES and expression.values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield SelectorProblem(f"{path}.values", ProblemKind.FORBIDDEN, "", detail)


def _build_equality(key: str, value: str) -> LabelRequirement:
    _refuse([*_key_refusals(key), *_value_refusals(key, (value,))])
    return selectors.equality(key, value)


def _build_requirement(expression: Expression) -> LabelRequirement:
    operator = _OPERATORS.get(expression.operator)
    if operator is None:
        raise SelectorError(f"{_quote(expression.operator)} is not a valid label selector operator")
    refusals = [*_key_refusals(expression.key)]
    if operator in _OF_VALUES and not expression.values:
        refusals.append(
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
        )
    if operator not in _OF_VALUES and expression.values:
        refusals.append(
            f"values: Invalid value: {_quote(expression.values)}: "
            "values set must be empty for exists and does not exist"
        )
    _refuse([*refusals, *_value_refusals(expression.key, expression.values)])
    return LabelRequirement(expression.key, operator, expression.values)


def _key_refusals(key: str) -> list[str]:
    flaws = key_flaws(key)
    return [f"key: Invalid value: {_quote(key)}: {'; '.join(flaws)}"] if flaws else []


def _value_refusals(key: str, values: Sequence[str]) -> Iterator[str]:
    for index, value in enumerate(values):
        flaws = value_flaws(value)
        if flaws:
            yield f"values[{index}][{key}]: Invalid value: {_quote(value)}: {'; '.join(flaws)}"


def _refuse(refusals: Sequence[str]) -> None:
    if len(refusals) == 1:
        raise SelectorError(refusals[0])
    if refusals:
        raise SelectorError(f"[{', '.join(refusals)}]")


def _quote(value: str | Sequence[str]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_MAX_NAME_BYTES: Final = 63
_MAX_PREFIX_BYTES: Final = 253

_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_NAME})?"
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_ALPHABET: Final = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_BAD_NAME: Final = (
    f"must {_ALPHABET} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_NAME}')"
)
_BAD_KEY: Final = (
    f"a valid label key {_BAD_NAME} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_BAD_VALUE: Final = (
    f"a valid label must be an empty string or {_ALPHABET} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_BAD_PREFIX: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_PREFIX}')"
)
_EMPTY: Final = "must be non-empty"


def key_flaws(key: str) -> list[str]:
    """List the faults of a label key, `name` or `prefix/name`; empty for a good one."""
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        return [_BAD_KEY]
    prefix_flaws = [f"prefix part {flaw}" for flaw in _prefix_flaws(prefixes)]
    return prefix_flaws + [f"name part {flaw}" for flaw in _name_flaws(name)]


def value_flaws(value: str) -> list[str]:
    """List the faults of a label value; empty for a good one."""
    flaws = _length_flaws(value, _MAX_NAME_BYTES)
    return flaws if re.fullmatch(_VALUE, value) else [*flaws, _BAD_VALUE]


def _prefix_flaws(prefixes: list[str]) -> list[str]:
    if prefixes == [""]:
        return [_EMPTY]
    return [flaw for prefix in prefixes for flaw in subdomain_flaws(prefix)]


def subdomain_flaws(text: str) -> list[str]:
    """List the faults of a DNS subdomain, which most objects need for a name."""
    flaws = _length_flaws(text, _MAX_PREFIX_BYTES)
    return flaws if re.fullmatch(_PREFIX, text) else [*flaws, _BAD_PREFIX]


def _name_flaws(name: str) -> list[str]:
    flaws = _length_flaws(name, _MAX_NAME_BYTES) if name else [_EMPTY]
    return flaws if re.fullmatch(_NAME, name) else [*flaws, _BAD_NAME]


def _length_flaws(text: str, limit: int) -> list[str]:
    too_long = len(text.encode(errors="surrogatepass")) > limit
    return [f"must be no more than {limit} bytes"] if too_long else []
