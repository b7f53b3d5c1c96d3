"""The real client and real components against an API server that lies, over real TLS.

The figures (requests per second and memory) are printed after the tests.
"""

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from support.makers.certificates import an_authority
from support.servers.lying_api_server import Lie, LyingServer

from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.auth.kubeconfig import load_kubeconfig
from trimtab.cluster.auth.service_account import load_service_account
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import TooLargeError, UnreachableError
from trimtab.cluster.http.client import Client, ClientSettings
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.live.cluster import LiveCluster, Scope

MEASURED_SECONDS = 3.0
PAGE = "/api/v1/pods"
MIB = 1024 * 1024
Record = Callable[[str], None]


def a_connection(kubeconfig: Path) -> Connection:
    return load_kubeconfig([kubeconfig], environment={}, clock=RealClock())


@asynccontextmanager
async def a_client(connection: Connection) -> AsyncIterator[Client]:
    clock = RealClock()
    budget = RequestBudget(clock, rate=0, burst=1)
    settings = ClientSettings(
        connect_timeout=timedelta(seconds=3), request_timeout=timedelta(seconds=5)
    )
    async with Client(
        connection, clock=clock, random=Random(1), budget=budget, settings=settings
    ) as client:
        yield client


async def hold(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Return as soon as it holds."""
    ends_at = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends_at, "not in time"
        await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def figure(request: pytest.FixtureRequest) -> Iterator[Record]:
    """Keeps a line, and prints all of them after the tests."""
    lines: list[str] = []
    yield lines.append
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    if reporter is not None and capture is not None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            for line in lines:
                reporter.write_line(line)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LyingServer]:
    async with LyingServer(tmp_path).serving() as server:
        yield server


@asynccontextmanager
async def a_cluster(client: Client) -> AsyncIterator[LiveCluster]:
    clock = RealClock()
    cluster = LiveCluster(client, Scope(), clock=clock, random=Random(1))
    running = asyncio.create_task(cluster.run())
    try:
        yield cluster
    finally:
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("lie", [lie for lie in Lie if lie is not Lie.NONE])
async def test_no_lie_breaks_the_views_or_leads_to_a_storm(
    server: LyingServer, tmp_path: Path, lie: Lie, figure: Record
) -> None:
    async with (
        LyingServer(_folder(tmp_path, "elsewhere")).serving() as elsewhere,
        a_client(a_connection(server.write_kubeconfig(tmp_path / "config"))) as client,
        a_cluster(client) as cluster,
    ):
        server.elsewhere = elsewhere.url
        await asyncio.wait_for(cluster.synced(), 10)
        feeds = len(cluster.required_reads())
        server.tell(lie)
        await asyncio.sleep(MEASURED_SECONDS)
        asked = len(server.asked)

        assert elsewhere.asked == []
        assert cluster.age() is not None

    figure(f"{asked / MEASURED_SECONDS:6.1f} requests a second: the server {lie}")
    # A list that fails is tried four times in 1.4 s; then each feed waits 0.4 s, 0.8 s, ...
    assert asked <= feeds * 10


async def test_views_recover_from_a_lie(server: LyingServer, tmp_path: Path) -> None:
    connection = a_connection(server.write_kubeconfig(tmp_path / "config"))
    async with a_client(connection) as client, a_cluster(client) as cluster:
        await asyncio.wait_for(cluster.synced(), 10)
        server.tell(Lie.RESET)
        await asyncio.sleep(1)
        assert cluster.problems()
        server.tell(Lie.NONE)
        await hold(lambda: not cluster.problems())


async def test_a_page_without_end_is_given_up_and_a_smaller_one_is_asked_for(
    server: LyingServer, tmp_path: Path, figure: Record
) -> None:
    connection = a_connection(server.write_kubeconfig(tmp_path / "config"))
    server.tell(Lie.ENDLESS_BODY)
    before = _peak_bytes(os.getpid())
    async with a_client(connection) as client:
        with pytest.raises(TooLargeError, match="more than 16777216 bytes"):
            await client.fetch(PAGE, {"limit": "500"})
        assert len(server.asked) == 1
    grown = _peak_bytes(os.getpid()) - before

    figure(f"{grown // MIB:6} MiB of memory: a list without end")
    assert grown < 60 * MIB


@pytest.mark.parametrize("place", ["data", "file", "service account"])
async def test_a_rotated_authority_is_picked_up_without_a_restart(
    server: LyingServer, tmp_path: Path, place: str
) -> None:
    write, connection = _ways_in(server, tmp_path)[place]
    async with a_client(connection) as client:
        await client.fetch(PAGE)
        server.show(an_authority())
        with pytest.raises(UnreachableError, match="the certificate is not trusted: unable to get"):
            await client.fetch(PAGE)
        asked = len(server.asked)
        write()
        await client.fetch(PAGE)

    assert len(server.asked) == asked + 1


async def test_a_kubeconfig_that_turns_to_another_cluster_takes_no_component_along(
    server: LyingServer, tmp_path: Path
) -> None:
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    async with (
        LyingServer(_folder(tmp_path, "other")).serving() as other,
        a_client(a_connection(kubeconfig)) as client,
    ):
        await client.fetch(PAGE)
        other.write_kubeconfig(kubeconfig)
        await client._connection.credentials.refresh(await client._connection.credentials.present())
        await client.fetch(PAGE)

    assert len(server.asked) == 2
    assert other.asked == []


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def _ways_in(
    server: LyingServer, folder: Path
) -> dict[str, tuple[Callable[[], object], Connection]]:
    """For each way how the authority is written, and the connection."""
    config, named, authority = folder / "config", folder / "named", folder / "ca.crt"
    account = _folder(folder, "account")

    def write_file(path: Path) -> None:
        path.write_text(server.authority.certificate, encoding="utf-8")

    write_file(authority)
    write_file(account / "ca.crt")
    (account / "token").write_text("secret", encoding="utf-8")
    (account / "namespace").write_text("default", encoding="utf-8")
    environment = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    return {
        "data": (
            lambda: server.write_kubeconfig(config),
            a_connection(server.write_kubeconfig(config)),
        ),
        "file": (
            lambda: write_file(authority),
            a_connection(server.write_kubeconfig(named, authority="ca.crt")),
        ),
        "service account": (
            lambda: write_file(account / "ca.crt"),
            load_service_account(environment, RealClock(), account),
        ),
    }


class Component:
    """A component in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    async def page(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(self._page, path)

    def _page(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    async def wait_for(self, path: str, status: int, seconds: float = 30) -> str:
        ends_at = time.monotonic() + seconds
        found, text = await self.page(path)
        while found != status:
            assert self.process.poll() is None, "the component has ended"
            assert time.monotonic() < ends_at, f"{path} still says {found} {text}"
            await asyncio.sleep(0.1)
            found, text = await self.page(path)
        return text


@contextmanager
def a_component(name: str, kubeconfig: Path, *flags: str) -> Iterator[Component]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    code = "from trimtab.cli.main import main; raise SystemExit(main())"
    words = [name, f"--kubeconfig={kubeconfig}", f"--address=127.0.0.1:{port}", *flags]
    log = (kubeconfig.parent / "log").open("wb")
    process = subprocess.Popen([sys.executable, "-c", code, *words], stderr=log)
    try:
        yield Component(process, port)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def _status_bytes(process: int, name: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def _peak_bytes(process: int) -> int:
    return _status_bytes(process, "VmHWM")


@pytest.mark.parametrize(
    ("lie", "most_per_second", "most_mib"),
    [
        pytest.param(Lie.BUSY, 10, 30, id="429"),
        pytest.param(Lie.BOOKMARK, 30, 30, id="bookmarks"),
        pytest.param(Lie.GONE_LATER, 45, 30, id="410"),
        pytest.param(Lie.ENDLESS_LINE, 40, 300, id="endless events"),
    ],
)
async def test_a_real_updater_keeps_its_pace_and_its_memory_and_recovers(
    server: LyingServer,
    tmp_path: Path,
    lie: Lie,
    most_per_second: float,
    most_mib: int,
    figure: Record,
) -> None:
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    with a_component("updater", kubeconfig) as updater:
        await updater.wait_for("/readyz", 200)
        before = _status_bytes(updater.process.pid, "VmRSS")
        server.tell(lie)
        await asyncio.sleep(MEASURED_SECONDS)
        per_second = len(server.asked) / MEASURED_SECONDS
        server.tell(Lie.NONE)
        await hold(lambda: server.open_watches >= 10, 40)
        grown = (_peak_bytes(updater.process.pid) - before) // MIB

        assert (await updater.page("/health-check"))[0] == 200

    figure(f"{per_second:6.1f} requests a second, {grown} MiB, an updater: the server {lie}")
    assert per_second <= most_per_second
    assert grown <= most_mib


@pytest.mark.parametrize("name", ["updater", "recommender", "roles"])
async def test_liveness_fails_after_long_blindness_and_says_what_is_not_read(
    server: LyingServer, tmp_path: Path, name: str
) -> None:
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    with a_component(name, kubeconfig, "--read-timeout=2s") as component:
        await component.wait_for("/readyz", 200)
        assert (await component.page("/health-check"))[0] == 200
        server.tell(Lie.RESET)
        text = await component.wait_for("/health-check", 500)
        assert f"{PAGE} could not be read for " in text
        server.tell(Lie.NONE)
        await component.wait_for("/health-check", 200, 60)


async def test_liveness_is_no_matter_of_kinds_that_do_not_exist(
    server: LyingServer, tmp_path: Path
) -> None:
    server.is_missing = lambda path: path.startswith("/apis/autoscaling.k8s.io/")
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    with a_component("updater", kubeconfig, "--read-timeout=1s") as updater:
        text = await updater.wait_for("/readyz", 500)
        await asyncio.sleep(3)
        text = (await updater.page("/readyz"))[1]

        assert "the CRDs are missing" in text
        assert (await updater.page("/health-check"))[0] == 200


async def test_a_real_updater_follows_a_rotated_authority(
    server: LyingServer, tmp_path: Path
) -> None:
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    with a_component("updater", kubeconfig, "--read-timeout=2s") as updater:
        await updater.wait_for("/readyz", 200)
        server.show(an_authority())
        await updater.wait_for("/health-check", 500)
        server.write_kubeconfig(kubeconfig)
        await updater.wait_for("/health-check", 200, 60)
