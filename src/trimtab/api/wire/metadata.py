"""Metadata that all objects share: identity, owner, age."""

from collections.abc import Mapping
from sys import intern
from typing import Final

from trimtab.api.wire.codec import Int64, Wire
from trimtab.core.model import pods


class Owner(Wire, frozen=True, kw_only=True):
    """One owner reference."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class Metadata(Wire, frozen=True, kw_only=True):
    """The `metadata` of an object."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: Int64 | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    owner_references: tuple[Owner, ...] | None = None


NO_METADATA: Final = Metadata()
"""Stands for the metadata of an object without any."""


def controlling_owner(metadata: Metadata) -> pods.OwnerReference | None:
    """Return the owner that controls the object; None without one."""
    return find_controller(metadata.owner_references)


def find_controller(references: tuple[Owner, ...] | None) -> pods.OwnerReference | None:
    """Return the last owner with `controller: true`; references without that field are skipped."""
    for owner in reversed(references or ()):
        if owner.controller:
            return pods.OwnerReference(
                kind=intern(owner.kind or ""),
                name=owner.name or "",
                api_version=intern(owner.api_version or ""),
                uid=owner.uid or "",
            )
    return None


def text_map(wire: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return labels or annotations with interned strings: many objects share the same ones."""
    return {intern(key): intern(value or "") for key, value in wire.items()} if wire else {}
