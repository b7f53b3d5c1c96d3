"""Certificates of a control plane: signed, strict enough for Python, and fresh for each run."""

import subprocess
from pathlib import Path

import pytest

from rig import certificates
from rig.certificates import CertificateError, Certificates


def verify(made: Certificates, certificate: Path, *wanted: str) -> None:
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(made.authority), *wanted]
    verified = subprocess.run(
        [*command, str(certificate)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stderr


def test_certificates_are_signed_by_their_authority_for_loopback(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)

    verify(made, made.server.certificate, "-verify_ip", "127.0.0.1")
    verify(made, made.server.certificate, "-verify_hostname", "metrics-server.kube-system.svc")
    verify(made, made.proxy.certificate, "-purpose", "sslclient")
    assert made.account_public_key.read_text(encoding="utf-8").startswith("-----BEGIN PUBLIC KEY")


def test_a_certificate_that_is_issued_serves_its_names_and_shows_its_subject(
    tmp_path: Path,
) -> None:
    made = certificates.make(tmp_path)
    node = certificates.issue(tmp_path, "node", "/O=nodes/CN=node-0", "DNS:node-0, IP:10.0.0.1")

    verify(made, node.certificate, "-verify_ip", "10.0.0.1", "-purpose", "sslserver")
    verify(made, node.certificate, "-verify_hostname", "node-0", "-purpose", "sslclient")
    command = ["openssl", "x509", "-noout", "-subject", "-in", str(node.certificate)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.strip() == "subject=O = nodes, CN = node-0"


def test_each_run_has_an_authority_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()

    assert certificates.make(one).authority.read_bytes() != (
        certificates.make(other).authority.read_bytes()
    )


def test_without_openssl_the_package_to_install_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CertificateError, match="the package openssl of Debian"):
        certificates.make(tmp_path)
