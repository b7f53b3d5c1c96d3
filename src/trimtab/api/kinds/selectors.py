"""Label selectors on the wire."""

from collections.abc import Mapping

from trimtab.api.wire import metadata
from trimtab.api.wire.codec import DecodeError, Wire
from trimtab.core.model import selector_validation
from trimtab.core.model.selectors import Selector


class Expression(Wire, frozen=True, kw_only=True):
    """One entry of `matchExpressions`."""

    key: str | None = None
    operator: str | None = None
    values: tuple[str, ...] | None = None


class LabelSelector(Wire, frozen=True, kw_only=True):
    """A LabelSelector; an empty one selects everything."""

    match_labels: dict[str, str | None] | None = None
    match_expressions: tuple[Expression, ...] | None = None


def convert_selector(wire: LabelSelector | None, path: str) -> Selector | None:
    """Return the selector of a wire record; None without a record."""
    if wire is None:
        return None
    try:
        return selector_validation.build(
            metadata.text_map(wire.match_labels), written_expressions(wire)
        )
    except selector_validation.SelectorError as error:
        raise DecodeError(path, str(error)) from error


def select_labels(labels: Mapping[str, str | None] | None, path: str) -> Selector | None:
    """Return the selector for pods with all these labels; None without labels."""
    if not labels:
        return None
    return convert_selector(LabelSelector(match_labels=dict(labels)), path)


def written_expressions(wire: LabelSelector) -> tuple[selector_validation.Expression, ...]:
    """Return the expressions of a selector as they were written, not validated."""
    return tuple(
        selector_validation.Expression(each.key or "", each.operator or "", each.values or ())
        for each in wire.match_expressions or ()
    )
