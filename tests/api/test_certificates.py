"""Certificates as a diagnosis reads them."""

import ssl
from datetime import timedelta

import pytest
from tls_makers import an_authority

from trimtab.api.certificates import read_bundle, read_certificate
from trimtab.api.decoding import DecodeError
from trimtab.api.endpoint_slices import decode_ready_addresses


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


def test_only_copies_that_are_ready_or_do_not_say_count() -> None:
    data = (
        b'{"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}},'
        b'{"addresses": ["10.0.0.2"], "conditions": {"ready": false}},'
        b'{"addresses": ["10.0.0.3"]}]}'
    )

    assert decode_ready_addresses(data) == {"10.0.0.1", "10.0.0.3"}
