"""Storage of the webhook's keys: a Secret that all copies share, or files with another owner."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from trimtab.admission.server.tls import CertificateFiles
from trimtab.api.kinds import secrets
from trimtab.api.kinds.secrets import KEY, RECORD, Secret
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster import errors
from trimtab.cluster.ports import WebhookHost
from trimtab.core.webhook.keyring import Authority, Keyring

_SOME_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)
"""End of certificates in files: their owner knows their age, and replaces them."""


class KeysError(Exception):
    """Raised for unusable keys; the text names their place and the flaw."""


class Keys(Protocol):
    """Storage of a keyring."""

    async def read(self) -> Keyring | None:
        """Return the current keyring; None if there is none yet."""

    async def write(self, keyring: Keyring) -> None:
        """Replace the keyring that was last read; raises ConflictError if it has changed since."""


class SecretKeys:
    """Keys in a Secret."""

    def __init__(self, host: WebhookHost, namespace: str, name: str) -> None:
        self._host = host
        self._place = Secret(namespace, name)
        self._seen = self._place

    async def read(self) -> Keyring | None:
        """Return the keyring in the Secret; None without a Secret, or if it cannot be decoded."""
        found = await self._host.fetch_secret(self._place.namespace, self._place.name)
        self._seen = found or self._place
        if found is None:
            return None
        if RECORD not in found.data and KEY in found.data:
            raise KeysError(
                f"the Secret {found.namespace}/{found.name} holds keys that Trimtab did not make: "
                "name another one for them, or mount it and use its files"
            )
        try:
            return secrets.decode_keyring(found.data)
        except DecodeError:
            # A new keyring is safe: the authorities in the bundle stay trusted.
            return None

    async def write(self, keyring: Keyring) -> None:
        """Create the Secret, or replace the version that was read."""
        place, version = self._place, self._seen.resource_version
        data = secrets.encode_keyring(keyring)
        await self._host.write_secret(Secret(place.namespace, place.name, data, version))


class FileKeys:
    """Keys in files that may change at any time, one by one or through a link."""

    def __init__(self, files: CertificateFiles, authority: Path, *, reloads: bool = True) -> None:
        self._files = files
        self._authority = authority
        self._reloads = reloads
        self._first: Keyring | None = None

    async def read(self) -> Keyring | None:
        """Return the keyring in the files; without reloading, the one from the first read."""
        if self._first is None or self._reloads:
            self._first = self._read_all()
        return self._first

    async def write(self, keyring: Keyring) -> None:
        """Raise NotImplementedError: only their owner writes these files."""
        raise NotImplementedError

    def _read_all(self) -> Keyring:
        authorities = self._read_authorities()
        try:
            shown = secrets.read_pair(
                _read_text(self._files.certificate),
                _read_text(self._files.key),
                needs=frozenset(each.name for each in authorities),
                made_at=_SOME_TIME,
                ends_at=_END_OF_TIME,
            )
        except DecodeError as error:
            raise KeysError(f"{self._files.certificate}: {error.problem}") from error
        return Keyring(authorities, shown)

    def _read_authorities(self) -> tuple[Authority, ...]:
        """Return the authorities in their file; none if the file does not exist."""
        text = _read_text(self._authority) if self._authority.exists() else ""
        return tuple(
            Authority(name, pem, _SOME_TIME) for name, pem in secrets.split_bundle(text).items()
        )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise KeysError(f"{path}: {errors.describe(error)}") from error
    except UnicodeDecodeError as error:
        raise KeysError(f"{path}: no UTF-8 text") from error
