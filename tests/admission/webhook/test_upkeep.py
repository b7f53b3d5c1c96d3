"""Upkeep: copies of the webhook that register it, and show only what is believed."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
import structlog
from admission.handshakes import is_believed
from support.makers.certificates import Pair, a_pair, an_authority

from trimtab.admission.server.tls import CertificateFiles, TlsVersion, make_context
from trimtab.admission.webhook.keys import FileKeys, SecretKeys
from trimtab.admission.webhook.upkeep import UpkeepSettings, WebhookUpkeep, list_hosts
from trimtab.api.kinds.secrets import Secret, decode_keyring, split_bundle
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ConflictError, ForbiddenError
from trimtab.core.webhook.keyring import Keyring, Lives
from trimtab.core.webhook.registration import (
    MAIN,
    Registration,
    RegistrationSettings,
    ServiceAddress,
    plan_registration,
    with_bundle,
)
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.api_server.webhook_host import SimulatedWebhookHost
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually
from trimtab.simulation.world.world import World

HOST = "vpa-webhook.trimtab.svc"
REGISTRATION = RegistrationSettings(ServiceAddress("trimtab", "vpa-webhook"))
LIVES = Lives()
SETTINGS = UpkeepSettings(REGISTRATION)
NAME = REGISTRATION.name
SECRET = ("trimtab", "keys")


class Scene:
    """A cluster in which copies of the webhook run."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        world = World(clock=self.clock, random=Random(1))
        self.host = SimulatedWebhookHost(world, Admitting(world))
        self.copies: list[RunningCopy] = []

    async def start(
        self,
        settings: UpkeepSettings = SETTINGS,
        files: FileKeys | None = None,
        skew: timedelta = timedelta(),
    ) -> "RunningCopy":
        keys = files or SecretKeys(self.host, *SECRET)
        upkeep = WebhookUpkeep(self.host, keys, settings, clock=VirtualClock(skew))
        copy = RunningCopy(upkeep, self)
        self.copies.append(copy)
        await copy.upkeep.load_first(copy.context)
        copy.begin()
        return copy

    async def registration(self) -> Registration:
        found = await self.host.fetch_registration(NAME)
        assert found
        return found

    async def bundle(self) -> str:
        webhook = (await self.registration()).find(MAIN)
        assert webhook
        return webhook.bundle

    async def keyring(self) -> Keyring:
        secret = await self.host.fetch_secret(*SECRET)
        assert secret
        return decode_keyring(secret.data)

    async def pass_time(self, span: timedelta, every: timedelta = timedelta(days=5)) -> None:
        """Let time pass, and see every now and then that all copies are believed."""
        ends_at = self.clock.now() + span
        while self.clock.now() < ends_at:
            await self.clock.sleep(min(every, ends_at - self.clock.now()))
            bundle = await self.bundle()
            for copy in self.copies:
                assert is_believed(copy.context, bundle, HOST)


@dataclass
class RunningCopy:
    upkeep: WebhookUpkeep
    scene: Scene

    def __post_init__(self) -> None:
        self.context = make_context(TlsVersion.V1_2)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self.upkeep.keep_fresh(self.context))

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.scene.copies.remove(self)


