"""Encoding of checkpoints, imported when the first one comes.

Checkpoints hold histograms, which import numpy. That is a sixth of the memory of a process which
has no use for checkpoints.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.api.kinds.checkpoints import Checkpoint


class _Wire(Protocol):
    """Interface of `trimtab.api.kinds.checkpoints`, which is imported late."""

    def decode_checkpoint(self, data: bytes) -> Checkpoint: ...

    def decode_checkpoint_annotations(self, data: bytes) -> Mapping[str, str]: ...

    def is_of_another(self, data: bytes, checkpoint: Checkpoint) -> bool: ...

    def encode_checkpoint(self, checkpoint: Checkpoint) -> bytes: ...

    def encode_checkpoint_patch(
        self, checkpoint: Checkpoint, *, stored: Mapping[str, str]
    ) -> bytes: ...


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Decode a checkpoint from JSON."""
    return _wire().decode_checkpoint(data)


def decode_checkpoint_annotations(data: bytes) -> Mapping[str, str]:
    """Decode the annotations of a checkpoint from JSON, whatever else is in it."""
    return _wire().decode_checkpoint_annotations(data)


def is_of_another(data: bytes, checkpoint: Checkpoint) -> bool:
    """Return True if the JSON is that of a checkpoint of another autoscaler or container."""
    return _wire().is_of_another(data, checkpoint)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode a checkpoint that is to be created."""
    return _wire().encode_checkpoint(checkpoint)


def encode_checkpoint_patch(checkpoint: Checkpoint, *, stored: Mapping[str, str]) -> bytes:
    """Encode the patch that makes the checkpoint of one with these annotations."""
    return _wire().encode_checkpoint_patch(checkpoint, stored=stored)


def _wire() -> _Wire:
    return cast("_Wire", import_module("trimtab.api.kinds.checkpoints"))
