"""From records to the JSON that we write.

A field of a written record that has its default is left out, as the original leaves it out.
"""

import msgspec


class Written(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """An object, or a part of one, that we write."""


def encode(written: object) -> bytes:
    """The JSON of a written record, or of plain lists and maps of them."""
    return msgspec.json.encode(written)
