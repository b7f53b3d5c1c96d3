"""The webhook's keys: steps as a table, and copies that do them in any order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW

from trimtab.core.model.validation import SettingsError
from trimtab.core.webhook.keyring import (
    Authority,
    BundleSightings,
    KeepKeyring,
    Keyring,
    Lives,
    MakeAuthority,
    MakeKeyring,
    MakeShown,
    Settled,
    Show,
    ShownCertificate,
    Step,
    TrustView,
    WriteBundle,
    begin,
    next_step,
    with_authority,
    with_shown,
)

LIVES = Lives()
LAG = LIVES.trust_delay - timedelta(seconds=1)
"""API servers know a bundle no later than this."""
DAY = timedelta(days=1)


def an_authority(name: str = "A", made_at: datetime = NOW) -> Authority:
    return Authority(name, f"certificate {name}", made_at)


def a_certificate(
    name: str = "a", authority: str = "A", made_at: datetime = NOW
) -> ShownCertificate:
    return ShownCertificate(
        name=name,
        certificate=f"certificate {name}",
        key=f"key {name}",
        needs=frozenset({authority}),
        hosts=frozenset({"webhook"}),
        made_at=made_at,
        ends_at=made_at + LIVES.shown,
    )


KEYRING = begin(an_authority(), "key A", a_certificate())
UPCOMING = with_authority(KEYRING, an_authority("N"), "key N")
RENEWED = with_shown(UPCOMING, a_certificate("n", "N"))
FILES = Keyring((an_authority(),), a_certificate())


def bundle(*names: str) -> Mapping[str, str]:
    return {name: f"certificate {name}" for name in names}


def a_view(
    keyring: Keyring | None = KEYRING,
    trusted: str | None = "A",
    *,
    steady: str = "A",
    shown: str = "a",
    later: timedelta = timedelta(),
    hosts: str = "webhook",
) -> TrustView:
    return TrustView(
        now=NOW + later,
        keyring=keyring,
        bundle=None if trusted is None else bundle(*trusted),
        steady=frozenset(steady),
        shown=shown,
        shown_since=NOW,
        hosts=frozenset({hosts}),
    )


def retired(name: str) -> Authority:
    """What somebody else has put into the bundle."""
    return replace(an_authority(name), trusted_until=NOW + LIVES.shown)


@pytest.mark.parametrize(
    ("view", "step"),
    [
        pytest.param(a_view(), Settled(), id="all is well"),
        pytest.param(a_view(None, None), MakeKeyring(()), id="a first start"),
        pytest.param(
            a_view(None, "X"),
            MakeKeyring((retired("X"),)),
            id="a lost keyring does not take back the belief in the old one",
        ),
        pytest.param(
            a_view(trusted="AX"),
            KeepKeyring(replace(KEYRING, authorities=(retired("X"), an_authority()))),
            id="what somebody else put into the bundle is noted",
        ),
        pytest.param(
            a_view(trusted="", shown=""), WriteBundle(bundle("A")), id="belief comes before showing"
        ),
        pytest.param(a_view(shown="", steady=""), Show(KEYRING.shown), id="a start does not wait"),
        pytest.param(a_view(trusted=None, shown=""), Show(KEYRING.shown), id="a bundle of others"),
        pytest.param(a_view(later=LIVES.shown_renewed_after), MakeShown(), id="a month later"),
        pytest.param(a_view(hosts="other"), MakeShown(), id="we are called by another name"),
        pytest.param(
            a_view(later=LIVES.authority_renewed_after),
            MakeAuthority(),
            id="an authority that grows old",
        ),
        pytest.param(
            a_view(UPCOMING), WriteBundle(bundle("A", "N")), id="both authorities are believed"
        ),
        pytest.param(a_view(UPCOMING, "AN"), Settled(), id="a new authority has to wait"),
        pytest.param(
            a_view(UPCOMING, "AN", steady="AN"), MakeShown(), id="a new authority that has waited"
        ),
        pytest.param(
            a_view(RENEWED, "AN"), Settled(), id="a copy that has not seen the authority for long"
        ),
        pytest.param(
            a_view(RENEWED, "AN", steady="AN"),
            Show(RENEWED.shown),
            id="a copy that has seen it for long",
        ),
        pytest.param(
            a_view(RENEWED, "AN", steady="AN", shown="n", later=LIVES.shown_renewed_after - DAY),
            Settled(),
            id="somebody may still show what the old authority signed",
        ),
    ],
)
def test_the_next_step_follows_from_keyring_bundle_and_clock(view: TrustView, step: Step) -> None:
    assert next_step(view, LIVES) == step


def test_an_authority_goes_from_the_bundle_first_and_then_for_good() -> None:
    keyring = replace(
        RENEWED, shown=a_certificate("n2", "N", NOW + LIVES.shown), signing_key="key N"
    )
    view = a_view(keyring, "AN", steady="AN", shown="n2", later=LIVES.shown)
    trimmed = next_step(view, LIVES)
    forgotten = next_step(replace(view, bundle=bundle("N")), LIVES)

    assert trimmed == WriteBundle(bundle("N"))
    assert forgotten == KeepKeyring(replace(keyring, authorities=(an_authority("N"),)))


@pytest.mark.parametrize(
    ("view", "step"),
    [
        pytest.param(a_view(FILES), Settled(), id="all is well"),
        pytest.param(a_view(FILES, "X"), WriteBundle(bundle("X", "A")), id="another authority"),
        pytest.param(
            a_view(FILES, "AX", steady="X", shown="x"), Settled(), id="it is not believed for long"
        ),
        pytest.param(
            a_view(FILES, "AX", steady="AX", shown="x"), Show(FILES.shown), id="it is believed"
        ),
        pytest.param(
            a_view(FILES, "AX", later=LIVES.overlap - timedelta(seconds=1)),
            Settled(),
            id="others may not have seen the new files",
        ),
        pytest.param(
            a_view(FILES, "AX", later=LIVES.overlap),
            WriteBundle(bundle("A")),
            id="everybody has seen the new files",
        ),
        pytest.param(a_view(FILES, later=1000 * DAY), Settled(), id="nothing is made anew"),
        pytest.param(
            a_view(Keyring((), a_certificate()), "X", shown="x", steady=""),
            Settled(),
            id="an authority that is not named is not taken back",
        ),
    ],
)
def test_files_are_published_and_shown_but_never_made(view: TrustView, step: Step) -> None:
    assert next_step(view, LIVES) == step


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"shown": timedelta()}, id="no life at all"),
        pytest.param({"shown_renewed_after": 60 * DAY}, id="renewed when it has ended"),
        pytest.param({"authority_renewed_after": 306 * DAY}, id="outlived by what it has signed"),
    ],
)
def test_lives_in_which_something_ends_too_early_are_refused(fields: dict[str, timedelta]) -> None:
    with pytest.raises(SettingsError):
        Lives(**fields)


@dataclass
class SharedFacts:
    """What all copies share, and what API servers may believe."""

    names: Iterator[int] = field(default_factory=count)
    now: datetime = NOW
    keyring: tuple[int, Keyring | None] = (0, None)
    bundle: tuple[int, Mapping[str, str] | None] = (0, None)
    beginnings: set[str] = field(default_factory=set)
    """The certificates with which keyrings began."""
    beliefs: list[tuple[datetime, frozenset[str]]] = field(default_factory=list)
    """Bundles since the registration exists, with the moments in which each was written."""

    def write_keyring(self, seen: int, keyring: Keyring | None) -> None:
        if seen == self.keyring[0]:
            self.keyring = (next(self.names) + 1, keyring)

    def write_bundle(self, seen: int, wanted: Mapping[str, str]) -> None:
        if seen == self.bundle[0]:
            if self.bundle[1] is None:
                self.beliefs.clear()
            self.bundle = (next(self.names) + 1, dict(wanted))
            self.beliefs.append((self.now, frozenset(wanted)))

    def believed(self) -> frozenset[str]:
        """The authorities that every API server believes, whichever bundle it knows."""
        ends = [at for at, _ in self.beliefs[1:]] + [datetime.max.replace(tzinfo=self.now.tzinfo)]
        known = [
            names
            for (_, names), end in zip(self.beliefs, ends, strict=True)
            if end > self.now - LAG
        ]
        return frozenset.intersection(*known)


class Copy:
    """A copy that reads the keyring, reads the bundle and acts, and may stop between any two."""

    def __init__(self, facts: SharedFacts) -> None:
        self.facts = facts
        self.shown: ShownCertificate | None = None
        self.first_shown_at: datetime | None = None
        self._shown_since: datetime | None = None
        self._sightings = BundleSightings()
        self._seen: tuple[int, Keyring | None] | None = None
        self._looked_at = facts.now
        self._decided: tuple[int, Step] | None = None

    def go_on(self) -> Step | None:
        """Do the next bit; the step if one was taken."""
        if self._seen is not None and self.facts.now - self._looked_at >= LIVES.trust_delay:
            # A look that takes so long is begun again.
            self._seen = self._decided = None
        if self._seen is None:
            self._seen, self._looked_at = self.facts.keyring, self.facts.now
        elif self._decided is None:
            self._decided = self._decide(self._seen[1])
        else:
            version, step = self._decided
            self._act(self._seen, version, step)
            self._seen = self._decided = None
            return step
        return None

    def _decide(self, keyring: Keyring | None) -> tuple[int, Step]:
        now, (version, found) = self.facts.now, self.facts.bundle
        if found is None and self.shown:
            found = {}
        self._sightings = self._sightings.look(found, now)
        view = TrustView(
            now=now,
            keyring=keyring,
            bundle=found,
            steady=self._sightings.steady(now, LIVES.trust_delay),
            shown=self.shown.name if self.shown else "",
            shown_since=self._shown_since,
            hosts=frozenset({"webhook"}),
        )
        return version, next_step(view, LIVES)

    def _act(self, seen: tuple[int, Keyring | None], version: int, step: Step) -> None:
        facts = self.facts
        at, keyring = seen
        match step:
            case MakeKeyring(strangers):
                new = self._make_authority()
                shown = self._sign(new.name)
                facts.beginnings.add(shown.name)
                facts.write_keyring(at, begin(new, "key", shown, strangers))
            case MakeAuthority():
                assert keyring
                facts.write_keyring(at, with_authority(keyring, self._make_authority(), "key"))
            case MakeShown():
                assert keyring
                shown = self._sign(keyring.newest.name)
                facts.write_keyring(at, with_shown(keyring, shown))
            case KeepKeyring(kept):
                facts.write_keyring(at, kept)
            case WriteBundle(wanted):
                facts.write_bundle(version, wanted)
            case Show(certificate):
                self.shown = certificate
                self._shown_since = facts.now
                self.first_shown_at = self.first_shown_at or facts.now
            case Settled():
                pass

    def _make_authority(self) -> Authority:
        return an_authority(f"A{next(self.facts.names)}", self.facts.now)

    def _sign(self, authority: str) -> ShownCertificate:
        return a_certificate(f"c{next(self.facts.names)}", authority, self.facts.now)

    def check(self) -> None:
        """Whatever is shown and valid is believed.

        Only where both the copy and the keyring have just begun there is nothing better to show.
        """
        facts, shown = self.facts, self.shown
        if shown is None or shown.ends_at <= facts.now or facts.bundle[1] is None:
            return
        assert self.first_shown_at
        has_just_begun = facts.now - self.first_shown_at < LIVES.trust_delay
        if not (has_just_begun and shown.name in facts.beginnings):
            assert shown.needs <= facts.believed()


def take_turns(*copies: Copy) -> list[Step]:
    """Let all read before any acts; the steps that were taken."""
    done = [copy.go_on() for _ in range(3) for copy in copies]
    return [step for step in done if step is not None]


def settle(facts: SharedFacts, copies: list[Copy]) -> None:
    """Let everybody work until there was nothing to do for longer than anybody waits."""
    idle = timedelta()
    for _ in range(200):
        steps = take_turns(*copies)
        facts.now += timedelta(seconds=10)
        for copy in copies:
            copy.check()
        is_idle = all(isinstance(step, Settled) for step in steps)
        idle = idle + timedelta(seconds=10) if is_idle else timedelta()
        if idle > 2 * LIVES.trust_delay:
            return
    raise AssertionError("never settled")


SPANS = (
    *(timedelta(milliseconds=10), timedelta(seconds=5), timedelta(seconds=10)),
    *(LIVES.trust_delay, LIVES.trust_delay, timedelta(hours=1)),
    *(LIVES.shown_renewed_after, LIVES.authority_renewed_after),
)
HAPPENINGS = {
    "all take a turn": 40,
    "one takes a turn": 20,
    "one takes many turns": 5,
    "one goes on": 15,
    "time passes": 20,
    "one crashes": 3,
    "somebody adds an authority": 1,
    "the keyring is lost": 1,
    "the registration is lost": 1,
}


def happen(what: str, facts: SharedFacts, copies: list[Copy], chance: Random) -> None:
    index = chance.randrange(len(copies))
    match what:
        case "all take a turn":
            take_turns(*copies)
        case "one takes a turn" | "one takes many turns":
            for _ in range(8 if "many" in what else 1):
                take_turns(copies[index])
                facts.now += timedelta(seconds=10)
        case "one goes on":
            copies[index].go_on()
        case "time passes":
            facts.now += chance.choice(SPANS)
        case "one crashes":
            copies[index] = Copy(facts)
        case "somebody adds an authority" if facts.bundle[1] is not None:
            stranger = f"X{next(facts.names)}"
            facts.write_bundle(facts.bundle[0], {**facts.bundle[1], **bundle(stranger)})
        case "the keyring is lost" if _is_published(facts):
            facts.keyring = (next(facts.names) + 1, None)
        case "the registration is lost" if _is_known(facts, copies):
            facts.bundle = (next(facts.names) + 1, None)


@given(st.integers(0, 2**32))
def test_whatever_any_copy_shows_is_believed_at_every_moment(seed: int) -> None:
    chance = Random(seed)
    facts = SharedFacts()
    copies = [Copy(facts) for _ in range(3)]
    for what in chance.choices(list(HAPPENINGS), list(HAPPENINGS.values()), k=300):
        happen(what, facts, copies, chance)
        for copy in copies:
            copy.check()
    settle(facts, copies)
    keyring = facts.keyring[1]

    assert keyring
    assert all(copy.shown == keyring.shown for copy in copies)
    assert keyring.shown.ends_at - facts.now > LIVES.shown - LIVES.shown_renewed_after - DAY
    assert facts.bundle[1] is not None
    assert facts.bundle[1].keys() == {each.name for each in keyring.trusted(facts.now)}


def _is_published(facts: SharedFacts) -> bool:
    """Whether the bundle knows whatever was signed; in the moment of a first start it does not."""
    keyring, bundle = facts.keyring[1], facts.bundle[1]
    return keyring is not None and bundle is not None and keyring.newest.name in bundle


def _is_known(facts: SharedFacts, copies: list[Copy]) -> bool:
    """Whether the keyring knows all that is shown; who throws both away wants just that."""
    keyring = facts.keyring[1]
    known = {each.name for each in keyring.authorities} if keyring else set()
    return all(copy.shown is None or copy.shown.needs <= known for copy in copies)
