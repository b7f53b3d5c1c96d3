"""Repeatable chance, and the few shapes of choice that every draw is made of."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

Json: TypeAlias = Any
T = TypeVar("T")


class Dice:
    """Chance that depends on nothing but the set, the seed and the number of a case."""

    def __init__(self, set_name: str, seed: int, number: int) -> None:
        self._random = random.Random(f"{set_name}/{seed}/{number}")

    def happens(self, probability: float) -> bool:
        """True in the given share of throws."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self._random.randint(low, high)

    def fraction(self, low: float = 0.0, high: float = 1.0) -> float:
        """A number between two others."""
        return self._random.uniform(low, high)

    def magnitude(self, low: float, high: float) -> float:
        """A number whose order of magnitude is drawn first, as real usage is spread."""
        return float(low * (high / low) ** self._random.random())

    def one_of(self, choices: Sequence[T]) -> T:
        """One of the choices, each as likely."""
        return self._random.choice(choices)

    def some_of(self, choices: Sequence[T], *, at_least: int = 0) -> list[T]:
        """A few different choices in random order."""
        return self._random.sample(choices, self.between(at_least, len(choices)))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in random order."""
        return self._random.sample(items, len(items))

    def fields(self, makers: dict[str, tuple[float, Callable[[], Json]]]) -> dict[str, Json]:
        """An object in which each field is present with its own probability."""
        return {
            name: make()
            for name, (probability, make) in makers.items()
            if self.happens(probability)
        }


def stamp(start: datetime, seconds: float = 0) -> str:
    """The wire form of a moment so many seconds after another."""
    return (
        (start + timedelta(seconds=round(seconds))).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    )
