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
"""
_ISSUED: Final = """\
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""
# All that listen on loopback serve with the same certificate.
_SERVER_NAMES: Final = (
    "DNS:localhost, DNS:kubernetes.default.svc, DNS:metrics-server.kube-system.svc, "
    "IP:127.0.0.1, IP:10.96.0.1"
)
PROXY_NAME: Final = "front-proxy-client"
_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DAYS: Final = "30"


class CertificateError(RuntimeError):
    """Certificates that could not be made."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of one control plane."""

    authority: Path
    server: Issued
    account_key: Path
    """Signs the tokens of service accounts."""
    account_public_key: Path
    kubelet_client: Issued
    """Shown to kubelets by the API server."""
    proxy: Issued
    """Shown to servers behind the API server, which then believe for whom it speaks."""


def make(directory: Path) -> Certificates:
    """A fresh authority, certificates for the API server, and a key for service accounts."""
    (directory / "openssl.cnf").write_text(_EXTENSIONS, encoding="utf-8")
    _make_authority(directory)
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    _openssl(directory, "genpkey", *curve, "-out", "accounts.key")
    _openssl(directory, "pkey", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")
    return Certificates(
        authority=directory / "ca.crt",
        server=issue(directory, "server", "/CN=kube-apiserver", _SERVER_NAMES),
        account_key=directory / "accounts.key",
        account_public_key=directory / "accounts.pub",
        kubelet_client=issue(
            directory, "kubelet-client", "/O=system:masters/CN=kube-apiserver", "DNS:localhost"
        ),
        proxy=issue(directory, "proxy", f"/CN={PROXY_NAME}", "DNS:localhost"),
    )


def issue(directory: Path, name: str, subject: str, alternative_names: str) -> Issued:
    """A certificate of the folder's authority: to serve with, and to be known by as a client."""
    (directory / f"{name}.cnf").write_text(_ISSUED.format(names=alternative_names), "utf-8")
    named = ("-config", "openssl.cnf", "-subj", subject)
    asked = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
    _openssl(directory, "req", "-new", *named, *_KEY, *asked)
    signer = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", _DAYS)
    request = ("-req", "-in", f"{name}.csr", "-out", f"{name}.crt")
    _openssl(directory, "x509", *request, *signer, "-extfile", f"{name}.cnf")
    return Issued(directory / f"{name}.crt", directory / f"{name}.key")


def _make_authority(directory: Path) -> None:
    out = ("-keyout", "ca.key", "-out", "ca.crt", "-days", _DAYS)
    named = ("-config", "openssl.cnf", "-subj", "/CN=trimtab-rig")
    _openssl(directory, "req", "-x509", "-extensions", "ca", *named, *_KEY, *out)


def _openssl(directory: Path, *arguments: str) -> None:
    program = shutil.which("openssl")
    if not program:
        raise CertificateError(
            "openssl is needed to make certificates and is not on PATH: it is the package openssl "
            "of Debian"
        )
    run = subprocess.run(
        [program, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        raise CertificateError(f"openssl {arguments[0]} failed: {run.stderr.strip()}")
