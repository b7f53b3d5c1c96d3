"""Keys and certificates for tests of TLS, made in memory."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    signed: x509.Certificate
    private: ec.EllipticCurvePrivateKey

    @property
    def certificate(self) -> str:
        return self.signed.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key(self) -> str:
        return self.private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()


def an_authority() -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("authority")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    built = (
        _begin(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    return Pair(built.sign(key, hashes.SHA256()), key)


def a_pair(authority: Pair, name: str, ends_in: timedelta = timedelta(hours=1)) -> Pair:
    """A certificate for 127.0.0.1, or to show as a client of that name."""
    key = ec.generate_private_key(ec.SECP256R1())
    address = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.private.public_key())
    built = (
        _begin(_name(name), authority.signed.subject, key, ends_in)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(identifier, critical=False)
    )
    return Pair(built.sign(authority.private, hashes.SHA256()), key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    ends_in: timedelta = timedelta(hours=1),
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + ends_in)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
