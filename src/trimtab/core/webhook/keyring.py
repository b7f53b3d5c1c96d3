"""The webhook's keys: authorities, the shown certificate, and the next safe step.

1. All copies of the admission controller share two things: the keyring, in a Secret, and the bundle
   of authorities in the webhook's registration, by which the API server trusts certificates. Each
   copy also shows a certificate of its own choice; a copy has no other state.
2. A step is one write, or one load. After a crash the next look at the same facts finds the next
   step, in any copy. Two copies that take the same step are kept apart by the version of the object
   that they replace.
3. An authority is in the bundle for a while before any copy shows a certificate that it signed,
   because API servers see a change a moment later. Each copy measures this time for itself.
4. An authority leaves the bundle when the last certificate that it signed has ended, because any
   copy may still show it. An unknown authority may have signed one too, and leaves as late.

Making keys, and all reading and writing, is the task of `admission/`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trimtab.core.model import validation
from trimtab.core.model.validation import SettingsError


@dataclass(frozen=True, slots=True)
class Lives:
    """Lifetimes of certificates, and the ages at which they are replaced."""

    authority: timedelta = timedelta(days=365)
    authority_renewed_after: timedelta = timedelta(days=240)
    # Renewed at half of its life: a controller that is down for weeks still finds valid keys.
    shown: timedelta = timedelta(days=60)
    shown_renewed_after: timedelta = timedelta(days=30)
    trust_delay: timedelta = timedelta(seconds=30)
    """Time for which an authority is in the bundle before copies show what it signed."""
    overlap: timedelta = timedelta(hours=1)
    """Time for which authorities that files no longer name stay in the bundle.

    Other copies may see the new files later.
    """

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        for name in ("authority", "authority_renewed_after", "shown", "shown_renewed_after"):
            validation.require_interval(name, getattr(self, name))
        if self.shown_renewed_after >= self.shown:
            raise SettingsError("shown_renewed_after", self.shown_renewed_after, "is too late")
        if self.authority_renewed_after + self.shown > self.authority:
            # A certificate that an authority signs on its last day would outlive it.
            problem = "is too late for what it has signed"
            raise SettingsError("authority_renewed_after", self.authority_renewed_after, problem)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs others; its name is the hash of its contents."""

    name: str
    certificate: str = field(repr=False)
    """PEM."""
    made_at: datetime
    trusted_until: datetime | None = None
    """The end of the last certificate that it signed; None while it may still sign."""


@dataclass(frozen=True, slots=True)
class ShownCertificate:
    """A certificate that servers show, and its key; its name is the hash of its contents."""

    name: str
    certificate: str = field(repr=False)
    key: str = field(repr=False)
    needs: frozenset[str]
    """The authorities by which clients trust it."""
    hosts: frozenset[str]
    made_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Keyring:
    """All keys that the copies share; the newest authority is last and signs."""

    authorities: tuple[Authority, ...]
    shown: ShownCertificate
    signing_key: str = field(default="", repr=False)
    """The key of the newest authority, PEM; empty if all keys come from outside."""

    @property
    def newest(self) -> Authority:
        """The authority that signs."""
        return self.authorities[-1]

    @property
    def is_ours(self) -> bool:
        """True if the admission controller makes missing keys itself."""
        return bool(self.signing_key)

    def trusted(self, now: datetime) -> tuple[Authority, ...]:
        """Return the authorities that API servers must trust now."""
        return tuple(each for each in self.authorities if not _has_ended(each, now))


def begin(
    authority: Authority,
    signing_key: str,
    shown: ShownCertificate,
    strangers: tuple[Authority, ...] = (),
) -> Keyring:
    """Make a keyring; `strangers` are authorities that a bundle already holds."""
    return Keyring((*strangers, authority), shown, signing_key)


def with_authority(keyring: Keyring, authority: Authority, signing_key: str) -> Keyring:
    """Return the keyring with an authority that signs from now on."""
    return replace(keyring, authorities=(*keyring.authorities, authority), signing_key=signing_key)


def with_shown(keyring: Keyring, shown: ShownCertificate) -> Keyring:
    """Return the keyring with another certificate to show; other authorities stop signing.

    An authority that did not sign the certificate gets the time until which it is trusted.
    """
    # Of all certificates that an authority signed, the one that is replaced now ends last.
    ended = keyring.shown.ends_at
    authorities = tuple(
        each
        if each.name in shown.needs or each.trusted_until
        else replace(each, trusted_until=ended)
        for each in keyring.authorities
    )
    return replace(keyring, authorities=authorities, shown=shown)


@dataclass(frozen=True, slots=True)
class BundleSightings:
    """The times since which each authority was in the bundle whenever this copy looked."""

    since: Mapping[str, datetime] = field(default_factory=dict)

    def look(self, bundle: Mapping[str, str] | None, now: datetime) -> "BundleSightings":
        """Return the sightings after one more look at the bundle."""
        # A name that was missing once starts again at now: API servers may have seen the gap as
        # well.
        return BundleSightings({name: self.since.get(name, now) for name in bundle or ()})

    def steady(self, now: datetime, delay: timedelta) -> frozenset[str]:
        """Return the authorities that have been in the bundle for at least `delay`."""
        return frozenset(name for name, since in self.since.items() if now - since >= delay)


