"""TLS of the webhook server: its versions and ciphers, and how certificates get loaded.

One `SSLContext` lasts as long as the server. The owner of the certificates loads newer ones into
it: the next handshake presents the new one, and open connections continue. Other modules make, keep
and rotate certificates; this one holds what they share with the server.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final


class TlsVersion(StrEnum):
    """Minimum TLS version, by the original's names."""

    V1_2 = "tls1_2"
    V1_3 = "tls1_3"


_VERSIONS: Final = {
    TlsVersion.V1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.V1_3: ssl.TLSVersion.TLSv1_3,
}


_CIPHERS: Final = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""OpenSSL's names of ciphers for TLS 1.2, by Go's names."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate with its chain, and its key, as PEM files."""

    certificate: Path
    key: Path


def parse_version(text: str) -> TlsVersion:
    """Return the version that `--min-tls-version` names; raises ValueError for others."""
    return TlsVersion(text or TlsVersion.V1_2)


def parse_ciphers(text: str) -> tuple[str, ...]:
    """Return the ciphers that `--tls-ciphers` names; unknown names are skipped."""
    return tuple(_CIPHERS[name] for name in _split_names(text) if name in _CIPHERS)


def list_unknown_ciphers(text: str) -> list[str]:
    """Return the names in `--tls-ciphers` that are no ciphers for TLS 1.2."""
    return [name for name in _split_names(text) if name not in _CIPHERS]


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.replace(":", ",").split(",") if name.strip()]


def make_context(oldest: TlsVersion, ciphers: Sequence[str] = ()) -> ssl.SSLContext:
    """Return a server context without a certificate; without `ciphers`, the usual ones apply.

    The ciphers are for TLS 1.2: those of later versions are not configurable.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[oldest]
    # Offer HTTP/1.1 only: the server does not speak HTTP/2.
    context.set_alpn_protocols(["http/1.1"])
    if ciphers:
        context.set_ciphers(":".join(ciphers))
    return context


def require_clients(context: ssl.SSLContext, authority: Path) -> None:
    """Accept only clients with a certificate of the authority; raises OSError for a bad file."""
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED


def load_pair(context: ssl.SSLContext, files: CertificateFiles) -> None:
    """Present this pair from the next handshake on.

    Raises OSError or SSLError for a bad pair, and changes nothing. The pair is tried in a separate
    context first: a mismatched pair would leave the live context without any certificate.
    """
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)
    context.load_cert_chain(files.certificate, files.key)
