"""Certificates of a control plane: signed, strict enough for Python, and fresh for each run."""

import subprocess
from pathlib import Path

from rig import certificates


def test_certificates_are_signed_by_their_authority_for_loopback(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(made.authority)]
    verified = subprocess.run(
        [*command, "-verify_ip", "127.0.0.1", str(made.server)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert verified.returncode == 0, verified.stderr
    assert made.account_public_key.read_text(encoding="utf-8").startswith("-----BEGIN PUBLIC KEY")


def test_each_run_has_an_authority_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()

    assert certificates.make(one).authority.read_bytes() != (
        certificates.make(other).authority.read_bytes()
    )
