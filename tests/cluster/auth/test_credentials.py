"""Who we are to the server: certificates over real TLS, token files, service accounts."""

from datetime import timedelta
from pathlib import Path

import pytest
from support.fakes.clocks import StillClock
from support.makers.certificates import Pair, a_pair, an_authority
from support.makers.kubeconfigs import a_kubeconfig, ask, encoded, headers, load, serving_tls
from support.servers.api_server import a_client

from trimtab.cluster.auth.connection import find_connection
from trimtab.cluster.auth.credentials import FixedCredentials, Identity, TokenFile
from trimtab.cluster.auth.service_account import is_in_cluster, load_service_account
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import CredentialsError, UnreachableError


@pytest.fixture(scope="module")
def authority() -> Pair:
    return an_authority()


async def test_a_server_of_the_named_authority_is_trusted_and_sees_our_certificate(
    authority: Pair, tmp_path: Path
) -> None:
    ours = a_pair(authority, "ann")
    (tmp_path / "ca.crt").write_text(authority.certificate, encoding="utf-8")
    (tmp_path / "ann.key").write_text(ours.key, encoding="utf-8")
    user = {"client-certificate-data": encoded(ours.certificate), "client-key": "ann.key"}
    async with serving_tls(authority, tmp_path) as url:
        cluster = {"server": url, "certificate-authority": "ca.crt"}

        seen = await ask(load(a_kubeconfig(tmp_path, cluster=cluster, user=user)))

    assert seen == "ann"


async def test_a_certificate_renewed_in_its_file_is_found_when_the_old_one_is_refused(
    authority: Pair, tmp_path: Path
) -> None:
    def write(name: str) -> None:
        pair = a_pair(authority, name)
        (tmp_path / "tls.crt").write_text(pair.certificate, encoding="utf-8")
        (tmp_path / "tls.key").write_text(pair.key, encoding="utf-8")

    write("old")
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    async with serving_tls(authority, tmp_path) as url:
        cluster = {"server": url, "certificate-authority-data": encoded(authority.certificate)}
        connection = load(a_kubeconfig(tmp_path, cluster=cluster, user=user))
        refused = await connection.credentials.present()
        async with a_client(connection) as client:
            before = await client.fetch("/")
            (tmp_path / "tls.crt").write_text("half", encoding="utf-8")
            await connection.credentials.refresh(refused)
            meanwhile = await client.fetch("/")
            write("new")
            await connection.credentials.refresh(refused)
            await connection.credentials.refresh(refused)
            after = await client.fetch("/")

    assert (before, meanwhile, after) == (b"old", b"old", b"new")


async def test_a_server_of_another_authority_is_not_trusted(
    authority: Pair, tmp_path: Path
) -> None:
    async with serving_tls(authority, tmp_path) as url:
        data = encoded(an_authority().certificate)
        cluster = {"server": url, "certificate-authority-data": data}
        connection = load(a_kubeconfig(tmp_path, cluster=cluster))

        with pytest.raises(UnreachableError, match="certificate is not trusted") as caught:
            await ask(connection)

    assert not caught.value.was_sent


async def test_the_name_in_the_certificate_must_be_the_one_that_is_asked_for(
    authority: Pair, tmp_path: Path
) -> None:
    async with serving_tls(authority, tmp_path) as url:
        data = encoded(authority.certificate)
        cluster = {"server": url, "certificate-authority-data": data, "tls-server-name": "other"}
        connection = load(a_kubeconfig(tmp_path, cluster=cluster))

        with pytest.raises(UnreachableError, match="Hostname mismatch"):
            await ask(connection)


async def test_an_unchecked_server_is_refused_unless_we_are_asked_for_it(
    authority: Pair, tmp_path: Path
) -> None:
    async with serving_tls(authority, tmp_path) as url:
        cluster = {"server": url, "insecure-skip-tls-verify": True}
        path = a_kubeconfig(tmp_path, cluster=cluster)

        with pytest.raises(CredentialsError) as caught:
            load(path)
        seen = await ask(load(path, allow_insecure=True))

    assert caught.value.field == "clusters[here].insecure-skip-tls-verify"
    assert seen == "nobody"


def test_an_authority_that_is_no_certificate_is_told(tmp_path: Path) -> None:
    cluster = {"server": "https://x", "certificate-authority-data": encoded("nothing")}

    with pytest.raises(CredentialsError) as caught:
        load(a_kubeconfig(tmp_path, cluster=cluster))

    assert caught.value.field == "clusters[here].certificate-authority"


async def test_a_token_file_is_read_again_each_minute(tmp_path: Path) -> None:
    clock, path = StillClock(), tmp_path / "token"
    path.write_text("one\n", encoding="utf-8")
    credentials = TokenFile(path, Identity(), clock)
    path.write_text("two", encoding="utf-8")

    clock.moment += timedelta(seconds=59)
    early = await credentials.present()
    clock.moment += timedelta(seconds=1)
    late = await credentials.present()

    assert early.headers == (("Authorization", "Bearer one"),)
    assert late.headers == (("Authorization", "Bearer two"),)


