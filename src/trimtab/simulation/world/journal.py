"""The journal: a running hash of all facts of a simulated cluster.

Two runs are the same if their hashes are. Facts are hashed in a binary form that depends on their
content alone: floats bit by bit, maps in the order of their keys, names and never addresses.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Final

import msgspec

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.simulation.world.facts import CheckpointDeleted, CheckpointSaved, Fact
from trimtab.simulation.world.world import World

KEPT: Final = 50
"""Number of latest facts that are kept for inspection."""


class Journal:
    """Follows the facts of a world from the journal's creation."""

    def __init__(self, world: World, *, kept: int = KEPT) -> None:
        self._hash = sha256()
        self._counts: Counter[str] = Counter()
        self._recent: deque[Fact] = deque(maxlen=kept)
        world.subscribe(self._note)

    def digest(self) -> str:
        """Return the hash of all facts so far, in hexadecimal digits."""
        return self._hash.hexdigest()

    def counts(self) -> Mapping[str, int]:
        """Return the number of facts of each kind."""
        return dict(self._counts)

    def recent(self) -> Sequence[Fact]:
        """Return the latest facts, the oldest first."""
        return tuple(self._recent)

    def _note(self, fact: Fact) -> None:
        kind = type(fact).__name__
        self._counts[kind] += 1
        self._recent.append(fact)
        self._hash.update(encode_fact(fact))


def encode_fact(fact: Fact) -> bytes:
    """Return the only binary form of a fact."""
    return _ENCODER.encode((type(fact).__name__, _with_text_keys(fact)))


def _with_text_keys(fact: Fact) -> Fact | tuple[object, ...]:
    """Return the fact, or a form whose maps have text keys, as the encoder needs them."""
    match fact:
        case CheckpointSaved(at, actor, before, after):
            return at, actor, before and _plain_checkpoint(before), _plain_checkpoint(after)
        case CheckpointDeleted(at, actor, checkpoint):
            return at, actor, _plain_checkpoint(checkpoint)
        case _:
            return fact


def _plain_checkpoint(checkpoint: Checkpoint) -> tuple[object, ...]:
    aggregate: AggregateCheckpoint = checkpoint.aggregate
    empty = HistogramCheckpoint()
    return (
        replace(
            checkpoint,
            aggregate=replace(aggregate, cpu_histogram=empty, memory_histogram=empty),
        ),
        _plain_histogram(aggregate.cpu_histogram),
        _plain_histogram(aggregate.memory_histogram),
    )


def _plain_histogram(histogram: HistogramCheckpoint) -> tuple[object, ...]:
    weights = sorted(histogram.bucket_weights.items())
    return histogram.reference_time, weights, histogram.total_weight


def _encode_other(value: object) -> object:
    if isinstance(value, MappingProxyType):
        return dict(value)
    raise NotImplementedError(f"a fact holds a {type(value).__name__}")


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic", enc_hook=_encode_other)
