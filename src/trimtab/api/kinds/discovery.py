"""Discovery: versions of an API group, and the resources and scales of its kinds."""

from collections.abc import Mapping
from typing import Final

import msgspec

from trimtab.api.wire import codec
from trimtab.api.wire.codec import Wire


class _Version(Wire, frozen=True, kw_only=True):
    version: str | None = None


class _Group(Wire, frozen=True, kw_only=True):
    versions: tuple[_Version, ...] | None = None
    preferred_version: _Version | None = None


class _Resource(Wire, frozen=True, kw_only=True):
    name: str | None = None
    kind: str | None = None
    namespaced: bool | None = None


class _ResourceList(Wire, frozen=True, kw_only=True):
    resources: tuple[_Resource, ...] | None = None


class _ServerVersion(Wire, frozen=True, kw_only=True):
    git_version: str | None = None


_SERVER_VERSION: Final = msgspec.json.Decoder(_ServerVersion)
_GROUP: Final = msgspec.json.Decoder(_Group)
_RESOURCE_LIST: Final = msgspec.json.Decoder(_ResourceList)


def decode_git_version(data: bytes) -> str:
    """Return the server's version in the JSON of its `/version`."""
    return codec.decode(_SERVER_VERSION, data).git_version or ""


def decode_versions(data: bytes) -> tuple[str, ...]:
    """Return the versions in the JSON of one APIGroup, the preferred one first."""
    group = codec.decode(_GROUP, data)
    preferred = (group.preferred_version or _Version()).version
    versions = [each.version for each in group.versions or () if each.version]
    return tuple(sorted(versions, key=lambda version: version != preferred))


def decode_resource_names(data: bytes) -> frozenset[str]:
    """Return all resource names in an APIResourceList's JSON, subresources included."""
    resources = codec.decode(_RESOURCE_LIST, data).resources or ()
    return frozenset(resource.name for resource in resources if resource.name)


def decode_scalable(data: bytes) -> Mapping[str, tuple[str, ...]]:
    """Return the names of namespaced resources with a scale, by kind, in an APIResourceList's JSON.

    A kind without such a resource has an empty entry.
    """
    resources = codec.decode(_RESOURCE_LIST, data).resources or ()
    names = {resource.name for resource in resources}
    by_kind: dict[str, tuple[str, ...]] = {}
    for resource in resources:
        name, kind = resource.name or "", resource.kind or ""
        if "/" in name:
            continue
        can_scale = resource.namespaced and f"{name}/scale" in names
        by_kind[kind] = (*by_kind.get(kind, ()), *((name,) if can_scale else ()))
    return by_kind
