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
from trimtab.core.histogram.oom_floors import OomLevel
from trimtab.core.usage.checkpoint_extras import SavedContainer, Supplement
from trimtab.core.usage.containers import ContainerMemory

SUPPLEMENT: Final = "trimtab/supplement"
"""Annotation of a checkpoint with its supplement."""

_LATEST: Final = datetime(2262, 1, 1, tzinfo=UTC).timestamp()
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_LATEST)]
_Bytes: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class _Level(msgspec.Struct, frozen=True, array_like=True, gc=False):
    needed_bytes: Annotated[int, msgspec.Meta(ge=0, le=10**15)]
    seconds: _Seconds


class _Container(msgspec.Struct, frozen=True, array_like=True, gc=False):
    last_cpu: _Seconds | None
    last_memory: _Seconds | None
    window_end: _Seconds | None
    usage_peak: _Bytes
    oom_peak: _Bytes
    last_kill: _Seconds | None = None
    is_saved: bool = False


class _Supplement(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    at: str
    """Time at which the status of the same checkpoint was written."""
    ooms: tuple[_Level, ...] = ()
    containers: dict[str, _Container] = msgspec.field(default_factory=dict)
    relearning: bool = False


_DECODER: Final = msgspec.json.Decoder(_Supplement)


def encode_supplement(supplement: Supplement, written_at: datetime) -> str:
    """Return the annotation of a checkpoint that is written at that time."""
    written = _Supplement(
        at=times.format_time(written_at),
        ooms=tuple(_Level(one.needed_bytes, one.seconds) for one in supplement.oom_levels),
        containers={pod: _write(one) for pod, one in supplement.containers.items()},
        relearning=supplement.is_relearning,
    )
    return msgspec.json.encode(written).decode()


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
    )


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
