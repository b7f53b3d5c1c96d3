"""Certificates as a diagnosis reads them."""

import ssl
from datetime import timedelta

import pytest
from support.makers.certificates import an_authority

from trimtab.api.admission.certificates import read_bundle, read_certificate
from trimtab.api.wire.codec import DecodeError


def test_a_bundle_is_read_as_far_as_it_holds_certificates() -> None:
    pem = an_authority().certificate
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    found = read_bundle(f"{pem}{broken}nonsense")

    assert len(found) == 1
    assert found[0].ends_at - found[0].begins_at > timedelta()
    assert found[0] == read_certificate(ssl.PEM_cert_to_DER_cert(pem))


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(DecodeError, match="cannot be read"):
        read_certificate(b"nonsense")
