"""Secrets: their data both ways, and how one is created or changed."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import field
from typing import Final

import msgspec

from trimtab.api.decoding import DecodeError, Wire, decode
from trimtab.api.encoding import encode
from trimtab.api.metadata import NO_METADATA, Metadata
from trimtab.core.records import dataclass


class _Secret(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    data: dict[str, str | None] | None = None


_DECODER: Final = msgspec.json.Decoder(_Secret)


@dataclass(frozen=True, slots=True)
class Secret:
    """One Secret."""

    namespace: str
    name: str
    data: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    resource_version: str = ""
    """The version that a change replaces; empty for one that is created."""


def decode_secret(data: bytes) -> Secret:
    """The Secret in the JSON of one."""
    source = decode(_DECODER, data)
    metadata = source.metadata or NO_METADATA
    return Secret(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        data={key: _read(key, text or "") for key, text in (source.data or {}).items()},
        resource_version=metadata.resource_version or "",
    )


def encode_secret(secret: Secret) -> bytes:
    """The JSON of a Secret that is created."""
    return encode(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": secret.name, "namespace": secret.namespace},
            "data": _write(secret.data),
        }
    )


def encode_secret_patch(secret: Secret) -> bytes:
    """The merge patch of the version that the Secret names; other keys of it stay."""
    metadata = {"resourceVersion": secret.resource_version}
    return encode({"metadata": metadata, "data": _write(secret.data)})


def _read(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise DecodeError(f"data[{key}]", f"not base64: {error}") from error


def _write(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}
