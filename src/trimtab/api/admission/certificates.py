"""Certificates as they are shown and believed: whose they are, and for how long."""

from collections.abc import Iterator
from datetime import UTC

from cryptography import x509
from cryptography.x509.oid import NameOID

from trimtab.api.kinds import secrets
from trimtab.api.wire.codec import DecodeError
from trimtab.core.diagnosis.webhook import Certificate


def read_bundle(bundle: str) -> tuple[Certificate, ...]:
    """The certificates in a text of PEM blocks, as far as they can be read."""
    return tuple(_read_all(bundle))


def read_certificate(der: bytes) -> Certificate:
    """The certificate that a server shows."""
    try:
        return _convert(x509.load_der_x509_certificate(der))
    except ValueError as error:
        raise DecodeError("certificate", f"it cannot be read: {error}") from error


def _read_all(bundle: str) -> Iterator[Certificate]:
    for text in secrets.split_bundle(bundle).values():
        try:
            yield _convert(x509.load_pem_x509_certificate(text.encode()))
        except ValueError:
            # The API server does not believe it either.
            continue


def _convert(source: x509.Certificate) -> Certificate:
    names = source.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Certificate(
        str(names[0].value) if names else source.subject.rfc4514_string(),
        source.not_valid_before_utc.astimezone(UTC),
        source.not_valid_after_utc.astimezone(UTC),
    )