async def test_a_token_that_is_refused_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one", encoding="utf-8")
    credentials = TokenFile(path, Identity(), StillClock())
    refused = await credentials.present()
    path.write_text("two", encoding="utf-8")

    await credentials.refresh(refused)
    fresh = await credentials.present()
    path.write_text("three", encoding="utf-8")
    # Another request that failed with the first token comes late.
    await credentials.refresh(refused)

    assert fresh.headers == (("Authorization", "Bearer two"),)
    assert await credentials.present() is fresh


async def test_a_token_file_that_is_empty_or_gone_for_a_moment_leaves_the_old_token(
    tmp_path: Path,
) -> None:
    clock, path = StillClock(), tmp_path / "token"
    path.write_text("one", encoding="utf-8")
    credentials = TokenFile(path, Identity(), clock)

    path.write_text("", encoding="utf-8")
    clock.moment += timedelta(minutes=2)
    while_empty = await credentials.present()
    path.unlink()
    clock.moment += timedelta(minutes=2)
    while_gone = await credentials.present()

    assert while_empty.headers == (("Authorization", "Bearer one"),)
    assert while_gone.headers == (("Authorization", "Bearer one"),)


def test_a_token_file_must_be_there_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="token: cannot be read"):
        TokenFile(tmp_path / "token", Identity(), StillClock())


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def a_service_account(folder: Path, authority: Pair) -> Path:
    (folder / "ca.crt").write_text(authority.certificate, encoding="utf-8")
    (folder / "token").write_text("abc", encoding="utf-8")
    (folder / "namespace").write_text("shop\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("10.96.0.1", "https://10.96.0.1:443", id="an address of version 4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="an address of version 6"),
    ],
)
async def test_a_pod_talks_to_the_server_of_its_own_cluster(
    tmp_path: Path, authority: Pair, host: str, server: str
) -> None:
    folder = a_service_account(tmp_path, authority)
    environment = {**POD, "KUBERNETES_SERVICE_HOST": host}

    connection = load_service_account(environment, StillClock(), folder)

    assert (connection.server, connection.namespace) == (server, "shop")
    assert await headers(connection) == {"Authorization": "Bearer abc"}
    assert is_in_cluster(environment, folder)


def test_outside_of_a_pod_there_is_no_service_account(tmp_path: Path, authority: Pair) -> None:
    folder = a_service_account(tmp_path, authority)

    assert not is_in_cluster({}, folder)
    assert not is_in_cluster(POD, tmp_path / "elsewhere")
    with pytest.raises(CredentialsError, match="KUBERNETES_SERVICE_HOST"):
        load_service_account({}, StillClock(), folder)
    with pytest.raises(CredentialsError, match=r"ca\.crt"):
        load_service_account(POD, StillClock(), tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("named", "environment", "server"),
    [
        pytest.param("{}/named", {"KUBECONFIG": "{}/listed"}, "http://named", id="the named file"),
        pytest.param("", {"KUBECONFIG": "/none:{}/listed"}, "http://listed", id="a listed file"),
        pytest.param("", {"HOME": "{}"}, "http://home", id="the file of a person"),
    ],
)
def test_without_a_named_file_the_surroundings_say_where_to_look(
    tmp_path: Path, named: str, environment: dict[str, str], server: str
) -> None:
    (tmp_path / ".kube").mkdir()
    a_kubeconfig(tmp_path, cluster={"server": "http://named"}, name="named")
    a_kubeconfig(tmp_path, cluster={"server": "http://listed"}, name="listed")
    a_kubeconfig(tmp_path, cluster={"server": "http://home"}, name=".kube/config")
    filled = {name: value.format(tmp_path) for name, value in environment.items()}

    connection = find_connection(named.format(tmp_path), environment=filled, clock=StillClock())

    assert connection.server == server


async def test_a_pod_is_known_by_its_service_account_unless_a_file_is_named(
    tmp_path: Path, authority: Pair
) -> None:
    folder = a_service_account(tmp_path, authority)
    path = a_kubeconfig(tmp_path, cluster={"server": "http://named"})

    by_account = find_connection("", environment=POD, clock=StillClock(), account=folder)
    by_file = find_connection(str(path), environment=POD, clock=StillClock(), account=folder)

    assert by_account.server == "https://10.96.0.1:443"
    assert by_file.server == "http://named"


async def test_the_real_clock_tells_utc_and_lets_time_pass() -> None:
    clock = RealClock()
    before = clock.now()

    await clock.sleep(timedelta(milliseconds=1))

    assert before.utcoffset() == timedelta()
    assert clock.now() - before >= timedelta(milliseconds=1)


async def test_credentials_that_never_change_have_nothing_to_refresh() -> None:
    identity = Identity()
    credentials = FixedCredentials(identity)

    await credentials.refresh(identity)

    assert await credentials.present() is identity
