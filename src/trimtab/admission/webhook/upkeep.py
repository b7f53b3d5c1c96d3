"""Upkeep of the webhook: keeps it registered, with a certificate that the API server trusts.

Every turn reads the facts again (the keys, the registration, our certificate), and the next step
follows from them. `core/webhook/registration` decides how the webhook is registered, and
`core/webhook/keyring` which authorities the API server trusts. Any number of copies may do this at
the same time, and stop at any point.
"""

import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn, Protocol, assert_never, cast
from urllib.parse import urlsplit

import structlog

from trimtab.admission.metrics import CERTIFICATE_END, UPKEEP_FAILURES, UPKEEP_STEPS
from trimtab.admission.server import tls
from trimtab.admission.server.tls import CertificateFiles
from trimtab.admission.webhook.keys import Keys, KeysError
from trimtab.api.kinds import secrets
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError, ConflictError
from trimtab.cluster.ports import Clock, WebhookHost
from trimtab.core.webhook import keyring as steps
from trimtab.core.webhook import registration
from trimtab.core.webhook.keyring import (
    Authority,
    BundleSightings,
    Keyring,
    Lives,
    ShownCertificate,
    TrustView,
)
from trimtab.core.webhook.registration import MAIN, Address, Registration, RegistrationSettings

_logger: Final = structlog.stdlib.get_logger(__name__)

_MAX_STEPS: Final = 16
"""Maximum number of steps in a row; more would repeat the same step again and again."""
_MEMORY: Final = Path("/dev") / "shm"
"""Directory whose files never reach a disk; it is writable even if the image is read-only."""
_FIRST_DELAY: Final = timedelta(seconds=1)
"""Delay between two attempts to get the first certificate."""


class Issuer(Protocol):
    """Makes keys and certificates: the module `certificates`."""

    def make_authority(self, now: datetime, life: timedelta) -> tuple[Authority, str]:
        """Return a new authority and its key."""

    def make_certificate(
        self,
        authority: Authority,
        signing_key: str,
        hosts: frozenset[str],
        now: datetime,
        life: timedelta,
    ) -> ShownCertificate:
        """Return a server certificate for these hosts, signed by the authority."""


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """Settings of the upkeep: its registration, its certificates and its interval."""

    registration: RegistrationSettings
    registers: bool = True
    """`--register-webhook`: True to create and change the registration."""
    keeps_bundle: bool = True
    """True to change the bundle in a registration, whatever its owner."""
    lives: Lives = field(default_factory=Lives)
    interval: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class _Facts:
    now: datetime
    keyring: Keyring | None
    found: Registration | None


