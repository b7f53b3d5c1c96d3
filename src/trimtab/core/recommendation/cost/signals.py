"""Applied signals: which signal of pressure raised a target last, for explanations and logs."""

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.model.estimation import PressureKind
from trimtab.core.recommendation.cost.pressure import KINDS, Signals
from trimtab.core.usage.sample_log import LoggedSamples

_MOST_NEW: Final = 1000
"""Maximum number of signals kept for a log that is not written; the oldest ones go."""


@dataclass(frozen=True, slots=True)
class AppliedSignal:
    """A signal that raised a target."""

    kind: PressureKind
    seconds: float
    """Time of the sample at which it was applied, since the epoch."""
    strength: float
    before: float
    """Targets in millicores or bytes."""
    after: float
    pod: int
    """Number of the name of the pod that showed it."""


class AppliedSignals:
    """The last signal that raised each target, and those that are not reported yet."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], AppliedSignal] = {}
        self._new: deque[tuple[int, int, AppliedSignal]] = deque(maxlen=_MOST_NEW)

    def note(self, column: int, raises: "Raises", owners: Ints, given: "SignalledSamples") -> None:
        """Note targets of one resource that rose under a signal.

        `owners` has the row of each sample. The sample with the largest need stands for a row.
        """
        if not len(raises.rows):
            return
        (on,) = np.nonzero(given.signals.is_on)
        # `lexsort` sorts by its last key first: by row, then by need.
        order = on[np.lexsort((given.needs[on], owners[on]))]
        ends = np.searchsorted(owners[order], raises.rows, side="right")
        for place, (row, end) in enumerate(zip(raises.rows.tolist(), ends.tolist(), strict=True)):
            sample = int(order[end - 1]) if end else -1
            if sample < 0 or owners[sample] != row:
                continue
            signal = AppliedSignal(
                KINDS[int(given.signals.kinds[sample])],
                float(given.samples.times[sample]),
                float(given.signals.strengths[sample]),
                float(raises.before[place]),
                float(raises.after[place]),
                int(given.samples.pods[sample]),
            )
            self._last[row, column] = signal
            self._new.append((row, column, signal))

    def last(self, row: int, column: int) -> AppliedSignal | None:
        """Return the signal that raised a target last; None if it was lowered since."""
        return self._last.get((row, column))

    def forget(self, rows: Ints, columns: tuple[int, ...]) -> None:
        """Forget the signals of rows whose targets were lowered, or that are gone."""
        if self._last:
            for row in rows.tolist():
                for column in columns:
                    self._last.pop((row, column), None)

    def drain(self) -> list[tuple[int, int, AppliedSignal]]:
        """Return the signals applied since the last call, with their rows and columns."""
        new = list(self._new)
        self._new.clear()
        return new

    def used_pods(self) -> set[int]:
        """Return the numbers of all pods that any signal names."""
        return {signal.pod for signal in self._last.values()}


@dataclass(frozen=True, slots=True)
class Raises:
    """Targets that were raised, by row."""

    rows: Ints
    before: Floats
    after: Floats


@dataclass(frozen=True, slots=True)
class SignalledSamples:
    """Samples with their signals, and the needs that they show."""

    samples: LoggedSamples
    signals: Signals
    needs: Floats
