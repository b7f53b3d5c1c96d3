"""Secrets: their data both ways, and the keyring of the webhook in them."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final, TypeAlias

import msgspec

from trimtab.api.wire import codec
from trimtab.api.wire.codec import DecodeError, Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.core.webhook.keyring import Authority, Keyring, ShownCertificate


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
    """The version that a patch replaces; empty for a Secret that is created."""


def decode_secret(data: bytes) -> Secret:
    """Return the Secret in the JSON of one Secret."""
    source = codec.decode(_DECODER, data)
    metadata = source.metadata or NO_METADATA
    return Secret(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        data={key: _read(key, text or "") for key, text in (source.data or {}).items()},
        resource_version=metadata.resource_version or "",
    )


def encode_secret(secret: Secret) -> bytes:
    """Return the JSON of a Secret, to create it."""
    return codec.encode(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": secret.name, "namespace": secret.namespace},
            "data": _write(secret.data),
        }
    )


def encode_secret_patch(secret: Secret) -> bytes:
    """Return the merge patch of the version that the Secret names; its other keys stay."""
    metadata = {"resourceVersion": secret.resource_version}
    return codec.encode({"metadata": metadata, "data": _write(secret.data)})


def _read(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise DecodeError(f"data[{key}]", f"not base64: {error}") from error


def _write(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


AUTHORITIES: Final = "caCert.pem"
SIGNING_KEY: Final = "caKey.pem"
CERTIFICATE: Final = "serverCert.pem"
KEY: Final = "serverKey.pem"
RECORD: Final = "keyring.json"

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----(?P<body>[A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----"
)


_Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class _Authority(Wire, frozen=True, kw_only=True):
    name: str
    certificate: str
    made_at: _Moment
    trusted_until: _Moment | None = None


class _Shown(Wire, frozen=True, kw_only=True):
    needs: tuple[str, ...]
    hosts: tuple[str, ...]
    made_at: _Moment
    ends_at: _Moment


class _Record(Wire, frozen=True, kw_only=True):
    authorities: tuple[_Authority, ...]
    shown: _Shown


_KEYRING_DECODER: Final = msgspec.json.Decoder(_Record)


def split_bundle(text: str) -> dict[str, str]:
    """Return the certificates in a text of PEM blocks by their names; other text is ignored."""
    bodies = ("".join(found["body"].split()) for found in _CERTIFICATE.finditer(text))
    return {name: _block(body) for body in bodies if (name := _name(body))}


def join_bundle(certificates: Iterable[str]) -> str:
    """Return certificates as one text of PEM blocks."""
    return "".join(text.strip() + "\n" for text in certificates)


def decode_keyring(data: Mapping[str, bytes]) -> Keyring:
    """Return the keyring in the data of a Secret; raises DecodeError if there is none of ours."""
    record = codec.decode(_KEYRING_DECODER, data.get(RECORD, b""))
    if not record.authorities:
        raise DecodeError("authorities", "a keyring without an authority")
    return Keyring(
        authorities=tuple(
            Authority(each.name, each.certificate, each.made_at, each.trusted_until)
            for each in record.authorities
        ),
        shown=read_pair(
            _text(data, CERTIFICATE),
            _text(data, KEY),
            needs=frozenset(record.shown.needs),
            hosts=frozenset(record.shown.hosts),
            made_at=record.shown.made_at,
            ends_at=record.shown.ends_at,
        ),
        signing_key=_text(data, SIGNING_KEY),
    )


def read_pair(
    certificate: str,
    key: str,
    *,
    needs: frozenset[str],
    hosts: frozenset[str] = frozenset(),
    made_at: datetime,
    ends_at: datetime,
) -> ShownCertificate:
    """Return a certificate to present with its key, named by the first block of its text."""
    names = list(split_bundle(certificate))
    if not names:
        raise DecodeError("", "no certificate in it")
    return ShownCertificate(
        name=names[0],
        certificate=certificate,
        key=key,
        needs=needs,
        hosts=hosts,
        made_at=made_at,
        ends_at=ends_at,
    )


def encode_keyring(keyring: Keyring) -> dict[str, bytes]:
    """Return the keyring as the data of a Secret."""
    shown = keyring.shown
    record = {
        "authorities": [
            {
                "name": each.name,
                "certificate": each.certificate,
                "madeAt": each.made_at,
                "trustedUntil": each.trusted_until,
            }
            for each in keyring.authorities
        ],
        "shown": {
            "needs": sorted(shown.needs),
            "hosts": sorted(shown.hosts),
            "madeAt": shown.made_at,
            "endsAt": shown.ends_at,
        },
    }
    texts = {
        AUTHORITIES: join_bundle(each.certificate for each in keyring.authorities),
        SIGNING_KEY: keyring.signing_key,
        CERTIFICATE: shown.certificate,
        KEY: shown.key,
    }
    return {RECORD: codec.encode(record), **{name: text.encode() for name, text in texts.items()}}


def _name(body: str) -> str:
    """Return the hash of the certificate in a block; empty if the block is invalid."""
    try:
        return hashlib.sha256(base64.b64decode(body, validate=True)).hexdigest()
    except binascii.Error:
        return ""


def _block(body: str) -> str:
    lines = "\n".join(body[start : start + 64] for start in range(0, len(body), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"


def _text(data: Mapping[str, bytes], name: str) -> str:
    try:
        return data[name].decode()
    except (KeyError, UnicodeDecodeError) as error:
        raise DecodeError(f"data[{name}]", "missing, or no text") from error
