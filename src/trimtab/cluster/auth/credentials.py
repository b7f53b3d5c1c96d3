"""Credentials for the API server: what each request carries, and how that stays valid.

The client asks for an identity before every request, so that tokens and certificates may change
while other connections stay open. `kubeconfig.py` and `service_account.py` load credentials.
"""

import hashlib
import ssl
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from trimtab.cluster.errors import CredentialsError
from trimtab.cluster.ports import Clock

_REREAD_AFTER: Final = timedelta(minutes=1)
"""As often as the original; the kubelet replaces a token long before the old one expires."""

_MAX_CHARACTERS: Final = 16_000_000
"""Maximum size of a kubeconfig, a token or a certificate."""


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """TLS context and headers that authenticate the client and the server to each other."""

    trust: ssl.SSLContext | None = None
    """Holds our certificate too, if we have one; None for plain HTTP."""
    headers: tuple[tuple[str, str], ...] = ()


class Credentials(Protocol):
    """The identity of this moment, and a way to a fresh one."""

    async def present(self) -> Identity:
        """Return the identity to use now."""

    async def refresh(self, refused: Identity) -> None:
        """Make the next identity a fresh one, given one that the server has refused."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Address of the API server, and credentials for it."""

    server: str
    credentials: Credentials
    namespace: str = "default"
    server_name: str = ""
    """The name in the server's certificate, where it is not the one in the address."""
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class FixedCredentials:
    """Credentials that never change."""

    identity: Identity

    async def present(self) -> Identity:
        """Return the one identity."""
        return self.identity

    async def refresh(self, refused: Identity) -> None:
        """Do nothing: there is no other identity."""


class ClientCertificateFiles:
    """A certificate in files that another program renews; read again when the server refuses it."""

    def __init__(self, read: Callable[[], Identity]) -> None:
        self._read = read
        self._identity = read()

    async def present(self) -> Identity:
        """Return the identity as it was last read."""
        return self._identity

    async def refresh(self, refused: Identity) -> None:
        """Read the files at once, unless that happened since the refused identity was given."""
        if refused is not self._identity:
            return
        try:
            self._identity = self._read()
        except CredentialsError:
            # The files may be half written; with the old identity the server will refuse us again.
            return


class TokenFile:
    """A token in a file that another program keeps fresh."""

    def __init__(self, path: Path, before: Identity, clock: Clock) -> None:
        """Add the file's token to the identity that is known `before` it."""
        self._path = path
        self._before = before
        self._clock = clock
        self._read_at: datetime = clock.now()
        self._identity = self._read()

    async def present(self) -> Identity:
        """Return the identity with the token that the file held at most a minute ago."""
        if self._clock.now() - self._read_at >= _REREAD_AFTER:
            self._reread()
        return self._identity

    async def refresh(self, refused: Identity) -> None:
        """Read the file at once, unless that happened since the refused identity was given."""
        if refused is self._identity:
            self._reread()

    def _reread(self) -> None:
        try:
            self._identity = self._read()
        except CredentialsError:
            # The old token may still be valid; if it is not, the server refuses it.
            return

    def _read(self) -> Identity:
        self._read_at = self._clock.now()
        token = read_text(self._path).strip()
        if not token:
            raise CredentialsError(str(self._path), "", "the token file is empty")
        return with_token(self._before, token, source=str(self._path))


class FollowedFiles:
    """Credentials that are loaded again when one of their files has changed.

    A cluster's CA and a kubeconfig are replaced while components run. A TLS context is kept while
    the files stay as they are, so that connections are reused.
    """

    def __init__(
        self, paths: Sequence[Path], load: Callable[[], Credentials], clock: Clock
    ) -> None:
        self._paths = tuple(paths)
        self._load = load
        self._clock = clock
        self._looked_at: datetime = clock.now()
        # Digests of contents: the kubelet swaps symbolic links, so times and inodes say little.
        self._seen = self._digest()
        self._current = load()

    async def present(self) -> Identity:
        """Return the identity that the files gave at most a minute ago."""
        if self._clock.now() - self._looked_at >= _REREAD_AFTER:
            self._look()
        return await self._current.present()

    async def refresh(self, refused: Identity) -> None:
        """Look at the files at once, then refresh what was loaded from them."""
        self._look()
        await self._current.refresh(refused)

    def _look(self) -> None:
        self._looked_at = self._clock.now()
        digest = self._digest()
        if digest == self._seen:
            return
        try:
            self._current = self._load()
        except CredentialsError:
            # The files may be half written; the next look tries again.
            return
        self._seen = digest

    def _digest(self) -> bytes:
        found = hashlib.sha256()
        for path in self._paths:
            try:
                content = path.read_bytes()
            except (OSError, ValueError):
                # A ValueError is a name that no file can have, with a null byte in it. `load` reads
                # the same file and reports which field names it.
                content = b""
            found.update(hashlib.sha256(content).digest())
        return found.digest()


def with_token(identity: Identity, token: str, *, source: str = "", field: str = "") -> Identity:
    """Return the identity with a bearer token, which was found in a field of the source."""
    # A line break in a token would add headers of its own to every request.
    if not token.isascii() or not token.isprintable():
        raise CredentialsError(source, field, "a token may only hold printable ASCII characters")
    header = ("Authorization", f"Bearer {token}")
    return Identity(identity.trust, (*identity.headers, header))


def read_text(path: Path) -> str:
    """Return the text of a small file that credentials need."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MAX_CHARACTERS + 1)
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or str(error)).lower()}"
        raise CredentialsError(str(path), "", problem) from error
    except UnicodeDecodeError as error:
        raise CredentialsError(str(path), "", "cannot be read: no UTF-8 text") from error
    except ValueError as error:
        raise CredentialsError(str(path), "", f"cannot be read: {error}") from error
    if len(text) > _MAX_CHARACTERS:
        problem = f"cannot be read: more than {_MAX_CHARACTERS:,} characters"
        raise CredentialsError(str(path), "", problem)
    return text


def trust_authority(authority: str, source: str, field: str) -> ssl.SSLContext:
    """Return a context that trusts the authority's certificates (PEM), or the system's if empty."""
    try:
        return ssl.create_default_context(cadata=authority or None)
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(
            source, field, f"no usable certificate: {describe_flaw(error)}"
        ) from error


def trust_anyone() -> ssl.SSLContext:
    """Return a context that checks nothing, for users who asked for it."""
    # The usual one would read all authorities of the system first.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(
    context: ssl.SSLContext, certificate: str, key: str, *, source: str, field: str
) -> None:
    """Let the context show a certificate with its key, both PEM."""
    # The standard library reads them from files only; these are removed at once.
    with tempfile.TemporaryDirectory(prefix="trimtab-") as directory:
        paths = (Path(directory, "tls.crt"), Path(directory, "tls.key"))
        for path, text in zip(paths, (certificate, key), strict=True):
            # Created with its mode: a chmod afterwards would leave the key readable for a moment.
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
        try:
            # Without an answer for encrypted keys, openssl would ask on the terminal.
            context.load_cert_chain(*paths, password="")
        except (ssl.SSLError, ValueError) as error:
            problem = f"no usable certificate with its key: {describe_flaw(error)}"
            raise CredentialsError(source, field, problem) from error


def describe_flaw(error: Exception) -> str:
    """Return the reason for which OpenSSL takes no PEM text, without the place in its source."""
    reason = getattr(error, "reason", None)
    return reason.replace("_", " ").lower() if isinstance(reason, str) else "no PEM text"
