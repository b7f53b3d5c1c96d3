"""Quantities as people write them on pods, recommendations and policies."""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from oracle.draws.dice import Dice

RESOURCES: Final = ("cpu", "memory")

# The API server rounds the resources of pods up to these; only other objects can be finer.
FINER: Final = {
    "cpu": ("100500u", "0.0005", "1500500u"),
    "memory": ("1500m", "268435456500m", "0.5"),
}


def an_amount(dice: Dice, resource: str, *, zero: float = 0.03, finer: float = 0.0) -> str:
    """A quantity of a resource, seldom zero and, where allowed, seldom finer than its unit."""
    if dice.happens(zero):
        return dice.one_of(["0", "0m", "0Mi"])
    if dice.happens(finer):
        return dice.one_of(FINER[resource])
    return _cpu(dice) if resource == "cpu" else _memory(dice)


def ascending(dice: Dice, resource: str, *, count: int) -> list[str]:
    """So many amounts of a resource, the smallest first."""
    drawn = [an_amount(dice, resource, zero=0.02) for _ in range(count)]
    return sorted(drawn, key=_value)


_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4}


def _value(amount: str) -> Decimal:
    if amount[-2:] in _BINARY:
        return Decimal(amount[:-2]) * Decimal(1024) ** _BINARY[amount[-2:]]
    if amount[-1] in _SUFFIXES:
        return Decimal(amount[:-1]).scaleb(_SUFFIXES[amount[-1]])
    return Decimal(amount)


def _cpu(dice: Dice) -> str:
    return dice.one_of(
        [
            f"{dice.between(1, 40) * 25}m",
            f"{round(dice.magnitude(1, 8000))}m",
            f"{dice.between(1, 16)}",
            f"{dice.between(1, 60) / 10}",
            dice.one_of(["1e-1", "0.25", "2000m", "1k", "100e-3", "500000u"])
            if dice.happens(0.2)
            else "500m",
        ]
    )


def _memory(dice: Dice) -> str:
    return dice.one_of(
        [
            f"{dice.between(1, 64) * 16}Mi",
            f"{round(dice.magnitude(1, 16000))}Mi",
            f"{round(dice.magnitude(1e6, 2e10))}",
            f"{dice.between(1, 32)}Gi",
            f"{dice.between(1, 40) / 4}Gi",
            f"{round(dice.magnitude(1, 9000))}M",
            dice.one_of(["1e9", "123456k", "1024Ki", "0.5Gi", "1G"]),
        ]
    )


def some_resources(
    dice: Dice, *, each: float = 0.85, zero: float = 0.03, finer: float = 0.0
) -> dict[str, str]:
    """A resource list in which each of the two resources is present with a probability."""
    return dice.fields(
        {name: (each, _amount_of(dice, name, zero=zero, finer=finer)) for name in RESOURCES}
    )


def _amount_of(dice: Dice, resource: str, *, zero: float, finer: float) -> Callable[[], str]:
    return lambda: an_amount(dice, resource, zero=zero, finer=finer)
