"""Rules for signals of pressure: what a container needs where its usage shows less.

Arithmetic on arrays, without state. Every rule is bounded by what was measured: no signal asks for
more than a multiple of it, so nothing ratchets.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.model.estimation import MEASURES, CostSettings, Measure, PressureKind
from trimtab.core.usage.sample_log import LoggedSamples

KINDS: Final = tuple(PressureKind)
_NO_SIGNAL: Final = -1


@dataclass(frozen=True, slots=True)
class Signals:
    """Signals that samples are under; one element for each sample."""

    kinds: Ints
    """Places in `KINDS`; negative without a signal."""
    strengths: Floats
    """Part of the time, of the periods or of the limit; for events, their number per second."""

    @property
    def is_on(self) -> Booleans:
        """True under any signal."""
        return np.asarray(self.kinds >= 0)


@dataclass(frozen=True, slots=True)
class CpuNeeds:
    """Needs that CPU samples show, in millicores; one element for each sample."""

    counted: Floats
    """Values for the histogram."""
    shown: Floats
    """Values to compare with the target: measured usage without a signal from outside."""
    is_at_limit: Booleans
    is_signalled: Booleans
    """True under a signal of a source, which usage alone does not show."""
    signals: Signals


def cpu_needs(samples: LoggedSamples, settings: CostSettings) -> CpuNeeds:
    """Return what CPU samples show to be needed.

    At its limit a container shows the limit and not its need. While the kernel throttles it, or
    while its processes wait for a CPU, it shows a part of the need.
    """
    rules, used, limits = settings.pressure, samples.values, samples.limits
    # A missing limit is NaN, and makes the comparison false.
    is_at_limit: Booleans = np.asarray(used >= limits * settings.censored_fraction)
    at_limit = np.where(is_at_limit, limits * settings.censored_factor, used)
    throttled = _strength(samples, Measure.THROTTLED)
    is_throttled = (throttled >= rules.throttled_fraction) & (limits > 0)
    waiting = _strength(samples, Measure.CPU_WAITING)
    is_waiting = waiting >= rules.cpu_waiting_fraction
    # Below its request a container waits because its own processes come in bursts, or because the
    # node gives it less than was promised: a larger request changes neither.
    is_waiting &= used >= samples.requests * rules.cpu_requested_fraction
    # In throttled periods it wanted more than it got: at most as much again.
    stretched = used * (1 + np.minimum(throttled, 1.0))
    stretched = np.where(is_throttled, stretched, used)
    pressed = np.where(is_waiting, used * (1 + np.minimum(waiting, rules.most_waiting_fraction)), 0)
    # `fmin` ignores NaN: without a limit only the measured usage bounds the need.
    most = np.fmax(np.fmin(np.inf, limits * settings.censored_factor), used)
    signalled = np.fmin(np.maximum(stretched, pressed), np.where(limits > 0, most, np.inf))
    is_signalled: Booleans = np.asarray(is_throttled | is_waiting)
    signalled = np.where(is_signalled, signalled, used)
    kinds = np.full(len(used), _NO_SIGNAL)
    kinds[is_waiting] = KINDS.index(PressureKind.CPU_PRESSURE)
    kinds[is_throttled] = KINDS.index(PressureKind.CPU_THROTTLED)
    kinds[is_at_limit & ~is_signalled] = KINDS.index(PressureKind.CPU_AT_LIMIT)
    strengths = np.where(is_throttled, throttled, np.where(is_waiting, waiting, used / limits))
    counted = np.where(is_signalled, np.maximum(at_limit, signalled), at_limit)
    shown = np.where(is_signalled, counted, used)
    return CpuNeeds(counted, shown, is_at_limit, is_signalled, Signals(kinds, strengths))


def memory_signals(samples: LoggedSamples, settings: CostSettings) -> Signals:
    """Find the samples of containers that the kernel takes memory from, close to their limit.

    Further below the kernel takes it for the node, or from a cache that may as well be smaller.
    """
    rules = settings.pressure
    waiting = _strength(samples, Measure.MEMORY_WAITING)
    stalled = _strength(samples, Measure.MEMORY_STALLED)
    high = _strength(samples, Measure.MEMORY_HIGH)
    # A missing limit is NaN, and makes the comparison false.
    is_close = samples.values >= samples.limits * rules.memory_limit_fraction
    is_pressed = waiting >= rules.memory_waiting_fraction
    is_pressed |= stalled >= rules.memory_stalled_fraction
    is_pressed &= is_close
    is_high = is_close & (high >= rules.memory_high_per_second)
    kinds = np.full(len(samples), _NO_SIGNAL)
    kinds[is_high] = KINDS.index(PressureKind.MEMORY_HIGH)
    kinds[is_pressed] = KINDS.index(PressureKind.MEMORY_PRESSURE)
    strengths = np.where(is_pressed, np.maximum(waiting, stalled), high)
    return Signals(kinds, strengths)


def _strength(samples: LoggedSamples, measure: Measure) -> Floats:
    column: Floats = samples.strengths[:, MEASURES.index(measure)]
    return column
