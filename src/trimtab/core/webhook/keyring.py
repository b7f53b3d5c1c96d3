"""The webhook's keys: who signs, what is shown, and the next step after which nobody is distrusted.

1. Two things are shared by all copies of the admission controller: the keyring, in a Secret, and
   the bundle of authorities in the webhook's registration, by which the API server believes.
   Each copy also shows a certificate of its own choice; that is all it has for itself.
2. A step is one write, or one load. After a crash the next look at the same facts finds the next
   step, whoever takes it; two copies that take the same one are kept apart by the version of what
   they replace.
3. An authority is in the bundle for a while before anything that it signed is shown, for API
   servers learn of a change a moment later. How long it has been there each copy sees for itself.
4. An authority leaves the bundle when the last certificate that it signed has ended, whoever may
   still show it. One that we do not know may have signed something, too, and is let go as late.

Making keys, and all reading and writing, is left to `admission/`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trimtab.core.model import validation
from trimtab.core.model.validation import SettingsError


@dataclass(frozen=True, slots=True)
class Lives:
    """How long certificates live, and when they are replaced."""

    authority: timedelta = timedelta(days=365)
    authority_renewed_after: timedelta = timedelta(days=240)
    shown: timedelta = timedelta(days=60)
    shown_renewed_after: timedelta = timedelta(days=30)
    trust_delay: timedelta = timedelta(seconds=30)
    """How long an authority is in the bundle before what it signed is shown."""
    overlap: timedelta = timedelta(hours=1)
    """How long what files no longer name stays in the bundle: other copies see them later."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        for name in ("authority", "authority_renewed_after", "shown", "shown_renewed_after"):
            validation.require_interval(name, getattr(self, name))
        if self.shown_renewed_after >= self.shown:
            raise SettingsError("shown_renewed_after", self.shown_renewed_after, "is too late")
        if self.authority_renewed_after + self.shown > self.authority:
            # What an authority signs on its last day would outlive it.
            problem = "is too late for what it has signed"
            raise SettingsError("authority_renewed_after", self.authority_renewed_after, problem)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that others are signed with; its name is the hash of what it is."""

    name: str
    certificate: str = field(repr=False)
    """PEM."""
    made_at: datetime
    trusted_until: datetime | None = None
    """When nothing that it signed is valid any more; None while it may still sign."""


@dataclass(frozen=True, slots=True)
class ShownCertificate:
    """A certificate that servers show, and its key; its name is the hash of what it is."""

    name: str
    certificate: str = field(repr=False)
    key: str = field(repr=False)
    needs: frozenset[str]
    """The authorities by which it is believed."""
    hosts: frozenset[str]
    made_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Keyring:
    """All keys that the copies share; the newest authority is last and signs."""

    authorities: tuple[Authority, ...]
    shown: ShownCertificate
    signing_key: str = field(default="", repr=False)
    """The key of the newest authority, PEM; empty if somebody else keeps it, who made it all."""

    @property
    def newest(self) -> Authority:
        """The authority that signs."""
        return self.authorities[-1]

    @property
    def is_ours(self) -> bool:
        """Whether we make what is missing in it."""
        return bool(self.signing_key)

    def trusted(self, now: datetime) -> tuple[Authority, ...]:
        """The authorities that must be believed now."""
        return tuple(each for each in self.authorities if not _has_ended(each, now))


def begin(
    authority: Authority,
    signing_key: str,
    shown: ShownCertificate,
    strangers: tuple[Authority, ...] = (),
) -> Keyring:
    """A new keyring; strangers are what a bundle already holds."""
    return Keyring((*strangers, authority), shown, signing_key)


def with_authority(keyring: Keyring, authority: Authority, signing_key: str) -> Keyring:
    """The keyring with an authority that signs from now on."""
    return replace(keyring, authorities=(*keyring.authorities, authority), signing_key=signing_key)


def with_shown(keyring: Keyring, shown: ShownCertificate) -> Keyring:
    """The keyring with another certificate to show; who did not sign it will sign no more."""
    # Of all that an authority signed, the certificate that is replaced now ends last.
    ended = keyring.shown.ends_at
    authorities = tuple(
        each
        if each.name in shown.needs or each.trusted_until
        else replace(each, trusted_until=ended)
        for each in keyring.authorities
    )
    return replace(keyring, authorities=authorities, shown=shown)


@dataclass(frozen=True, slots=True)
class Sightings:
    """Since when each authority was in the bundle whenever this copy looked."""

    since: Mapping[str, datetime] = field(default_factory=dict)

    def look(self, bundle: Mapping[str, str] | None, now: datetime) -> "Sightings":
        """What is known after one more look."""
        return Sightings({name: self.since.get(name, now) for name in bundle or ()})

    def steady(self, now: datetime, delay: timedelta) -> frozenset[str]:
        """The authorities that have been there for so long."""
        return frozenset(name for name, since in self.since.items() if now - since >= delay)


@dataclass(frozen=True, slots=True)
class TrustView:
    """All that one copy knows when it decides."""

    now: datetime
    keyring: Keyring | None
    bundle: Mapping[str, str] | None
    """The PEM of each authority in the registration, by name; None if that is not ours to keep."""
    steady: frozenset[str] = frozenset()
    """The authorities that have been in the bundle for the trust delay."""
    shown: str = ""
    """The name of the certificate that this copy shows; empty if it shows none."""
    shown_since: datetime | None = None
    hosts: frozenset[str] = frozenset()
    """By what names the API server calls us."""


@dataclass(frozen=True, slots=True)
class MakeKeyring:
    """There is none: make an authority and a certificate."""

    strangers: tuple[Authority, ...]


@dataclass(frozen=True, slots=True)
class MakeAuthority:
    """The newest authority grows old: make another, which will sign."""


@dataclass(frozen=True, slots=True)
class MakeShown:
    """Let the newest authority sign another certificate to show."""


@dataclass(frozen=True, slots=True)
class KeepKeyring:
    """Write the keyring as it is here."""

    keyring: Keyring


@dataclass(frozen=True, slots=True)
class WriteBundle:
    """Let the API server believe these, by name, and no others."""

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
    """What to do next, so that whatever any copy shows is believed at every moment."""
    keyring = view.keyring
    if keyring is None:
        return MakeKeyring(_strangers(view, frozenset(), lives))
    for find in _IN_ORDER:
        step = find(view, keyring, lives)
        if step is not None:
            return step
    return Settled()


def _adopt(view: TrustView, keyring: Keyring, lives: Lives) -> Step | None:
    """Take note of authorities that somebody else has put into the bundle."""
    known = frozenset(each.name for each in keyring.authorities)
    strangers = _strangers(view, known, lives)
    if not strangers or not keyring.is_ours:
        return None
    return KeepKeyring(replace(keyring, authorities=(*strangers, *keyring.authorities)))


def _publish(view: TrustView, keyring: Keyring, _: Lives) -> Step | None:
    """Let all that must be believed be believed; nothing is taken away here."""
    wanted = {each.name: each.certificate for each in keyring.trusted(view.now)}
    if view.bundle is None or wanted.keys() <= view.bundle.keys():
        return None
    return WriteBundle({**view.bundle, **wanted})


def _show(view: TrustView, keyring: Keyring, _: Lives) -> Step | None:
    """Show the certificate of the keyring once it is believed everywhere.

    Who shows nothing yet does not wait: nobody could be answered worse than not at all.
    """
    if view.shown == keyring.shown.name:
        return None
    is_believed = view.bundle is None or keyring.shown.needs <= view.steady
    return Show(keyring.shown) if is_believed or not view.shown else None


def _renew(view: TrustView, keyring: Keyring, lives: Lives) -> Step | None:
    """Replace what grows old, authorities first: they take longer to be believed."""
    if not keyring.is_ours:
        return None
    newest, shown, now = keyring.newest, keyring.shown, view.now
    if now - newest.made_at >= lives.authority_renewed_after:
        return MakeAuthority()
    is_believed = view.bundle is None or newest.name in view.steady
    is_due = (
        newest.name not in shown.needs
        or now - shown.made_at >= lives.shown_renewed_after
        or not view.hosts <= shown.hosts
    )
    return MakeShown() if is_due and is_believed else None


def _trim(view: TrustView, keyring: Keyring, _: Lives) -> Step | None:
    """Let authorities go whose certificates have ended: from the bundle first, then for good."""
    ended = frozenset(each.name for each in keyring.authorities if _has_ended(each, view.now))
    if not ended:
        return None
    bundle = view.bundle or {}
    if ended & bundle.keys():
        return WriteBundle({name: text for name, text in bundle.items() if name not in ended})
    kept = tuple(each for each in keyring.authorities if each.name not in ended)
    return KeepKeyring(replace(keyring, authorities=kept))


def _trim_strangers(view: TrustView, keyring: Keyring, lives: Lives) -> Step | None:
    """Let go what files no longer name, once all copies must have seen that."""
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
    until = view.now + lives.shown
    return tuple(
        Authority(name, text, view.now, until)
        for name, text in sorted((view.bundle or {}).items())
        if name not in known
    )


def _has_ended(authority: Authority, now: datetime) -> bool:
    return authority.trusted_until is not None and authority.trusted_until <= now
