"""Label selectors on the wire."""

from collections.abc import Mapping

from trimtab.api.decoding import DecodeError, Wire, convert_each
from trimtab.core.selectors import LabelRequirement, Operator, Selector


class Expression(Wire, frozen=True, kw_only=True):
    """One entry of `matchExpressions`."""

    key: str | None = None
    operator: str | None = None
    values: tuple[str, ...] | None = None


class LabelSelector(Wire, frozen=True, kw_only=True):
    """A LabelSelector; without any content it selects everything."""

    match_labels: dict[str, str | None] | None = None
    match_expressions: tuple[Expression, ...] | None = None


def convert_selector(wire: LabelSelector | None, path: str) -> Selector | None:
    """The selector of the wire; None, which selects nothing, where there is none."""
    if wire is None:
        return None
    expressions = convert_each(
        wire.match_expressions, _convert_expression, f"{path}.matchExpressions"
    )
    return Selector(_equalities(wire.match_labels) + expressions)


def select_labels(labels: Mapping[str, str | None] | None) -> Selector | None:
    """The selector for pods that carry all these labels; None where there are no labels."""
    return Selector(_equalities(labels)) if labels else None


def _equalities(labels: Mapping[str, str | None] | None) -> tuple[LabelRequirement, ...]:
    return tuple(
        LabelRequirement(key, Operator.IN, (value or "",))
        for key, value in sorted((labels or {}).items())
    )


def _convert_expression(wire: Expression, path: str) -> LabelRequirement:
    try:
        operator = Operator(wire.operator or "")
    except ValueError as error:
        raise DecodeError(f"{path}.operator", f"{wire.operator!r} is not an operator") from error
    return LabelRequirement(wire.key or "", operator, wire.values or ())
