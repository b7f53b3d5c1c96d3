"""Namespaces: their names, and the annotations that are for us."""

from typing import Final

import msgspec

from trimtab.api.decoding import Wire, decode
from trimtab.api.metadata import NO_METADATA, Metadata, text_map
from trimtab.core.annotations import PAUSED
from trimtab.core.namespaces import Namespace


class _Namespace(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None


_DECODER: Final = msgspec.json.Decoder(_Namespace)


def decode_namespace(data: bytes) -> Namespace:
    """The namespace in the JSON of one Namespace; annotations of others are left out."""
    metadata = decode(_DECODER, data).metadata or NO_METADATA
    annotations = text_map(metadata.annotations)
    return Namespace(
        metadata.name or "", {name: annotations[name] for name in (PAUSED,) if name in annotations}
    )
