"""Certificates of servers and CA bundles: their names and validity."""

from collections.abc import Iterator
from datetime import UTC

from cryptography import x509
from cryptography.x509.oid import NameOID

from trimtab.api.kinds import secrets
from trimtab.api.wire.codec import DecodeError
from trimtab.core.diagnosis.webhook import Certificate


def read_bundle(bundle: str) -> tuple[Certificate, ...]:
    """Return the readable certificates in a text of PEM blocks."""
    return tuple(_read_all(bundle))


def read_certificate(der: bytes) -> Certificate:
    """Return the certificate that a server presents, from its DER; raises DecodeError."""
    try:
        return _convert(x509.load_der_x509_certificate(der))
    except ValueError as error:
        raise DecodeError("certificate", f"it cannot be read: {error}") from error


def _read_all(bundle: str) -> Iterator[Certificate]:
    for text in secrets.split_bundle(bundle).values():
        try:
            yield _convert(x509.load_pem_x509_certificate(text.encode()))
        except ValueError:
            # The API server does not trust it either.
            continue


def _convert(source: x509.Certificate) -> Certificate:
    names = source.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Certificate(
        str(names[0].value) if names else source.subject.rfc4514_string(),
        source.not_valid_before_utc.astimezone(UTC),
        source.not_valid_after_utc.astimezone(UTC),
    )
