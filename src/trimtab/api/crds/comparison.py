"""Comparison of a cluster's definitions of our kinds with those that we ship (`definitions`)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from trimtab.api.crds import definitions
from trimtab.api.crds.definitions import Schema
from trimtab.api.wire import codec
from trimtab.api.wire.codec import Wire
from trimtab.core.diagnosis.api_server import Definition

_SCHEMA: Final = "openAPIV3Schema"
_APPLIER: Final = "kubectl"
"""The field manager of kubectl's server-side apply."""
_KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"


class _Version(Wire, frozen=True, kw_only=True):
    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    schema: dict[str, object] | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    versions: tuple[_Version, ...] | None = None


class _Condition(Wire, frozen=True, kw_only=True):
    type: str | None = None
    status: str | None = None


class _Status(Wire, frozen=True, kw_only=True):
    conditions: tuple[_Condition, ...] | None = None


class _ManagedFields(Wire, frozen=True, kw_only=True):
    manager: str | None = None
    operation: str | None = None
    subresource: str | None = None
    fields_v1: dict[str, object] | None = msgspec.field(default=None, name="fieldsV1")


class _Metadata(Wire, frozen=True, kw_only=True):
    managed_fields: tuple[_ManagedFields, ...] | None = None


class _Definition(Wire, frozen=True, kw_only=True):
    metadata: _Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_DECODER: Final = msgspec.json.Decoder(_Definition)


def compare_definition(wanted: Schema, found: bytes) -> Definition:
    """Compare a definition, as the cluster's JSON, with the one that we ship."""
    source = codec.decode(_DECODER, found)
    versions = (source.spec or _Spec()).versions or ()
    current = next((one for one in versions if one.name == definitions.VERSION), _Version())
    conditions = (source.status or _Status()).conditions or ()
    return Definition(
        name_of(wanted),
        is_established=any(
            one.type == "Established" and one.status == "True" for one in conditions
        ),
        serves_v1=bool(current.served),
        stores_v1=bool(current.storage),
        missing_fields=tuple(
            _missing(definitions.schema_of(wanted), (current.schema or {}).get(_SCHEMA))
        ),
        managers=tuple(_list_managers(source.metadata or _Metadata())),
    )


def _list_managers(metadata: _Metadata) -> Iterator[str]:
    """List the managers whose fields a server-side apply by kubectl conflicts with.

    `kubectl create` and Helm own what they have written. A manager that applied as `kubectl` is the
    one that applies again.
    """
    for each in metadata.managed_fields or ():
        is_kubectl = each.manager == _APPLIER and each.operation == "Apply"
        if each.manager and "f:spec" in (each.fields_v1 or {}) and not is_kubectl:
            yield each.manager


def name_of(wanted: Schema) -> str:
    """Return the name of a definition."""
    metadata = wanted["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def _missing(wanted: object, found: object, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that only the wanted schema has; nothing below a missing field."""
    if not isinstance(wanted, dict) or not isinstance(found, dict) or found.get(_KEEPS_UNKNOWN):
        return
    if "items" in wanted:
        yield from _missing(wanted["items"], found.get("items"), f"{path}[]")
    known = found.get("properties")
    for name, schema in _properties(wanted).items():
        place = f"{path}.{name}".lstrip(".")
        if not isinstance(known, dict) or name not in known:
            yield place
        else:
            yield from _missing(schema, known[name], place)


def _properties(schema: dict[str, object]) -> dict[str, object]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}
