"""The sample log: accepted samples since the last tick, with the sizes that their containers had.

Histograms keep weights only. An estimator that has to know when a level was needed, by which pod
and under which limit, reads it from here. Nothing is logged unless such an estimator is in use.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.model.estimation import MEASURES


@dataclass(frozen=True, slots=True)
class LoggedSamples:
    """Samples of one resource, or OOM kills; every column has one element per sample."""

    aggregates: Ints
    values: Floats
    """Millicores or bytes."""
    times: Floats
    requests: Floats
    """Requests and limits of the containers at that time, NaN where there are none."""
    limits: Floats
    pods: Ints
    """Numbers of the pods' names (`NameTable`)."""
    strengths: Floats
    """Pressure on the containers at that time: float64[samples, measures], 0 for none."""
    is_start: Booleans
    """True while the container started, or had a startup boost."""

    def __len__(self) -> int:
        return len(self.values)

    def pick(self, chosen: Ints) -> "LoggedSamples":
        """Return some of the samples."""
        return LoggedSamples(*(getattr(self, each.name)[chosen] for each in fields(self)))


_NO_ROWS: Final = np.zeros(0, np.int64)
_NO_NUMBERS: Final = np.zeros(0)
_NONE: Final = LoggedSamples(
    _NO_ROWS,
    _NO_NUMBERS,
    _NO_NUMBERS,
    _NO_NUMBERS,
    _NO_NUMBERS,
    _NO_ROWS,
    np.zeros((0, len(MEASURES))),
    np.zeros(0, np.bool_),
)


@dataclass(frozen=True, slots=True)
class Logged:
    """Everything that was logged since the last call."""

    cpu: LoggedSamples
    memory: LoggedSamples
    kills: LoggedSamples
    """OOM kills; the values are the amounts that were not enough."""
    ceiling_bytes: float = np.inf
    """Maximum memory need that an OOM kill proves."""


class SampleLog:
    """Accepted samples that were not read yet."""

    def __init__(self) -> None:
        self.is_kept = False
        """False until an estimator needs the samples."""
        self.cpu: list[LoggedSamples] = []
        self.memory: list[LoggedSamples] = []
        self.kills: list[LoggedSamples] = []
        self.ceiling_bytes = np.inf
        self.pressure_lifetime = 0.0
        """Seconds for which a reading of pressure holds."""

    def drain(self) -> Logged:
        """Return all samples since the last call, in the order in which they were accepted."""
        logged = Logged(_join(self.cpu), _join(self.memory), _join(self.kills), self.ceiling_bytes)
        self.cpu, self.memory, self.kills = [], [], []
        return logged


def _join(parts: list[LoggedSamples]) -> LoggedSamples:
    # Usually one part per tick; it is passed on without a copy.
    if len(parts) <= 1:
        return parts[0] if parts else _NONE
    return LoggedSamples(
        *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(_NONE))
    )


class NameTable:
    """Numbers of names; the number 0 stands for an unknown one."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._names)

    def number(self, name: str) -> int:
        """Return the number of a name, a new one if it has none yet."""
        known = self._numbers.get(name)
        if known is not None:
            return known
        self._last += 1
        self._numbers[name] = self._last
        self._names[self._last] = name
        return self._last

    def name(self, number: int) -> str:
        """Return the name of a number; empty for an unknown one."""
        return self._names.get(number, "")

    def keep(self, used: Iterable[int]) -> None:
        """Forget all names but those of some numbers."""
        wanted = set(used)
        # Numbers are never used again: a level that still has one would name another pod.
        self._names = {number: name for number, name in self._names.items() if number in wanted}
        self._numbers = {name: number for number, name in self._names.items()}
