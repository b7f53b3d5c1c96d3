"""Keys and certificates of a control plane that lives as long as a test run, made with openssl.

They carry the extensions (key usage, key identifiers) that strict clients ask for.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_EXTENSIONS: Final = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = overridden on the command line
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:localhost, DNS:kubernetes.default.svc, IP:127.0.0.1, IP:10.96.0.1
"""
_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DAYS: Final = "30"


class CertificateError(RuntimeError):
    """Certificates that could not be made."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of one control plane."""

    authority: Path
    server: Path
    server_key: Path
    account_key: Path
    """Signs the tokens of service accounts."""
    account_public_key: Path


def make(directory: Path) -> Certificates:
    """A fresh authority, a server certificate for loopback, and a key for service accounts."""
    (directory / "openssl.cnf").write_text(_EXTENSIONS, encoding="utf-8")
    _make_authority(directory)
    _make_server(directory)
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    _openssl(directory, "genpkey", *curve, "-out", "accounts.key")
    _openssl(directory, "pkey", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")
    names = ("ca.crt", "server.crt", "server.key", "accounts.key", "accounts.pub")
    return Certificates(*(directory / name for name in names))


def _make_authority(directory: Path) -> None:
    out = ("-keyout", "ca.key", "-out", "ca.crt", "-days", _DAYS)
    named = ("-config", "openssl.cnf", "-subj", "/CN=trimtab-rig")
    _openssl(directory, "req", "-x509", "-extensions", "ca", *named, *_KEY, *out)


def _make_server(directory: Path) -> None:
    named = ("-config", "openssl.cnf", "-subj", "/CN=kube-apiserver")
    _openssl(directory, "req", "-new", *named, *_KEY, "-keyout", "server.key", "-out", "server.csr")
    signer = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", _DAYS)
    extensions = ("-extfile", "openssl.cnf", "-extensions", "server")
    request = ("-req", "-in", "server.csr", "-out", "server.crt")
    _openssl(directory, "x509", *request, *signer, *extensions)


def _openssl(directory: Path, *arguments: str) -> None:
    program = shutil.which("openssl")
    if not program:
        raise CertificateError("openssl is needed to make certificates and is not on PATH")
    run = subprocess.run(
        [program, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        raise CertificateError(f"openssl {arguments[0]} failed: {run.stderr.strip()}")
