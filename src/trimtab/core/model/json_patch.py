"""JSON Patch (RFC 6902): operations as records, and paths that are valid for any key."""

from typing import TypeAlias

import msgspec


class Add(msgspec.Struct, frozen=True, gc=False, tag_field="op", tag="add"):
    """Sets the value at a path; what contains it must exist."""

    path: str
    value: str | dict[str, str]


class Remove(msgspec.Struct, frozen=True, gc=False, tag_field="op", tag="remove"):
    """Takes away the value at a path; it must exist."""

    path: str


Operation: TypeAlias = Add | Remove
"""One entry of a patch. Encoded as it stands, it is what the API server reads."""

Patch: TypeAlias = tuple[Operation, ...]
"""Operations in the order in which they apply."""


def pointer(*keys: str | int) -> str:
    """Return the JSON Pointer (RFC 6901) that leads through the keys."""
    path = "/" + "/".join(map(str, keys))
    if "~" not in path and path.count("/") == len(keys):
        # Nothing needs escaping. Called several times for each new pod, so this case is fast.
        return path
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in keys)
