"""Making keys and certificates, with ECDSA P-256 and the extensions that strict clients require.

Only processes that make certificates import this module: the library below is large.
"""

import ipaddress
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trimtab.api.kinds import secrets
from trimtab.core.webhook.keyring import Authority, ShownCertificate

_EARLIER: Final = timedelta(hours=24)
"""Time by which certificates are valid before their creation, since clocks differ."""
_LONGEST_NAME: Final = 64
"""Maximum length of a common name."""


def make_authority(now: datetime, life: timedelta) -> tuple[Authority, str]:
    """Return a new authority and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"trimtab-webhook-{now:%Y%m%d%H%M%S}")
    usage = _usage(key_cert_sign=True)
    built = (
        _begin(name, name, key, now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    certificate = _pem(built.sign(key, hashes.SHA256()))
    (fingerprint,) = secrets.split_bundle(certificate)
    return Authority(fingerprint, certificate, now), _key_pem(key)


def make_certificate(
    authority: Authority,
    signing_key: str,
    hosts: frozenset[str],
    now: datetime,
    life: timedelta,
) -> ShownCertificate:
    """Return a server certificate for these hosts, signed by the authority."""
    signer = serialization.load_pem_private_key(signing_key.encode(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    names = sorted(hosts)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    built = (
        _begin(_name(names[0][:_LONGEST_NAME]), issuer.subject, key, now, now + life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(purpose, critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(_alternative, names))), critical=False)
    )
    return secrets.read_pair(
        _pem(built.sign(signer, hashes.SHA256())),
        _key_pem(key),
        needs=frozenset({authority.name}),
        hosts=hosts,
        made_at=now,
        ends_at=now + life,
    )


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    ends_at: datetime,
) -> x509.CertificateBuilder:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(ends_at)
        .add_extension(identifier, critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
