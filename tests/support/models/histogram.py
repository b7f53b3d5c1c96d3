"""A decaying histogram as plainly as it can be written: one object, one loop per question.

What the bank does with arrays of rows is checked against this, number by number.
"""

import math
from datetime import timedelta

import numpy as np

from trimtab.core.histogram.buckets import BucketScheme
from trimtab.core.histogram.decay import ZERO_TIME, Decay


class PlainHistogram:
    def __init__(self, scheme: BucketScheme, half_life: timedelta) -> None:
        self.scheme = scheme
        self.half_life = half_life.total_seconds()
        self.decay = Decay(half_life)
        self.weights = [0.0] * scheme.count
        self.total = 0.0
        self.lowest = scheme.count - 1
        self.highest = 0
        self.reference = ZERO_TIME

    def copy(self) -> "PlainHistogram":
        same = PlainHistogram(self.scheme, timedelta(seconds=self.half_life))
        same.weights = list(self.weights)
        same.total, same.reference = self.total, self.reference
        same.lowest, same.highest = self.lowest, self.highest
        return same

    def find(self, value: float) -> int:
        return int(self.scheme.find(np.array([value]))[0])

    def effective(self, weight: float, time: float) -> float:
        if time > self.reference + 100 * self.half_life:
            self.shift(time)
        return weight * float(self.decay.factors(np.array([time - self.reference]))[0])

    def add(self, value: float, weight: float, time: float) -> None:
        weight = self.effective(weight, time)
        bucket = self.find(value)
        self.weights[bucket] += weight
        self.total += weight
        if self.weights[bucket] >= self.scheme.epsilon:
            self.lowest = min(self.lowest, bucket)
            self.highest = max(self.highest, bucket)

    def subtract(self, value: float, weight: float, time: float) -> None:
        weight = self.effective(weight, time)
        bucket = self.find(value)
        self.total = self.less(self.total, weight)
        self.weights[bucket] = self.less(self.weights[bucket], weight)
        self.tighten()

    def less(self, weight: float, taken: float) -> float:
        left = weight - taken
        return 0.0 if left < self.scheme.epsilon else left

    def tighten(self) -> None:
        last = self.scheme.count - 1
        while self.weights[self.lowest] < self.scheme.epsilon and self.lowest < last:
            self.lowest += 1
        while self.weights[self.highest] < self.scheme.epsilon and self.highest > 0:
            self.highest -= 1

    def shift(self, time: float) -> None:
        periods = (time - ZERO_TIME) / self.half_life
        reference = ZERO_TIME + math.floor(periods + 0.5) * self.half_life
        factor = 2.0 ** math.floor((self.reference - reference) / self.half_life + 0.5)
        for bucket in range(self.lowest, self.highest + 1):
            self.weights[bucket] *= factor
        self.total *= factor
        self.reference = reference
        self.tighten()

    def merge(self, other: "PlainHistogram") -> None:
        other = other.copy()
        if self.reference < other.reference:
            self.shift(other.reference)
        elif other.reference < self.reference:
            other.shift(self.reference)
        for bucket in range(other.lowest, other.highest + 1):
            self.weights[bucket] += other.weights[bucket]
        self.total += other.total
        self.lowest = min(self.lowest, other.lowest)
        self.highest = max(self.highest, other.highest)

    @property
    def is_empty(self) -> bool:
        return self.weights[self.lowest] < self.scheme.epsilon

    def percentile(self, fraction: float) -> float:
        if self.is_empty:
            return 0.0
        bucket, reached = self.lowest, self.weights[self.lowest]
        while bucket < self.highest and reached < fraction * self.total:
            bucket += 1
            reached += self.weights[bucket]
        return float(self.scheme.starts[min(bucket + 1, self.scheme.count - 1)])
