"""Keys and certificates: what strict clients ask for, and clocks that differ."""

import ipaddress
from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from support.makers.records import NOW, hours

from trimtab.admission.webhook.certificates import make_authority, make_certificate

HOSTS = frozenset({"web.ns.svc", "127.0.0.1", "::1"})


def issued() -> tuple[x509.Certificate, x509.Certificate]:
    """An authority, and a certificate that it signed."""
    authority, key = make_authority(NOW, timedelta(days=9))
    shown = make_certificate(authority, key, HOSTS, NOW, timedelta(days=3))
    texts = (authority.certificate, shown.certificate)
    first, second = (x509.load_pem_x509_certificate(text.encode()) for text in texts)
    return first, second


def test_a_certificate_is_for_all_hosts_names_and_addresses_alike() -> None:
    _, shown = issued()
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == ["web.ns.svc"]
    assert set(names.get_values_for_type(x509.IPAddress)) == {
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    }


def test_a_certificate_can_serve_and_nothing_else_and_its_authority_can_sign() -> None:
    authority, shown = issued()
    shown.verify_directly_issued_by(authority)
    purposes = shown.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    limits = [
        each.extensions.get_extension_for_class(x509.BasicConstraints).value
        for each in (authority, shown)
    ]

    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert [each.ca for each in limits] == [True, False]
    assert limits[0].path_length == 0
    assert isinstance(shown.public_key(), ec.EllipticCurvePublicKey)


def test_f39_certificates_are_valid_where_the_clock_is_a_day_behind() -> None:
    for certificate in issued():
        assert certificate.not_valid_before_utc <= NOW - hours(24)


def test_certificates_end_when_they_should() -> None:
    authority, shown = issued()

    assert authority.not_valid_after_utc == NOW + timedelta(days=9)
    assert shown.not_valid_after_utc == NOW + timedelta(days=3)


def test_a_name_too_long_for_a_subject_is_still_a_host() -> None:
    authority, key = make_authority(NOW, timedelta(days=9))
    host = f"{'a' * 60}.{'b' * 60}.svc"
    shown = make_certificate(authority, key, frozenset({host}), NOW, timedelta(days=3))
    certificate = x509.load_pem_x509_certificate(shown.certificate.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == [host]