@dataclass(frozen=True, slots=True)
class TrustView:
    """All facts that one copy has when it decides."""

    now: datetime
    keyring: Keyring | None
    bundle: Mapping[str, str] | None
    """The PEM of each authority in the registration, by name; None if others maintain it."""
    steady: frozenset[str] = frozenset()
    """The authorities that have been in the bundle for the trust delay."""
    shown: str = ""
    """The name of the certificate that this copy shows; empty if it shows none."""
    shown_since: datetime | None = None
    hosts: frozenset[str] = frozenset()
    """The host names by which the API server calls the webhook."""


@dataclass(frozen=True, slots=True)
class MakeKeyring:
    """There is no keyring: make an authority and a certificate."""

    strangers: tuple[Authority, ...]


@dataclass(frozen=True, slots=True)
class MakeAuthority:
    """The newest authority is due for renewal: make another, which will sign."""


@dataclass(frozen=True, slots=True)
class MakeShown:
    """Make another certificate to show, signed by the newest authority."""


@dataclass(frozen=True, slots=True)
class KeepKeyring:
    """Write this keyring."""

    keyring: Keyring


@dataclass(frozen=True, slots=True)
class WriteBundle:
    """Make the API server trust these authorities, by name, and no others."""

    bundle: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Show:
    """Show this certificate from now on."""

    certificate: ShownCertificate


@dataclass(frozen=True, slots=True)
class Settled:
    """There is nothing to do for now."""


Step: TypeAlias = (
    MakeKeyring | MakeAuthority | MakeShown | KeepKeyring | WriteBundle | Show | Settled
)


def next_step(view: TrustView, lives: Lives) -> Step:
    """Return the next step; at every moment API servers trust what any copy shows."""
    keyring = view.keyring
    if keyring is None:
        return MakeKeyring(_strangers(view, frozenset(), lives))
    for find in _IN_ORDER:
        step = find(view, keyring, lives)
        if step is not None:
            return step
    return Settled()


def _adopt(view: TrustView, keyring: Keyring, lives: Lives) -> Step | None:
    """Add authorities to the keyring that others have put into the bundle."""
    # Another copy, or the original, may have written the bundle before this keyring existed.
    known = frozenset(each.name for each in keyring.authorities)
    strangers = _strangers(view, known, lives)
    if not strangers or not keyring.is_ours:
        return None
    return KeepKeyring(replace(keyring, authorities=(*strangers, *keyring.authorities)))


def _publish(view: TrustView, keyring: Keyring, _: Lives) -> Step | None:
    """Add missing trusted authorities to the bundle; this step removes none."""
    wanted = {each.name: each.certificate for each in keyring.trusted(view.now)}
    # Adds and never removes: an authority that this copy does not know may be in use by another.
    if view.bundle is None or wanted.keys() <= view.bundle.keys():
        return None
    return WriteBundle({**view.bundle, **wanted})


def _show(view: TrustView, keyring: Keyring, _: Lives) -> Step | None:
    """Show the certificate of the keyring once all API servers trust it.

    A copy that shows none yet does not wait: an untrusted certificate is no worse than no answer.
    """
    if view.shown == keyring.shown.name:
        return None
    is_believed = view.bundle is None or keyring.shown.needs <= view.steady
    return Show(keyring.shown) if is_believed or not view.shown else None


def _renew(view: TrustView, keyring: Keyring, lives: Lives) -> Step | None:
    """Replace keys that are due, authorities first: it takes longer until they are trusted."""
    if not keyring.is_ours:
        return None
    newest, shown, now = keyring.newest, keyring.shown, view.now
    if now - newest.made_at >= lives.authority_renewed_after:
        return MakeAuthority()
    is_believed = view.bundle is None or newest.name in view.steady
    is_due = (
        # Signed by an older authority, grown old, or made for other names.
        newest.name not in shown.needs
        or now - shown.made_at >= lives.shown_renewed_after
        or not view.hosts <= shown.hosts
    )
    return MakeShown() if is_due and is_believed else None


def _trim(view: TrustView, keyring: Keyring, _: Lives) -> Step | None:
    """Remove authorities whose certificates have ended: from the bundle first, then for good."""
    ended = frozenset(each.name for each in keyring.authorities if _has_ended(each, view.now))
    if not ended:
        return None
    bundle = view.bundle or {}
    # The bundle first: forgotten in the keyring alone, it would be adopted again as a stranger.
    if ended & bundle.keys():
        return WriteBundle({name: text for name, text in bundle.items() if name not in ended})
    kept = tuple(each for each in keyring.authorities if each.name not in ended)
    return KeepKeyring(replace(keyring, authorities=kept))


def _trim_strangers(view: TrustView, keyring: Keyring, lives: Lives) -> Step | None:
    """Remove authorities that files no longer name, once all copies must have seen that."""
    wanted = {each.name: each.certificate for each in keyring.authorities}
    since = view.shown_since
    if keyring.is_ours or not view.bundle or not wanted or since is None:
        return None
    if view.bundle.keys() <= wanted.keys() or view.now - since < lives.overlap:
        return None
    return WriteBundle(wanted)


_IN_ORDER: Final[tuple[Callable[[TrustView, Keyring, Lives], Step | None], ...]] = (
    _adopt,
    _publish,
    _show,
    _renew,
    _trim,
    _trim_strangers,
)


def _strangers(view: TrustView, known: frozenset[str], lives: Lives) -> tuple[Authority, ...]:
    # Nothing is known of what it signed; no certificate of ours lives longer than that.
    until = view.now + lives.shown
    return tuple(
        Authority(name, text, view.now, until)
        for name, text in sorted((view.bundle or {}).items())
        if name not in known
    )


def _has_ended(authority: Authority, now: datetime) -> bool:
    return authority.trusted_until is not None and authority.trusted_until <= now
