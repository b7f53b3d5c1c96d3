"""Label selectors as they are written: what Kubernetes refuses about them, and building good ones.

`check` finds everything that is wrong, as the API server words it for a field of an object;
`build` gives the selector or refuses with the words in which Kubernetes' own clients do.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from trimtab.core import label_syntax, selectors
from trimtab.core.records import dataclass
from trimtab.core.selectors import LabelRequirement, Operator, Selector

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
    """Where, as seen from the selector: `matchExpressions[0].values`."""
    kind: ProblemKind
    value: str
    """What stands there; empty where something is missing."""
    detail: str


def check(
    match_labels: Mapping[str, str], expressions: Sequence[Expression]
) -> list[SelectorProblem]:
    """Everything that is wrong with a selector: labels by key, then expressions in order."""
    problems: list[SelectorProblem] = []
    for key, value in sorted(match_labels.items()):
        problems += _invalid("matchLabels", key, label_syntax.key_flaws(key))
        problems += _invalid(f"matchLabels[{key}]", value, label_syntax.value_flaws(value))
    for index, expression in enumerate(expressions):
        problems += _check_expression(expression, f"matchExpressions[{index}]")
    return problems


def build(match_labels: Mapping[str, str], expressions: Sequence[Expression]) -> Selector:
    """The selector of these parts; a SelectorError about the first that is refused."""
    equalities = [_build_equality(key, value) for key, value in sorted(match_labels.items())]
    return Selector((*equalities, *map(_build_requirement, expressions)))


def _invalid(path: str, value: str, flaws: Sequence[str]) -> list[SelectorProblem]:
    return [SelectorProblem(path, ProblemKind.INVALID, value, flaw) for flaw in flaws]


def _check_expression(expression: Expression, path: str) -> Iterator[SelectorProblem]:
    yield from _check_operator(expression, path)
    yield from _invalid(f"{path}.key", expression.key, label_syntax.key_flaws(expression.key))
    for index, value in enumerate(expression.values):
        yield from _invalid(f"{path}.values[{index}]", value, label_syntax.value_flaws(value))


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
    flaws = label_syntax.key_flaws(key)
    return [f"key: Invalid value: {_quote(key)}: {'; '.join(flaws)}"] if flaws else []


def _value_refusals(key: str, values: Sequence[str]) -> Iterator[str]:
    for index, value in enumerate(values):
        flaws = label_syntax.value_flaws(value)
        if flaws:
            yield f"values[{index}][{key}]: Invalid value: {_quote(value)}: {'; '.join(flaws)}"


def _refuse(refusals: Sequence[str]) -> None:
    if len(refusals) == 1:
        raise SelectorError(refusals[0])
    if refusals:
        raise SelectorError(f"[{', '.join(refusals)}]")


def _quote(value: str | Sequence[str]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
