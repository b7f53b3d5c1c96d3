"""TLS contexts: whom we trust, and the certificate that we show."""

import ssl
import tempfile
from pathlib import Path

from trimtab.cluster.errors import CredentialsError


def trust_authority(authority: str, source: str, field: str) -> ssl.SSLContext:
    """A context that trusts the authority's certificates (PEM); the system's if there are none."""
    try:
        return ssl.create_default_context(cadata=authority or None)
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(
            source, field, f"no usable certificate: {tell_flaw(error)}"
        ) from error


def trust_anyone() -> ssl.SSLContext:
    """A context that checks nothing, for those who asked for it."""
    # The usual one would read all authorities of the system first.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(
    context: ssl.SSLContext, certificate: str, key: str, *, source: str, field: str
) -> None:
    """Let the context show a certificate with its key, both PEM."""
    # The standard library reads them from files only; these are gone before anyone could look.
    with tempfile.TemporaryDirectory(prefix="trimtab-") as directory:
        paths = (Path(directory, "tls.crt"), Path(directory, "tls.key"))
        for path, text in zip(paths, (certificate, key), strict=True):
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
        try:
            # Without an answer for encrypted keys, openssl would ask on the terminal.
            context.load_cert_chain(*paths, password="")
        except (ssl.SSLError, ValueError) as error:
            problem = f"no usable certificate with its key: {tell_flaw(error)}"
            raise CredentialsError(source, field, problem) from error


def tell_flaw(error: Exception) -> str:
    """Return the reason for which OpenSSL takes no PEM text, without the place in its source."""
    reason = getattr(error, "reason", None)
    return reason.replace("_", " ").lower() if isinstance(reason, str) else "no PEM text"
