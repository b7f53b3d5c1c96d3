"""Keyrings as Secrets hold them, and the blocks of a bundle."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.certificates import a_pair, an_authority
from support.makers.records import NOW, hours

from trimtab.admission.webhook.certificates import make_authority, make_certificate
from trimtab.api.kinds.secrets import (
    Secret,
    decode_keyring,
    decode_secret,
    encode_keyring,
    encode_secret,
    encode_secret_patch,
    join_bundle,
    split_bundle,
)
from trimtab.api.wire.codec import DecodeError
from trimtab.core.webhook.keyring import begin, with_authority, with_shown


def test_a_keyring_survives_being_written_and_read() -> None:
    first, first_key = make_authority(NOW, hours(9))
    second, second_key = make_authority(NOW + hours(1), hours(9))
    host = frozenset({"webhook"})
    keyring = begin(first, first_key, make_certificate(first, first_key, host, NOW, hours(1)))
    keyring = with_authority(keyring, second, second_key)
    shown = make_certificate(second, second_key, host, NOW + hours(1), hours(1))
    keyring = with_shown(keyring, shown)

    assert keyring.authorities[0].trusted_until
    assert decode_keyring(encode_keyring(keyring)) == keyring


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param({"keyring.json": b"{}"}, id="a record without content"),
        pytest.param({"keyring.json": b"\xff"}, id="a record that is no text"),
        pytest.param({"serverCert.pem": b""}, id="no certificate"),
        pytest.param({"serverKey.pem": b"\xff"}, id="a key that is no text"),
    ],
)
def test_a_spoilt_keyring_is_refused(spoil: dict[str, bytes]) -> None:
    authority, key = make_authority(NOW, hours(9))
    shown = make_certificate(authority, key, frozenset({"webhook"}), NOW, hours(1))
    data = encode_keyring(begin(authority, key, shown))

    with pytest.raises(DecodeError):
        decode_keyring({**data, **spoil})


def test_blocks_of_a_bundle_have_the_same_name_however_they_are_written() -> None:
    one, two = an_authority().certificate, an_authority().certificate
    crowded = two.replace("\n", "\r\n") + "# a comment\n" + one + one
    bundle = split_bundle(crowded)

    assert list(bundle) == [*split_bundle(two), *split_bundle(one)]
    assert split_bundle(join_bundle(bundle.values())) == bundle
    assert split_bundle(a_pair(an_authority(), "x").key) == {}


@given(st.text(alphabet="-BEGIN CERTFADabc=\n"))
def test_any_text_can_be_split_into_what_certificates_it_holds(text: str) -> None:
    spoilt = f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"
    bundle = split_bundle(spoilt)

    assert split_bundle(join_bundle(bundle.values())) == bundle


def test_a_secret_is_created_whole_and_patched_in_the_version_that_was_seen() -> None:
    secret = Secret("trimtab", "keys", {"a": b"\x00\x01"}, "7")
    created = json.loads(encode_secret(secret))
    patch = json.loads(encode_secret_patch(secret))
    created["metadata"]["resourceVersion"] = "7"

    assert decode_secret(json.dumps(created).encode()) == secret
    assert patch == {"metadata": {"resourceVersion": "7"}, "data": {"a": "AAE="}}


def test_secret_data_that_is_not_base64_is_refused_with_its_key() -> None:
    with pytest.raises(DecodeError, match=r"data\[a\]"):
        decode_secret(b'{"data": {"a": "?"}}')