def play(story: Callable[[Scene], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        scene = Scene()
        await story(scene)
        for copy in list(scene.copies):
            await copy.end()

    run_virtually(run())


A_WHILE = timedelta(minutes=2)


def test_a_first_copy_shows_a_certificate_before_it_is_registered() -> None:
    async def story(scene: Scene) -> None:
        copy = await scene.start()
        before = await scene.host.fetch_registration(NAME)
        await scene.pass_time(A_WHILE, timedelta(seconds=5))

        assert before is None
        assert is_believed(copy.context, await scene.bundle(), HOST)
        assert not is_believed(copy.context, await scene.bundle(), "other.trimtab.svc")
        assert not is_believed(copy.context, an_authority().certificate, HOST)

    play(story)


def test_copies_that_start_at_once_agree_on_one_keyring() -> None:
    async def story(scene: Scene) -> None:
        await asyncio.gather(*(scene.start() for _ in range(3)))
        await scene.pass_time(A_WHILE, timedelta(seconds=5))
        keyring = await scene.keyring()

        assert len(keyring.authorities) == 1
        assert set(split_bundle(await scene.bundle())) == {keyring.newest.name}

    play(story)


def test_f39_certificates_and_authorities_change_for_two_years_and_all_is_believed() -> None:
    async def story(scene: Scene) -> None:
        seldom = replace(SETTINGS, interval=timedelta(days=1))
        await scene.start(seldom)
        await scene.start(seldom)
        first = await scene.keyring()
        await scene.clock.sleep(A_WHILE)
        await scene.pass_time(timedelta(days=730))
        last = await scene.keyring()

        assert first.newest.name not in {each.name for each in last.authorities}
        assert len(last.authorities) <= 2
        assert scene.clock.now() < last.shown.ends_at
        assert set(split_bundle(await scene.bundle())) == {
            each.name for each in last.trusted(scene.clock.now())
        }

    play(story)


def test_f39_copies_whose_clocks_differ_by_hours_are_all_believed() -> None:
    async def story(scene: Scene) -> None:
        seldom = replace(SETTINGS, interval=timedelta(hours=20))
        for hours in (-3, 0, 4):
            await scene.start(seldom, skew=timedelta(hours=hours))
        first = await scene.keyring()
        await scene.clock.sleep(A_WHILE)
        await scene.pass_time(timedelta(days=310), timedelta(hours=70))

        assert first.newest.name not in split_bundle(await scene.bundle())

    play(story)


def test_f39_a_lost_secret_is_made_anew_while_the_old_certificate_is_still_believed() -> None:
    async def story(scene: Scene) -> None:
        await scene.start()
        await scene.start()
        await scene.clock.sleep(A_WHILE)
        before = await scene.keyring()
        found = await scene.host.fetch_secret(*SECRET)
        assert found
        await scene.host.write_secret(replace(found, data={"keyring.json": b"spoilt"}))
        await scene.pass_time(A_WHILE, timedelta(seconds=1))
        after = await scene.keyring()

        assert after.newest.name != before.newest.name
        assert before.newest.name in split_bundle(await scene.bundle())

    play(story)


def test_a_registration_that_somebody_deletes_or_changes_comes_back() -> None:
    async def story(scene: Scene) -> None:
        copy = await scene.start()
        await scene.clock.sleep(A_WHILE)
        await scene.host.delete_registration(NAME)
        await scene.clock.sleep(A_WHILE)
        remade = await scene.registration()
        await scene.host.write_registration(remade, with_bundle(remade, ""))
        await scene.clock.sleep(A_WHILE)

        assert is_believed(copy.context, await scene.bundle(), HOST)

    play(story)


def test_a_registration_that_was_made_empty_is_filled_and_keeps_its_labels() -> None:
    async def story(scene: Scene) -> None:
        await scene.host.write_registration(None, Registration(NAME, labels={"by": "chart"}))
        copy = await scene.start()
        await scene.clock.sleep(A_WHILE)

        assert is_believed(copy.context, await scene.bundle(), HOST)
        assert (await scene.registration()).labels == {"by": "chart"}

    play(story)


def test_nothing_is_written_while_nothing_changes() -> None:
    async def story(scene: Scene) -> None:
        await scene.start()
        await scene.clock.sleep(A_WHILE)
        before = await scene.registration(), await scene.host.fetch_secret(*SECRET)
        await scene.clock.sleep(timedelta(hours=1))

        assert (await scene.registration(), await scene.host.fetch_secret(*SECRET)) == before

    play(story)


def test_without_registering_only_the_bundle_is_kept() -> None:
    async def story(scene: Scene) -> None:
        await scene.start(replace(SETTINGS, registers=False))
        await scene.clock.sleep(A_WHILE)
        nothing = await scene.host.fetch_registration(NAME)
        chart = replace(plan_registration(None, REGISTRATION, ""), annotations={"by": "chart"})
        await scene.host.write_registration(None, chart)
        await scene.pass_time(A_WHILE, timedelta(seconds=30))
        found = await scene.registration()

        assert nothing is None
        assert found.annotations == {"by": "chart"}

    play(story)


def test_where_cert_manager_keeps_the_bundle_it_is_left_alone() -> None:
    async def story(scene: Scene) -> None:
        injected = replace(REGISTRATION, injected_from="trimtab/webhook")
        await scene.start(replace(SETTINGS, registration=injected))
        await scene.clock.sleep(A_WHILE)
        found = await scene.registration()

        assert found.annotations["cert-manager.io/inject-ca-from"] == "trimtab/webhook"
        assert await scene.bundle() == ""

    play(story)


def test_keys_that_somebody_else_made_are_neither_used_nor_overwritten() -> None:
    async def story(scene: Scene) -> None:
        theirs = Secret(*SECRET, {"serverKey.pem": b"theirs"})
        await scene.host.write_secret(theirs)
        keys = SecretKeys(scene.host, *SECRET)
        upkeep = WebhookUpkeep(scene.host, keys, SETTINGS, clock=scene.clock)
        await upkeep.settle(make_context(TlsVersion.V1_2))
        found = await scene.host.fetch_secret(*SECRET)

        assert "did not make" in str(upkeep.problem)
        assert found
        assert found.data == theirs.data

    play(story)


@dataclass(frozen=True, slots=True)
class MountedFiles:
    """A folder as kubelets mount a Secret: the files are links through one that is swapped."""

    folder: Path

    def put(self, authority: Pair, pair: Pair) -> None:
        version = self.folder / f"..{len(list(self.folder.iterdir()))}"
        version.mkdir()
        contents = {"caCert": authority.certificate, "cert": pair.certificate, "key": pair.key}
        for name, text in contents.items():
            (version / name).write_text(text)
        fresh = self.folder / "..fresh"
        fresh.symlink_to(version.name)
        fresh.replace(self.folder / "..data")
        for name in contents:
            with suppress(FileExistsError):
                (self.folder / name).symlink_to(f"..data/{name}")

    def keys(self, *, reloads: bool = True) -> FileKeys:
        files = CertificateFiles(self.folder / "cert", self.folder / "key")
        return FileKeys(files, self.folder / "caCert", reloads=reloads)


BY_URL = replace(SETTINGS, registration=RegistrationSettings("https://127.0.0.1:8000"))


async def believed_at_loopback(scene: Scene, copy: RunningCopy) -> bool:
    return is_believed(copy.context, await scene.bundle(), "127.0.0.1")


def test_f39_files_that_are_swapped_are_published_first_and_shown_then(tmp_path: Path) -> None:
    files = MountedFiles(tmp_path)
    old, new = an_authority(), an_authority()
    files.put(old, a_pair(old, "old"))

    async def story(scene: Scene) -> None:
        copy = await scene.start(BY_URL, files.keys())
        await scene.clock.sleep(A_WHILE)
        files.put(new, a_pair(new, "new"))
        seen: list[tuple[bool, bool]] = []
        for _ in range(60):
            await scene.clock.sleep(timedelta(seconds=1))
            assert await believed_at_loopback(scene, copy)
            authorities = split_bundle(await scene.bundle())
            shows_new = is_believed(copy.context, new.certificate, "127.0.0.1")
            seen.append((len(authorities) == 2, shows_new))
        await scene.clock.sleep(LIVES.overlap)

        assert (True, False) in seen
        assert seen[-1] == (True, True)
        assert set(split_bundle(await scene.bundle())) == set(split_bundle(new.certificate))

    play(story)


class SlowHost(SimulatedWebhookHost):
    """A server that answers late, with what is there by then."""

    delay = timedelta()

    async def fetch_registration(self, name: str) -> Registration | None:
        await VirtualClock().sleep(self.delay)
        return await super().fetch_registration(name)


def test_f39_an_authority_that_comes_during_a_slow_read_is_as_new_as_it_is(tmp_path: Path) -> None:
    files = MountedFiles(tmp_path)
    old, new = an_authority(), an_authority()
    files.put(old, a_pair(old, "old"))

    async def story(scene: Scene) -> None:
        world = World(clock=scene.clock, random=Random(1))
        scene.host = host = SlowHost(world, Admitting(world))
        copy = await scene.start(BY_URL, files.keys())
        await scene.clock.sleep(A_WHILE)
        files.put(new, a_pair(new, "new"))
        # Another copy publishes the authority just before this one gets its answer.
        host.delay = LIVES.trust_delay - timedelta(seconds=2)
        await scene.clock.sleep(LIVES.trust_delay - timedelta(seconds=3))
        host.delay = timedelta()
        found = await scene.registration()
        if new.certificate.strip() not in await scene.bundle():
            both = with_bundle(found, f"{await scene.bundle()}{new.certificate}")
            await host.write_registration(found, both)
        for _ in range(int(LIVES.trust_delay.total_seconds()) - 1):
            assert not is_believed(copy.context, new.certificate, "127.0.0.1")
            await scene.clock.sleep(timedelta(seconds=1))
        await scene.clock.sleep(A_WHILE)

        assert is_believed(copy.context, new.certificate, "127.0.0.1")

    play(story)


FOUND = "New certificate found, reloading"
FOUND_CLIENT_CA = "New client CA found, reloading and patching webhook"
PATCHED = "Successfully patched webhook with new client CA"


async def reload_lines(
    scene: Scene, change: Callable[[], object], patience: timedelta
) -> list[str]:
    """Lines that people of the original grep for, from a change on."""
    with structlog.testing.capture_logs() as logged:
        change()
        await scene.clock.sleep(patience)
    return [each["event"] for each in logged if each["event"] in {FOUND, FOUND_CLIENT_CA, PATCHED}]


@pytest.mark.parametrize(
    ("has_new_authority", "reloads", "lines"),
    [
        pytest.param(True, True, [FOUND, FOUND_CLIENT_CA, PATCHED], id="both are new"),
        pytest.param(False, True, [FOUND], id="another certificate of the same authority"),
        pytest.param(True, False, [], id="files are read once"),
    ],
)
def test_a_reload_of_files_is_logged_in_the_originals_words(
    tmp_path: Path, *, has_new_authority: bool, reloads: bool, lines: list[str]
) -> None:
    files = MountedFiles(tmp_path)
    old = an_authority()
    new = an_authority() if has_new_authority else old
    files.put(old, a_pair(old, "old"))

    async def story(scene: Scene) -> None:
        await scene.start(BY_URL, files.keys(reloads=reloads))
        quiet = await reload_lines(scene, lambda: None, A_WHILE)
        # Long enough for the old authority to leave the bundle, which is nothing new.
        change, patience = lambda: files.put(new, a_pair(new, "new")), LIVES.overlap * 2

        assert quiet == []
        assert await reload_lines(scene, change, patience) == lines

    play(story)


def test_a_client_ca_that_could_not_be_patched_is_not_logged_as_patched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MountedFiles(tmp_path)
    old, new = an_authority(), an_authority()
    files.put(old, a_pair(old, "old"))

    async def story(scene: Scene) -> None:
        await scene.start(BY_URL, files.keys())
        await scene.clock.sleep(A_WHILE)

        async def refuse(_: Registration | None, __: Registration) -> None:
            raise ForbiddenError("PATCH registration", Status(code=403))

        monkeypatch.setattr(scene.host, "write_registration", refuse)
        lines = await reload_lines(scene, lambda: files.put(new, a_pair(new, "new")), A_WHILE)

        assert lines == [FOUND, FOUND_CLIENT_CA]

    play(story)


def test_our_own_rotation_is_logged_in_the_originals_words() -> None:
    async def story(scene: Scene) -> None:
        await scene.start(replace(SETTINGS, interval=timedelta(hours=6)))
        await scene.clock.sleep(A_WHILE)
        certificate = await reload_lines(scene, lambda: None, LIVES.shown_renewed_after * 1.5)
        rest = await reload_lines(scene, lambda: None, LIVES.authority_renewed_after)

        assert certificate == [FOUND]
        assert rest.index(FOUND_CLIENT_CA) + 1 == rest.index(PATCHED)
        assert rest.count(FOUND_CLIENT_CA) == rest.count(PATCHED) == 1

    play(story)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("cert", a_pair(an_authority(), "other").certificate, id="of another key"),
        pytest.param("cert", "nothing", id="no certificate"),
        pytest.param("key", "nothing", id="no key"),
    ],
)
def test_a_pair_that_does_not_fit_is_not_shown(tmp_path: Path, name: str, text: str) -> None:
    files = MountedFiles(tmp_path)
    authority = an_authority()
    files.put(authority, a_pair(authority, "old"))

    async def story(scene: Scene) -> None:
        copy = await scene.start(BY_URL, files.keys())
        await scene.clock.sleep(A_WHILE)
        (tmp_path / name).resolve().write_text(text)
        await scene.clock.sleep(A_WHILE)

        assert is_believed(copy.context, authority.certificate, "127.0.0.1")

    play(story)


