"""Histograms: samples, merges and checkpoints, done in order on one row of a bank."""

import math
from datetime import datetime, timedelta
from typing import Any

from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS
from trimtab.core.histogram.checkpoint import CheckpointError, HistogramCheckpoint

SCHEMES = {"cpu": CPU_BUCKETS, "memory": MEMORY_BUCKETS}


def differences(case: dict[str, Any]) -> list[str]:
    expected = case["expected"]
    fractions = tuple(fraction for fraction, _ in expected["percentiles"])
    scheme = SCHEMES[case["input"]["resource"]]
    bank = HistogramBank(scheme, timedelta(days=1), fractions)
    row, errors = replay(bank, case["input"]["ops"])
    found = list(compare("errors", errors, expected.get("errors") or []))
    found += compare("isEmpty", bool(bank.is_empty(row)), expected["isEmpty"])
    in_one_pass = bank.percentiles()[row].tolist()
    for (fraction, theirs), ours in zip(expected["percentiles"], in_one_pass, strict=True):
        found += compare(f"percentiles/{fraction}", ours, theirs)
        found += compare(f"percentile/{fraction}", bank.percentile(row, fraction), theirs)
    return found + list(compare("checkpoint", written(bank.encode(row)), expected["checkpoint"]))


def replay(bank: HistogramBank, ops: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
    """The row that holds the outcome, and the errors on the way."""
    row, errors = int(bank.allocate(1)[0]), []
    for index, op in enumerate(ops):
        try:
            row = apply(bank, row, op)
        except CheckpointError as error:
            errors.append({"error": str(error), "op": index})
    return row, errors


def apply(bank: HistogramBank, row: int, op: dict[str, Any]) -> int:
    """Do one thing to a row and tell in which row it goes on."""
    match op["op"]:
        case "add":
            bank.add(row, op["value"], op["weight"], parse_time(op["time"]).timestamp())
        case "subtract":
            bank.subtract(row, op["value"], op["weight"], parse_time(op["time"]).timestamp())
        case "merge":
            bank.merge(row, replay(bank, op.get("other") or [])[0])
        case "roundTrip":
            fresh = int(bank.allocate(1)[0])
            bank.decode(fresh, bank.encode(row))
            return fresh
        case "load":
            bank.decode(row, read(op.get("checkpoint")))
        case other:
            raise AssertionError(other)
    return row


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def read(stored: dict[str, Any] | None) -> HistogramCheckpoint | None:
    if stored is None:
        return None
    time = stored.get("referenceTimestamp")
    weights = {
        int(bucket): weight for bucket, weight in (stored.get("bucketWeights") or {}).items()
    }
    return HistogramCheckpoint(
        parse_time(time) if time else None, weights, stored.get("totalWeight") or 0.0
    )


def written(checkpoint: HistogramCheckpoint) -> dict[str, Any]:
    time = checkpoint.reference_time
    return {
        "bucketWeights": {str(bucket): w for bucket, w in checkpoint.bucket_weights.items()},
        "referenceTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ") if time else None,
        "totalWeight": checkpoint.total_weight,
    }


def compare(path: str, ours: Any, theirs: Any) -> list[str]:
    if isinstance(theirs, dict):
        keys = sorted(ours.keys() | theirs.keys())
        return [
            line
            for key in keys
            for line in compare(f"{path}/{key}", ours.get(key), theirs.get(key))
        ]
    # The original writes a large float without a fraction, which reads as an int.
    if isinstance(ours, float) and isinstance(theirs, float | int):
        same = math.isclose(ours, theirs, rel_tol=1e-9)
    else:
        same = ours == theirs
    return [] if same else [f"{path}: {ours} != {theirs}"]
