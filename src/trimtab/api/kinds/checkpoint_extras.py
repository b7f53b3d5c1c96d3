"""Supplements of checkpoints on the wire: JSON in an annotation, which the original ignores.

Supplements are optional: a foreign or broken text counts as none. The original overwrites the
status but not the annotation. So containers are read only if the annotation was written together
with the status of the same checkpoint.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

import msgspec

from trimtab.api.wire import times
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS
from trimtab.core.histogram.checkpoint import MAX_WEIGHT, HistogramCheckpoint
from trimtab.core.histogram.decay import ZERO_TIME
from trimtab.core.histogram.oom_floors import OomLevel
from trimtab.core.usage.checkpoint_extras import SavedContainer, Supplement
from trimtab.core.usage.containers import ContainerMemory
from trimtab.core.usage.saved_targets import SavedLevel, SavedTarget, SavedTargets

SUPPLEMENT: Final = "trimtab/supplement"
"""Annotation of a checkpoint with its supplement."""

_LATEST: Final = datetime(2262, 1, 1, tzinfo=UTC).timestamp()
_Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=-_LATEST, le=_LATEST)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_LATEST)]
_MOST: Final = 2e15
"""The largest amount: more than the largest reading that is accepted, with all margins."""
_Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_MOST)]


class _Level(msgspec.Struct, frozen=True, array_like=True, gc=False):
    needed_bytes: Annotated[int, msgspec.Meta(ge=0, le=int(_MOST))]
    seconds: _Seconds


class _Container(msgspec.Struct, frozen=True, array_like=True, gc=False):
    last_cpu: _Seconds | None
    last_memory: _Seconds | None
    window_end: _Seconds | None
    usage_peak: _Amount
    oom_peak: _Amount
    last_kill: _Seconds | None = None
    is_saved: bool = False


class _Target(msgspec.Struct, frozen=True, array_like=True, gc=False):
    held: _Amount
    changed: _Moment | None = None
    is_raised: bool = False
    is_lowered: bool = False


class _SeenLevel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    bucket: Annotated[int, msgspec.Meta(ge=0, lt=MEMORY_BUCKETS.count)]
    seconds: _Moment
    peak_bytes: _Amount
    pod: int
    """Place among the pods; -1 for none."""


class _Histogram(msgspec.Struct, frozen=True, array_like=True, gc=False):
    reference: Annotated[float, msgspec.Meta(ge=ZERO_TIME, le=_LATEST)]
    total_weight: Annotated[float, msgspec.Meta(ge=0, le=1e100)]
    """A sample weighs up to 2^100; sums of products have to stay finite."""
    first: Annotated[int, msgspec.Meta(ge=0, lt=CPU_BUCKETS.count)]
    weights: tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_WEIGHT)], ...]
    """By bucket, from the first one on."""


class _Targets(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    first: _Moment
    now: _Moment
    cpu: _Target | None = None
    memory: _Target | None = None
    most: _Amount = 0.0
    settled: bool = False
    tried: bool = False
    killed: _Moment | None = None
    limit: _Amount = 0.0
    kills: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    paused: Annotated[float, msgspec.Meta(ge=0, le=_LATEST)] = 0.0
    pods: tuple[str, ...] = ()
    levels: tuple[_SeenLevel, ...] = ()
    histogram: _Histogram | None = None


_NO_TARGETS: Final = msgspec.Raw()


class _Supplement(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    at: str
    """Time at which the status of the same checkpoint was written."""
    ooms: tuple[_Level, ...] = ()
    containers: dict[str, _Container] = msgspec.field(default_factory=dict)
    relearning: bool = False
    targets: msgspec.Raw = _NO_TARGETS
    """Decoded on its own, so that broken targets spoil nothing else."""


_DECODER: Final = msgspec.json.Decoder(_Supplement)
_TARGETS_DECODER: Final = msgspec.json.Decoder(_Targets)
_ENCODER: Final = msgspec.json.Encoder()


def encode_supplement(supplement: Supplement, written_at: datetime) -> str:
    """Return the annotation of a checkpoint that is written at that time."""
    written = _Supplement(
        at=times.format_time(written_at),
        ooms=tuple(
            _Level(int(_bounded(one.needed_bytes)), one.seconds) for one in supplement.oom_levels
        ),
        containers={pod: _write(one) for pod, one in supplement.containers.items()},
        relearning=supplement.is_relearning,
        targets=_NO_TARGETS
        if supplement.targets is None
        else msgspec.Raw(_ENCODER.encode(_write_targets(supplement.targets))),
    )
    return _ENCODER.encode(written).decode()


def decode_supplement(
    annotations: Mapping[str, str], written_at: datetime | None
) -> Supplement | None:
    """Return the supplement of a checkpoint with this status time; None if there is none."""
    try:
        source = _DECODER.decode(annotations.get(SUPPLEMENT, ""))
    except (msgspec.DecodeError, UnicodeError):
        return None
    is_about_status = written_at is not None and source.at == times.format_time(written_at)
    return Supplement(
        tuple(OomLevel(one.needed_bytes, one.seconds) for one in source.ooms),
        {pod: _read(one) for pod, one in source.containers.items()} if is_about_status else {},
        source.relearning,
        _decode_targets(source.targets),
    )


def _decode_targets(source: msgspec.Raw) -> SavedTargets | None:
    """Return the held targets; None if there are none, or if they are broken."""
    try:
        return _read_targets(_TARGETS_DECODER.decode(source)) if bytes(source) else None
    except (msgspec.DecodeError, UnicodeError):
        return None


def _write_targets(saved: SavedTargets) -> _Targets:
    pods = sorted({level.pod for level in saved.levels if level.pod})
    places = {pod: place for place, pod in enumerate(pods)}
    return _Targets(
        first=saved.first,
        now=saved.now,
        cpu=_write_target(saved.cpu),
        memory=_write_target(saved.memory),
        most=_bounded(saved.most_needed),
        settled=saved.is_settled,
        tried=saved.is_tried,
        killed=saved.last_kill,
        limit=_bounded(saved.kill_limit),
        kills=saved.kills,
        paused=saved.paused,
        pods=tuple(pods),
        levels=tuple(
            _SeenLevel(
                each.bucket, each.seconds, _bounded(each.peak_bytes), places.get(each.pod, -1)
            )
            for each in saved.levels
        ),
        histogram=_write_histogram(saved.cpu_histogram),
    )


def _write_target(saved: SavedTarget | None) -> _Target | None:
    if saved is None:
        return None
    return _Target(_bounded(saved.held), saved.changed, saved.is_raised, saved.is_lowered)


def _bounded(amount: float) -> float:
    """Return the amount as it can be read again: requests and limits have no bound at all."""
    return min(amount, _MOST)


def _write_histogram(saved: HistogramCheckpoint | None) -> _Histogram | None:
    if saved is None or not saved.bucket_weights or saved.reference_time is None:
        return None
    first, last = min(saved.bucket_weights), max(saved.bucket_weights)
    weights = tuple(saved.bucket_weights.get(bucket, 0) for bucket in range(first, last + 1))
    return _Histogram(saved.reference_time.timestamp(), saved.total_weight, first, weights)


def _read_targets(source: _Targets) -> SavedTargets:
    pods = dict(enumerate(source.pods))
    return SavedTargets(
        source.first,
        source.now,
        _read_target(source.cpu),
        _read_target(source.memory),
        source.most,
        source.settled,
        source.tried,
        source.killed,
        source.limit,
        source.kills,
        source.paused,
        tuple(
            SavedLevel(each.bucket, each.seconds, each.peak_bytes, pods.get(each.pod, ""))
            for each in source.levels
        ),
        _read_histogram(source.histogram),
    )


def _read_target(source: _Target | None) -> SavedTarget | None:
    if source is None:
        return None
    return SavedTarget(source.held, source.changed, source.is_raised, source.is_lowered)


def _read_histogram(source: _Histogram | None) -> HistogramCheckpoint | None:
    if source is None:
        return None
    weights = {
        bucket: weight
        for bucket, weight in enumerate(source.weights, start=source.first)
        if weight and bucket < CPU_BUCKETS.count
    }
    reference = datetime.fromtimestamp(source.reference, UTC)
    return HistogramCheckpoint(reference, weights, source.total_weight)


def _write(remembered: SavedContainer) -> _Container:
    memory, kill = remembered.memory, remembered.last_kill
    return _Container(
        _finite(memory.last_cpu),
        _finite(memory.last_memory),
        memory.window_end,
        memory.usage_peak,
        memory.oom_peak,
        None if kill is None else kill.timestamp(),
        memory.is_saved,
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _read(source: _Container) -> SavedContainer:
    memory = ContainerMemory(
        -math.inf if source.last_cpu is None else source.last_cpu,
        -math.inf if source.last_memory is None else source.last_memory,
        source.window_end,
        source.usage_peak,
        source.oom_peak,
        source.is_saved,
    )
    kill = source.last_kill
    return SavedContainer(memory, None if kill is None else datetime.fromtimestamp(kill, UTC))
