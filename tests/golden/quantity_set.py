"""Quantities: parsed, counted and printed as the original does."""

from typing import Any

from trimtab.core.model import quantities


def differences(case: dict[str, Any]) -> list[str]:
    """Where our reading of a quantity differs."""
    ours, theirs = _read(case["input"]), case["expected"]
    names = sorted({*ours, *theirs} - {"quirk"})
    return [
        f"{name}: {ours.get(name)!r} != {theirs.get(name)!r}"
        for name in names
        if ours.get(name) != theirs.get(name)
    ]


def _read(text: str) -> dict[str, Any]:
    try:
        quantity = quantities.parse(text)
    except quantities.QuantityError as error:
        return {"error": str(error.flaw)}
    return {
        "canonical": quantity.canonical(),
        "format": str(quantity.format),
        "isZero": quantity.is_zero,
        "milliValue": quantity.milli(),
        "sign": quantity.sign,
        "string": str(quantity),
        "value": quantity.whole(),
    }
