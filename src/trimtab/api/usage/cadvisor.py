"""Metrics of cAdvisor as a kubelet serves them: the counters of pressure in the text format.

A node may have thousands of lines, of which few matter. A line that makes no sense stops no other.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from trimtab.api.usage.pressure import COUNTERS
from trimtab.core.model.estimation import Measure

Series: TypeAlias = tuple[str, str, str, str]
"""The namespace, the pod and the name of a container, and the cgroup of one run of it."""

MOST_SERIES: Final = 5000
"""Maximum number of containers of one node; further ones are left out."""
# The lookbehind keeps a long name without a value from a search at each of its letters.
_LABEL: Final = re.compile(r'(?<!\w)(\w+)="((?:[^"\\]|\\.)*)"')
_PAUSE: Final = "POD"


@dataclass(slots=True)
class NodeCounters:
    """The counters of pressure of the containers of a node."""

    by_series: dict[Series, dict[str, float]] = field(default_factory=dict)
    """By the name of the metric."""
    times: dict[Series, float] = field(default_factory=dict)
    """Time of each series in seconds, where the kubelet says it."""
    unreadable: int = 0
    """Number of lines that were left out."""

    def add(self, name: str, line: str) -> None:
        """Add a line of a metric."""
        labels = dict(_LABEL.findall(line))
        try:
            values = line[line.rindex("}") + 1 :].split()
            value, time = float(values[0]), [float(each) / 1000 for each in values[1:2]]
        except (ValueError, IndexError):
            self.unreadable += 1
            return
        if labels.get("container") in ("", None, _PAUSE):
            # The cgroups of pods and of the node itself.
            return
        series = (
            labels.get("namespace", ""),
            labels.get("pod", ""),
            labels["container"],
            labels.get("id", ""),
        )
        if not all(series[:3]):
            self.unreadable += 1
            return
        if series not in self.by_series and len(self.by_series) >= MOST_SERIES:
            return
        self.by_series.setdefault(series, {})[name] = value
        self.times.update((series, each) for each in time)


def decode_counters(data: bytes) -> NodeCounters:
    """Return the counters of pressure in a page of metrics."""
    found = NodeCounters()
    for counter in COUNTERS.values():
        for name in filter(None, (counter.name, counter.per)):
            for line in _lines(data, name.encode()):
                found.add(name, line.decode(errors="replace"))
    return found


def _lines(data: bytes, name: bytes) -> Iterator[bytes]:
    """Yield the lines of a metric, which lie beside each other; the rest is not looked at."""
    start = name + b"{"
    place = 0 if data.startswith(start) else data.find(b"\n" + start) + 1
    while data.startswith(start, place):
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        yield data[place:end]
        place = end + 1


def strengths_between(
    before: dict[str, float], after: dict[str, float], seconds: float
) -> dict[Measure, float]:
    """Return how fast the counters of one container grew; none where one was reset."""
    found = {}
    for measure, counter in COUNTERS.items():
        grown = _growth(before, after, counter.name)
        of = _growth(before, after, counter.per) if counter.per else seconds
        if grown is not None and of is not None and grown >= 0 and of > 0:
            found[measure] = grown / of
    return found


def _growth(before: dict[str, float], after: dict[str, float], name: str) -> float | None:
    if name not in before or name not in after:
        return None
    return after[name] - before[name]