class WebhookUpkeep:
    """Keeps one copy of the webhook registered and trusted; loads certificates into its server."""

    def __init__(
        self, host: WebhookHost, keys: Keys, settings: UpkeepSettings, *, clock: Clock
    ) -> None:
        self._host = host
        self._keys = keys
        self._settings = settings
        self._clock = clock
        self._sightings = BundleSightings()
        self._shown: ShownCertificate | None = None
        self._shown_since: datetime | None = None
        self._found = ""
        """Name of the certificate that was last seen in the keyring."""
        self._found_authorities: frozenset[str] = frozenset()
        """Names of the authorities that the bundle lacked at the last write."""
        self._is_listening = False
        self.problem: Exception | None = None
        """Latest error; None once a turn succeeds."""

    async def load_first(self, context: ssl.SSLContext) -> None:
        """Wait until the context has a certificate; the server listens only then."""
        while self._shown is None:
            await self.settle(context)
            if self._shown is None:
                await self._clock.sleep(_FIRST_DELAY)

    async def keep_fresh(self, context: ssl.SSLContext) -> NoReturn:
        """Keep registration and certificates up to date, for as long as the server runs."""
        # Register only now: without a server, pods would wait for the webhook in vain.
        self._is_listening = True
        while True:
            await self.settle(context)
            await self._clock.sleep(self._settings.interval)

    async def settle(self, context: ssl.SSLContext) -> None:
        """Take steps until there is nothing to do for now, or one fails."""
        try:
            for _ in range(_MAX_STEPS):
                if await self._take_step(context):
                    self.problem = None
                    return
        except ConflictError:
            # Another copy was faster; the next turn shows what is left to do.
            return
        except (ClusterError, DecodeError, KeysError, OSError) as error:
            self._fail(error)

    async def _take_step(self, context: ssl.SSLContext) -> bool:
        """Take the next step; return True if there was nothing to do."""
        begun_at = self._clock.now()
        facts = await self._look()
        self._log_found(facts.keyring)
        if await self._register(facts):
            return False
        if self._clock.now() - begun_at >= self._settings.lives.trust_delay:
            # Other copies may have presented another certificate since these facts were read.
            return False
        step = steps.next_step(self._view(facts), self._settings.lives)
        match step:
            case steps.Settled():
                return True
            case steps.Show(certificate):
                self._show(context, certificate)
            case steps.WriteBundle(bundle):
                await self._write_bundle(facts, bundle)
            case steps.MakeKeyring() | steps.MakeAuthority() | steps.MakeShown():
                await self._keys.write(self._make(step, facts))
            case steps.KeepKeyring(kept):
                await self._keys.write(kept)
            case _:
                assert_never(step)
        _tell(step)
        return False

    async def _look(self) -> _Facts:
        keyring = await self._keys.read()
        settings = self._settings
        is_wanted = settings.registers or settings.keeps_bundle
        name = settings.registration.name
        found = await self._host.fetch_registration(name) if is_wanted else None
        # Taken after the requests: an authority that came during a slow one was not seen before.
        return _Facts(self._clock.now(), keyring, found)

    def _log_found(self, keyring: Keyring | None) -> None:
        """Log, in the original's words, that files or Secret hold another certificate than before.

        It is loaded a moment later, once the API server trusts its authority.
        """
        found = keyring.shown.name if keyring else self._found
        if self._found not in ("", found):
            _logger.info("New certificate found, reloading")
        self._found = found

    async def _register(self, facts: _Facts) -> bool:
        """Write the registration if it is not as planned; return True if it was written."""
        settings = self._settings
        if not settings.registers or not self._is_listening or facts.keyring is None:
            return False
        trusted = facts.keyring.trusted(facts.now)
        is_injected = settings.registration.injected_from
        bundle = "" if is_injected else secrets.join_bundle(each.certificate for each in trusted)
        wanted = registration.plan_registration(facts.found, settings.registration, bundle)
        if wanted == facts.found:
            return False
        await self._host.write_registration(facts.found, wanted)
        UPKEEP_STEPS.labels("Register").inc()
        _logger.info("webhook registered", registration=wanted.name, is_new=facts.found is None)
        return True

    def _view(self, facts: _Facts) -> TrustView:
        now, bundle = facts.now, self._bundle(facts.found)
        self._sightings = self._sightings.look(bundle, now)
        return TrustView(
            now=now,
            keyring=facts.keyring,
            bundle=bundle,
            steady=self._sightings.steady(now, self._settings.lives.trust_delay),
            shown=self._shown.name if self._shown else "",
            shown_since=self._shown_since,
            hosts=list_hosts(self._settings.registration.address),
        )

    def _bundle(self, found: Registration | None) -> Mapping[str, str] | None:
        """Return the bundle by which we are trusted; None if it is not ours to keep, or missing."""
        if found is None or found.is_injected or not self._settings.keeps_bundle:
            return None
        ours = [secrets.split_bundle(each.bundle) for each in found.webhooks if each]
        if found.find(MAIN) is None:
            return None
        # An authority in only some of our webhooks is not trusted everywhere.
        return {name: text for name, text in ours[0].items() if all(name in one for one in ours)}

    def _make(
        self, step: steps.MakeKeyring | steps.MakeAuthority | steps.MakeShown, facts: _Facts
    ) -> Keyring:
        issuer = cast("Issuer", import_module("trimtab.admission.webhook.certificates"))
        now, lives = facts.now, self._settings.lives
        hosts = list_hosts(self._settings.registration.address)
        if isinstance(step, steps.MakeKeyring):
            authority, key = issuer.make_authority(now, lives.authority)
            shown = issuer.make_certificate(authority, key, hosts, now, lives.shown)
            return steps.begin(authority, key, shown, step.strangers)
        keyring = facts.keyring
        assert keyring is not None
        if isinstance(step, steps.MakeAuthority):
            authority, key = issuer.make_authority(now, lives.authority)
            return steps.with_authority(keyring, authority, key)
        signed = issuer.make_certificate(
            keyring.newest, keyring.signing_key, hosts, now, lives.shown
        )
        return steps.with_shown(keyring, signed)

    async def _write_bundle(self, facts: _Facts, bundle: Mapping[str, str]) -> None:
        assert facts.found is not None
        new = frozenset(bundle) - frozenset(self._bundle(facts.found) or ())
        if new - self._found_authorities:
            _logger.info("New client CA found, reloading and patching webhook")
        # A failed write is retried at every turn, but logged once.
        self._found_authorities = new
        wanted = registration.with_bundle(facts.found, secrets.join_bundle(bundle.values()))
        await self._host.write_registration(facts.found, wanted)
        if new:
            _logger.info("Successfully patched webhook with new client CA")

    def _show(self, context: ssl.SSLContext, certificate: ShownCertificate) -> None:
        # The standard library reads keys from files only; these are gone before anyone could look.
        place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="trimtab-", dir=place) as directory:
            tls.load_pair(context, write_pair(Path(directory), certificate))
        self._shown, self._shown_since = certificate, self._clock.now()
        is_ours = bool(certificate.hosts)
        CERTIFICATE_END.set(certificate.ends_at.timestamp() if is_ours else 0)

    def _fail(self, error: Exception) -> None:
        UPKEEP_FAILURES.inc()
        if str(error) != str(self.problem):
            _logger.warning("upkeep failed", error=str(error))
        self.problem = error


def list_hosts(address: Address) -> frozenset[str]:
    """Return the host names by which the API server calls the webhook."""
    if isinstance(address, str):
        return frozenset({urlsplit(address).hostname or "localhost"})
    name = f"{address.name}.{address.namespace}.svc"
    return frozenset({name, f"{name}.cluster.local"})


def write_pair(directory: Path, certificate: ShownCertificate) -> CertificateFiles:
    """Write the certificate and its key to files that only this user can read."""
    files = CertificateFiles(directory / "tls.crt", directory / "tls.key")
    for path, text in ((files.certificate, certificate.certificate), (files.key, certificate.key)):
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return files


def _tell(step: steps.Step) -> None:
    name = type(step).__name__
    UPKEEP_STEPS.labels(name).inc()
    _logger.info("upkeep step taken", step=name)