def test_files_are_not_loaded_again_unless_that_is_asked_for(tmp_path: Path) -> None:
    files = MountedFiles(tmp_path)
    old, new = an_authority(), an_authority()
    files.put(old, a_pair(old, "old"))

    async def story(scene: Scene) -> None:
        copy = await scene.start(BY_URL, files.keys(reloads=False))
        files.put(new, a_pair(new, "new"))
        await scene.clock.sleep(A_WHILE)

        assert await believed_at_loopback(scene, copy)
        assert is_believed(copy.context, old.certificate, "127.0.0.1")

    play(story)


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        pytest.param(
            ServiceAddress("ns", "web"), {"web.ns.svc", "web.ns.svc.cluster.local"}, id="a service"
        ),
        pytest.param("https://[::1]:8000", {"::1"}, id="an address"),
        pytest.param("https://hook.example.com:8000", {"hook.example.com"}, id="a name"),
    ],
)
def test_a_certificate_is_for_the_names_by_which_we_are_called(
    address: ServiceAddress | str, hosts: set[str]
) -> None:
    assert list_hosts(address) == hosts


def test_what_another_copy_has_written_meanwhile_is_not_overwritten() -> None:
    async def story(scene: Scene) -> None:
        await scene.start()
        await scene.clock.sleep(A_WHILE)
        found = await scene.registration()
        await scene.host.write_registration(found, with_bundle(found, "x"))

        with pytest.raises(ConflictError):
            await scene.host.write_registration(found, with_bundle(found, "y"))

    play(story)
