"""Text of checkpoints, for people and for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.api.wire import times
from trimtab.api.wire.codec import JSON
from trimtab.cli.output import columns
from trimtab.cli.output.amounts import TITLES
from trimtab.core.diagnosis import durations
from trimtab.core.histogram.checkpoint_summary import HistogramSummary, Summary
from trimtab.core.model.resources import BOTH, Resource

_MIB: Final = 1024**2
_BAR: Final = 30
_SHOWN: Final = (0.5, 0.9, 0.99)
"""Percentiles in the table; JSON and YAML have more."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """One checkpoint with its content and state."""

    namespace: str
    name: str
    autoscaler: str
    container: str
    content: Summary | str
    """Summary of the checkpoint, or why it cannot be loaded."""
    is_orphaned: bool = False
    """True if its autoscaler is gone."""

    @property
    def state(self) -> str:
        """State in one word: damaged, orphaned, empty or ok."""
        if isinstance(self.content, str):
            return "damaged"
        if self.is_orphaned:
            return "orphaned"
        return "empty" if self.content.is_empty else "ok"


def to_table(found: Sequence[Inspected], now: datetime, *, shows_namespace: bool) -> str:
    """Format a line per checkpoint and resource, then the reasons of damaged ones."""
    first = 0 if shows_namespace else 1
    header = ("NAMESPACE", "AUTOSCALER", "CONTAINER", "STATE", "AGE", "SAMPLES", "SPAN", "")
    rows = [[*header, *(f"P{one * 100:g}" for one in _SHOWN)]]
    rows += [row for one in found for row in _rows(one, now)]
    names = range(3 - first)
    lines = columns.lay_out(
        [row[first:] for row in rows], names=names, width=columns.screen_width()
    )
    flaws = [
        columns.disarm(f"{one.namespace}/{one.name}: {one.content}")
        for one in found
        if isinstance(one.content, str)
    ]
    return "\n".join([*lines, *flaws]) + "\n"


def _rows(one: Inspected, now: datetime) -> Iterator[list[str]]:
    lead = [one.namespace, one.autoscaler, one.container, one.state]
    content = one.content
    if isinstance(content, str):
        yield [*lead, *["-"] * (4 + len(_SHOWN))]
        return
    lead += [_age(content.written_at, now), str(content.samples), _length(content)]
    for resource in BOTH:
        yield [*lead, TITLES[resource], *_percentiles(content.histograms[resource], resource)]
        lead = [""] * len(lead)


def _percentiles(histogram: HistogramSummary, resource: Resource) -> list[str]:
    amounts = histogram.percentiles
    return [show(resource, amounts[one]) if one in amounts else "-" for one in _SHOWN]


def show(resource: Resource, amount: float) -> str:
    """Format cores as millicores, and bytes as MiB rounded up."""
    if resource is Resource.CPU:
        return f"{amount * 1000:.0f}m"
    return f"{-(-int(amount) // _MIB)}Mi"


def _age(moment: datetime | None, now: datetime) -> str:
    return "-" if moment is None else durations.brief(now - moment)


def _length(content: Summary) -> str:
    first, last = content.first_sample, content.last_sample
    return "-" if first is None or last is None else durations.brief(last - first)


def to_buckets(found: Sequence[Inspected]) -> str:
    """Format the buckets of each checkpoint, with a bar for the weight of each bucket."""
    return "\n".join(columns.disarm(line) for one in found for line in _bucket_lines(one)) + "\n"


def _bucket_lines(one: Inspected) -> Iterator[str]:
    if isinstance(one.content, str):
        return
    for resource in BOTH:
        histogram = one.content.histograms[resource]
        weight = f"{histogram.total_weight:.6g}"
        yield ""
        yield f"{one.namespace}/{one.name} {TITLES[resource]}, total weight {weight}"
        for bucket in histogram.buckets:
            place = f"{show(resource, bucket.start):>8} - {show(resource, bucket.end):<8}"
            yield f"{place}{bucket.share:7.2%} {'#' * round(bucket.share * _BAR)}".rstrip()


def to_records(found: Sequence[Inspected]) -> list[JSON]:
    """Return all fields of all checkpoints, for programs."""
    return [_record(one) for one in found]


def _record(one: Inspected) -> dict[str, JSON]:
    known: dict[str, JSON] = {
        "namespace": one.namespace,
        "name": one.name,
        "autoscaler": one.autoscaler,
        "container": one.container,
        "state": one.state,
    }
    content = one.content
    if isinstance(content, str):
        return {**known, "problem": content}
    return {
        **known,
        "version": content.version,
        "writtenAt": _time(content.written_at),
        "firstSample": _time(content.first_sample),
        "lastSample": _time(content.last_sample),
        "samples": content.samples,
        "histograms": {
            resource.value: _histogram(content.histograms[resource]) for resource in BOTH
        },
    }


def _histogram(one: HistogramSummary) -> dict[str, JSON]:
    buckets: list[JSON] = [
        {"start": each.start, "end": each.end, "share": each.share} for each in one.buckets
    ]
    return {
        "totalWeight": one.total_weight,
        "referenceTime": _time(one.reference_time),
        "percentiles": {f"{key:g}": value for key, value in one.percentiles.items()},
        "buckets": buckets,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else times.format_time(moment)


def count(number: int) -> str:
    """Format a number of checkpoints, such as `2 checkpoints`."""
    return f"{number} checkpoint" if number == 1 else f"{number} checkpoints"
