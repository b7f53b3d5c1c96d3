"""Recommendations: what one autoscaler makes of the samples and OOM kills of a few pods."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from golden.capping_set import AMOUNTS, numbers

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.selectors import LabelSelector, convert_selector
from trimtab.core.explain.recommendation import explain_containers
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model import quantities
from trimtab.core.model.autoscalers import Autoscaler, scales
from trimtab.core.model.recommendation import PublishedRecommendation, RecommendationSettings
from trimtab.core.recommendation.recommender import Publications
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.core.usage.checkpoints import encode_histories
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.samples import SampleCounts, Samples

START = datetime(2024, 1, 1, tzinfo=UTC)
DAY_SECONDS = 24 * 60 * 60


def differences(case: dict[str, Any], *, keeps_zero_peaks: bool = False) -> list[str]:
    given, theirs = case["input"], case["expected"]
    autoscaler = decode_autoscaler(json.dumps(given["vpa"]).encode())
    gates = given.get("featureGates") or {}
    settings = UsageSettings(
        allows_overrides=gates.get("PerVPAConfig", False),
        keeps_oom_ledger=False,
        keeps_zero_peaks=keeps_zero_peaks,
    )
    usage = Usage(settings, RecommendationSettings())
    fill(usage, given, autoscaler)
    discarded = [run_step(usage, step).discarded for step in given["steps"]]
    recommendation = Publications(usage, RecommendationSettings()).refresh()[autoscaler.identity]
    found = [*recommendation_differences(recommendation, theirs["recommendation"])]
    found += explanation_differences(usage, autoscaler, recommendation)
    found += aggregate_differences(usage, autoscaler, theirs["aggregates"])
    if discarded != theirs["discardedPerStep"]:
        found.append(f"discardedPerStep: {discarded} != {theirs['discardedPerStep']}")
    return found


def fill(usage: Usage, given: dict[str, Any], autoscaler: Autoscaler) -> None:
    for pod in given["pods"]:
        name = PodName(autoscaler.namespace, pod["name"])
        usage.track(name, pod["labels"] or {}, pod["containers"], START)
    wire = msgspec.convert(given["selector"], LabelSelector | None)
    usage.learn(autoscaler, convert_selector(wire, "selector"))


def run_step(usage: Usage, step: dict[str, Any]) -> SampleCounts:
    containers = usage.containers_of(PodName("default", step["pod"]))
    row = containers.get(step["container"], -1)
    if step["type"] == "oom":
        now = seconds(step["time"])
        kills = batch(row, [step["requestedMemoryBytes"]], [now])
        return usage.add_oom_kills(kills, now).counts
    times = seconds(step["start"]) + step["stepSeconds"] * np.arange(step["count"])
    cpu, memory = step.get("cpuMillicores") or [], step.get("memoryBytes") or []
    now = float(times.max(initial=0.0))
    total = SampleCounts()
    if cpu:
        total += usage.add_cpu(batch(row, np.resize(cpu, len(times)), times), now).counts
    if memory:
        values = np.resize(memory, len(times))
        for part in np.split(np.arange(len(times)), rises(usage, row, values, times)):
            total += usage.add_memory(batch(row, values[part], times[part]), now).counts
    return total


def rises(usage: Usage, row: int, values: Any, times: Any) -> list[int]:
    """Where to cut a series so that no batch raises the peak of a window twice.

    The original subtracts and adds at every rise; where a stored weight lies half way between two
    numbers, the last bits of these sums decide.
    """
    known = usage.containers.windows(np.array([row])).end[0] if row >= 0 else np.nan
    first = times[0] if np.isnan(known) else known
    windows = np.floor((times - first) / DAY_SECONDS)
    cuts, highest = [], -np.inf
    for index in range(1, len(times)):
        opens = windows[index] != windows[index - 1]
        highest = max(highest, values[index - 1])
        if opens or values[index] > highest:
            cuts.append(index)
            highest = values[index] if opens else highest
    return cuts


def batch(row: int, values: Any, times: Any) -> Samples:
    moments = np.asarray(times, np.float64)
    return Samples(np.full(len(moments), row), np.asarray(values, np.float64), moments)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def recommendation_differences(
    ours: PublishedRecommendation, theirs: dict[str, Any]
) -> Iterator[str]:
    published = {one.container_name: one for one in ours.containers}
    expected = {one["containerName"]: one for one in theirs.get("containerRecommendations", [])}
    for name in sorted(published.keys() | expected.keys()):
        if name not in published:
            why = "no samples" if name in ours.without_samples else "absent"
            yield f"recommendation.{name}: {why} != {expected[name]}"
        elif name not in expected:
            yield f"recommendation.{name}: {published[name]} != absent"
        else:
            for wire_name, attribute in AMOUNTS.items():
                our_map = numbers(getattr(published[name], attribute))
                for kind in sorted(our_map.keys() | expected[name].get(wire_name, {}).keys()):
                    our = our_map.get(kind)
                    text = expected[name].get(wire_name, {}).get(kind)
                    their = None if text is None else quantities.parse(text)
                    if our != their:
                        yield f"recommendation.{name}.{wire_name}.{kind}: {our} != {their}"


def explanation_differences(
    usage: Usage, autoscaler: Autoscaler, published: PublishedRecommendation
) -> Iterator[str]:
    """Where the steps that are shown to people do not lead to what is published."""
    workings = explain_containers(usage, autoscaler.identity, RecommendationSettings())
    explained = {each.name: each.recommendation() for each in workings}
    for one in published.containers:
        if explained.get(one.container_name) != one:
            yield f"explanation: {explained.get(one.container_name)} != {one}"


def aggregate_differences(
    usage: Usage, autoscaler: Autoscaler, theirs: dict[str, Any]
) -> Iterator[str]:
    known = encode_histories(usage, [autoscaler.identity])
    ours = {
        name: checkpoint
        for (_, name), checkpoint in known.items()
        if scales(autoscaler.policies, name)
    }
    if ours.keys() != theirs.keys():
        yield f"aggregates: {sorted(ours)} != {sorted(theirs)}"
    for name in ours.keys() & theirs.keys():
        yield from checkpoint_differences(f"aggregates.{name}", ours[name], theirs[name])


def checkpoint_differences(
    path: str, ours: AggregateCheckpoint, theirs: dict[str, Any]
) -> Iterator[str]:
    plain = {
        "firstSampleStart": ours.first_sample_start,
        "lastSampleStart": ours.last_sample_start,
    }
    for name, moment in plain.items():
        if moment != time(theirs[name]):
            yield f"{path}.{name}: {moment} != {theirs[name]}"
    if ours.total_samples_count != theirs["totalSamplesCount"]:
        count = ours.total_samples_count
        yield f"{path}.totalSamplesCount: {count} != {theirs['totalSamplesCount']}"
    for name, histogram in (
        ("cpuHistogram", ours.cpu_histogram),
        ("memoryHistogram", ours.memory_histogram),
    ):
        if not is_same(histogram, theirs[name]):
            yield f"{path}.{name}: {histogram} != {theirs[name]}"


def is_same(ours: HistogramCheckpoint, theirs: dict[str, Any]) -> bool:
    buckets = {int(bucket): weight for bucket, weight in (theirs["bucketWeights"] or {}).items()}
    return (
        dict(ours.bucket_weights) == buckets
        and ours.reference_time == time(theirs["referenceTimestamp"])
        and math.isclose(ours.total_weight, theirs["totalWeight"], rel_tol=1e-9)
    )


def time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
