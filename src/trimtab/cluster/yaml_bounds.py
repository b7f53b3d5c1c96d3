"""Bounds on files of YAML or JSON: on some of them a loader would crash or never end.

PyYAML's C loader recurses in C without a limit, and with aliases a few lines stand for billions
of values. The events of a file show both before it is loaded; the parser of events uses a stack.
"""

from typing import Final

import yaml

MAX_DEPTH: Final = 200
"""Maximum nesting of lists and maps; the deepest objects of Kubernetes have about 60 levels."""
MAX_ALIASED: Final = 10_000_000
"""Maximum number of values and characters that the aliases of a file stand for."""


class YAMLBoundsError(ValueError):
    """A file that is not loaded, as it is nested too deeply or expands to too much."""


def check_bounds(text: str) -> None:
    """Raise an error for text that a loader should not be given.

    Raises:
        YAMLBoundsError: The nesting is too deep, or aliases expand to too much or to themselves.
        yaml.YAMLError: The text is not YAML.
    """
    scales = _Scales()
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        match event:
            case yaml.ScalarEvent():
                scales.add(1 + len(event.value), event.anchor)
            case yaml.CollectionStartEvent():
                scales.open(event.anchor)
            case yaml.CollectionEndEvent():
                scales.close()
            case yaml.AliasEvent():
                scales.repeat(event.anchor)
            case _:
                pass


class _Scales:
    """Weights of values: their number and the length of their text, with aliases expanded."""

    def __init__(self) -> None:
        self._seen = 0
        self._aliased = 0
        self._weights: dict[str, int] = {}
        # Anchors of the collections that are open, each with the weight that was seen before it.
        self._open: list[tuple[str | None, int]] = []

    def add(self, weight: int, anchor: str | None) -> None:
        self._seen += weight
        if anchor is not None:
            self._weights[anchor] = weight

    def open(self, anchor: str | None) -> None:
        if len(self._open) == MAX_DEPTH:
            raise YAMLBoundsError(f"lists and maps are nested more than {MAX_DEPTH} deep")
        self._open.append((anchor, self._seen))
        self._seen += 1

    def close(self) -> None:
        anchor, before = self._open.pop()
        if anchor is not None:
            self._weights[anchor] = self._seen - before

    def repeat(self, anchor: str | None) -> None:
        # A loader would build a map that contains itself, and walking it would never end.
        if anchor is not None and any(each == anchor for each, _ in self._open):
            raise YAMLBoundsError(f"the alias *{anchor} stands for itself")
        # An unknown alias is an error of the loader, which comes after this.
        weight = 0 if anchor is None else self._weights.get(anchor, 0)
        # A few nested aliases stand for billions of values ("billion laughs"); they are only
        # counted.
        self._aliased += weight
        if self._aliased > MAX_ALIASED:
            raise YAMLBoundsError(f"aliases expand to more than {MAX_ALIASED:,} values")
        self._seen += weight
