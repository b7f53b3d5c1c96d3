"""TLS of the webhook server: how strict it is, and where its certificates come from.

There is one `SSLContext` for as long as the server runs. Whoever owns certificates loads newer
ones into it: the next handshake shows the new one, and open connections live on. Making, keeping
and rotating certificates is left to others; here is only what they agree on with the server.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final


class TlsVersion(StrEnum):
    """The oldest version of TLS that is spoken, by the original's names."""

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
"""What Go's names of ciphers for TLS 1.2 are here."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate (with what it needs to be believed) and its key, as PEM files."""

    certificate: Path
    key: Path


def parse_version(text: str) -> TlsVersion:
    """The version that `--min-tls-version` names; a ValueError if there is no such."""
    return TlsVersion(text or TlsVersion.V1_2)


def parse_ciphers(text: str) -> tuple[str, ...]:
    """The ciphers that `--tls-ciphers` names; those that nobody knows are left out."""
    return tuple(_CIPHERS[name] for name in _split_names(text) if name in _CIPHERS)


def list_unknown_ciphers(text: str) -> list[str]:
    """The names in `--tls-ciphers` that are those of no cipher for TLS 1.2."""
    return [name for name in _split_names(text) if name not in _CIPHERS]


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.replace(":", ",").split(",") if name.strip()]


def make_context(oldest: TlsVersion, ciphers: Sequence[str] = ()) -> ssl.SSLContext:
    """A server's context that has no certificate yet; without `ciphers` the usual ones are used.

    Ciphers are for TLS 1.2: that of later versions are not for anybody to choose.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[oldest]
    # The API server speaks HTTP/1.1 to webhooks; it is told so before it can ask for more.
    context.set_alpn_protocols(["http/1.1"])
    if ciphers:
        context.set_ciphers(":".join(ciphers))
    return context


def require_clients(context: ssl.SSLContext, authority: Path) -> None:
    """Accept only clients with a certificate of the authority; an OSError if the file is bad."""
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED


def load_pair(context: ssl.SSLContext, files: CertificateFiles) -> None:
    """Let the next handshakes show this pair; an OSError or SSLError, and no change, if it is bad.

    It is tried in a context of its own first, for a pair that does not fit would leave the live
    one without any.
    """
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)
    context.load_cert_chain(files.certificate, files.key)
