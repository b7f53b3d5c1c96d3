"""Runs: since when the pods of a row are short of CPU, at their CPU limit, or pressed for memory.

A row is one container of one autoscaler. The CPU of a start belongs to no run (decision 0072).
"""

from dataclasses import dataclass, replace

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.model.estimation import PressureSettings
from trimtab.core.recommendation.cost.held_columns import CPU
from trimtab.core.usage.sample_log import LoggedSamples


@dataclass(frozen=True, slots=True)
class CpuTurn:
    """The CPU samples of one tick, by row."""

    data: np.ndarray
    """The columns of all rows (`held_columns.py`), which the methods change."""
    owners: Ints
    """The row of each sample that counts."""
    rows: Ints
    """The distinct rows that got samples."""
    previous: Floats
    """For each of them, the time for which its samples stand since."""

    def most(self, chosen: Booleans) -> Booleans:
        """Return, by row, True if more than half of its samples are chosen."""
        length = len(self.data)
        counts = np.bincount(self.owners, minlength=length)[self.rows]
        # More than half: one hot pod of many is no reason to resize all.
        found = np.bincount(self.owners[chosen], minlength=length)[self.rows]
        return np.asarray(2 * found > counts)

    def follow_short(self, short: Booleans, values: Floats) -> None:
        """Note since when most pods use more than the target, and the least that they used."""
        data, rows = self.data, self.rows
        is_run = self.most(short)
        least = np.full(len(data), np.inf)
        np.minimum.at(least, self.owners[short], values[short])
        was_run = np.isfinite(data["short_since"][rows])
        self._follow("short_since", is_run, was_run)
        lowest = np.where(was_run, data["short_least"][rows], np.inf)
        data["short_least"][rows] = np.minimum(lowest, least[rows])

    def follow_censored(self, censored: Booleans, limits: Floats) -> None:
        """Note since when most pods are at their CPU limit, and the highest limit."""
        data, rows = self.data, self.rows
        is_run = self.most(censored)
        highest = np.zeros(len(data))
        np.maximum.at(highest, self.owners[censored], limits[censored])
        self._follow("censored_since", is_run, np.isfinite(data["censored_since"][rows]))
        data["censored_limit"][rows] = np.where(is_run, highest[rows], 0.0)

    def _follow(self, column: str, is_run: Booleans, was_run: Booleans) -> None:
        since = np.where(was_run, self.data[column][self.rows], self.previous)
        self.data[column][self.rows] = np.where(is_run, since, np.nan)


def heed(
    data: np.ndarray, owners: Ints, samples: LoggedSamples, settings: PressureSettings
) -> LoggedSamples:
    """Return CPU samples without the signals of rows whose target has just changed.

    A source looks back for minutes. What it says may be from before the change.
    """
    if not samples.strengths.any():
        return samples
    since = data["now"][owners] - data["changed"][owners, CPU]
    is_heeded = since >= settings.hold_off.total_seconds()
    return replace(samples, strengths=samples.strengths * is_heeded[:, np.newaxis])


def find_pressed(
    data: np.ndarray, owners: Ints, is_on: Booleans, used: Floats, settings: PressureSettings
) -> Booleans:
    """Find the samples under a signal of memory that lasts, and note since when it does.

    `owners` has the row of each sample, `is_on` is True under a signal. One pod is enough: memory
    runs out in each pod by itself. The usage that begins a series of signals is noted as well.
    """
    since = data["pressed_since"]
    if not is_on.any() and not np.isfinite(since).any():
        return is_on
    rows = np.flatnonzero(np.bincount(owners, minlength=len(data)))
    is_pressed = np.zeros(len(data), np.bool_)
    is_pressed[owners[is_on]] = True
    now = data["now"][rows]
    begun = np.where(np.isfinite(since[rows]), since[rows], now)
    since[rows] = np.where(is_pressed[rows], begun, np.nan)
    is_due = is_pressed[rows] & (now - begun >= settings.memory_run.total_seconds())
    quiet = now - data["pressed_counted"][rows]
    is_due &= quiet >= settings.hold_off.total_seconds()
    highest = np.zeros(len(data))
    np.maximum.at(highest, owners[is_on], used[is_on])
    begins = rows[is_due & (quiet >= settings.memory_series.total_seconds())]
    data["pressed_usage"][begins] = highest[begins]
    data["pressed_counted"][rows[is_due]] = now[is_due]
    counts = np.zeros(len(data), np.bool_)
    counts[rows[is_due]] = True
    return np.asarray(is_on & counts[owners])
