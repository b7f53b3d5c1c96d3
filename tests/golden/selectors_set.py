"""Label selectors: built, matched and printed as the original does."""

from typing import Any

from trimtab.core.model import selector_validation, selectors


def differences(case: dict[str, Any]) -> list[str]:
    """Where our reading of a selector differs."""
    given, theirs = case["input"], case["expected"]
    ours = _answer(given["selector"], given["labelSets"])
    return [
        f"{name}: {ours.get(name)!r} != {theirs.get(name)!r}"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]


def _answer(selector: dict[str, Any] | None, label_sets: list[dict[str, str]]) -> dict[str, Any]:
    try:
        built = None if selector is None else _build(selector)
    except selector_validation.SelectorError as error:
        return {"error": str(error)}
    return {
        "empty": built is not None and selectors.is_catch_all(built),
        "matches": [selectors.matches(built, labels) for labels in label_sets],
        "string": selectors.format_selector(built),
    }


def _build(wire: dict[str, Any]) -> selectors.Selector:
    expressions = [
        selector_validation.Expression(
            entry["key"], entry["operator"], tuple(entry.get("values") or ())
        )
        for entry in wire.get("matchExpressions") or ()
    ]
    return selector_validation.build(wire.get("matchLabels") or {}, expressions)
