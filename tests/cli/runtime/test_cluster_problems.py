"""Every command beside a cluster that is not there, or not as it should be, in fresh processes."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from support.makers.certificates import an_authority
from support.makers.kubeconfigs import a_kubeconfig, encoded
from support.servers.lying_api_server import Lie, LyingServer
from support.servers.read_only_cluster import Done

from trimtab.api.wire.status_errors import Status
from trimtab.cli.runtime.cluster_problems import explain_problem
from trimtab.cluster.errors import ForbiddenError

COMMANDS = (
    ("get",),
    ("explain", "web"),
    ("report",),
    ("doctor",),
    ("checkpoint", "inspect"),
    ("updater",),
    ("run",),
)
PYTHON_TEXT = re.compile(r"Traceback|[A-Z]\w+(Error|Exception)|\[Errno|_ssl\.c|gaierror|`")
"""What no person should have to read."""
SOME = (("get",), ("doctor",), ("updater",))
"""Those that go different ways to the cluster."""
WITHOUT_CLUSTER = "; to see everything at work without a cluster: trimtab demo"


async def start(words: tuple[str, ...], kubeconfig: Path) -> Done:
    code = "from trimtab.cli.main import main; raise SystemExit(main())"
    address = ["--address=127.0.0.1:0"] if words[0] in {"updater", "run"} else []
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        *words,
        f"--kubeconfig={kubeconfig}",
        *address,
        # A resolver that is not there is not waited for.
        env={**os.environ, "RES_OPTIONS": "attempts:1 timeout:1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, told = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), told.decode())


async def run(words: tuple[str, ...], kubeconfig: Path) -> tuple[int, str]:
    done = await start(words, kubeconfig)
    # Components log in JSON before.
    [line] = [line for line in done.err.splitlines() if not line.startswith("{")]
    return done.code, line


async def tell(kubeconfig: Path, *commands: tuple[str, ...]) -> list[str]:
    """The one line of each command that fails, in the order of the commands."""
    lines = []
    for begin in range(0, len(commands), 4):
        found = await asyncio.gather(
            *(run(words, kubeconfig) for words in commands[begin : begin + 4])
        )
        lines += [line.removesuffix(WITHOUT_CLUSTER) for code, line in found if code == 1]
    assert len(lines) == len(commands)
    return lines


def check(lines: list[str], *wanted: str) -> None:
    """Each line has a problem and a remedy, and no text of Python."""
    for line in lines:
        assert line.startswith("trimtab: ")
        assert not PYTHON_TEXT.search(line), line
        assert [text for text in wanted if text not in line] == [], line
        assert len(line) < 400


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LyingServer]:
    folder = tmp_path / "server"
    folder.mkdir()
    async with LyingServer(folder).serving() as server:
        yield server


def beside(folder: Path, url: str, **fields: object) -> Path:
    return a_kubeconfig(folder, cluster={"server": url, **fields}, user={"token": "secret"})


@asynccontextmanager
async def plain_server(body: bytes = b"<html>welcome</html>") -> AsyncIterator[str]:
    """A web server of another kind, without TLS."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as serving:
        yield f"127.0.0.1:{serving.sockets[0].getsockname()[1]}"


async def test_nothing_listens_there(tmp_path: Path) -> None:
    lines = await tell(beside(tmp_path, "https://127.0.0.1:1"), *COMMANDS)

    check(lines, "at https://127.0.0.1:1: nothing listens there; start the cluster")


async def test_a_proxy_that_is_not_there_is_not_taken_for_the_cluster(
    tmp_path: Path, server: LyingServer
) -> None:
    lines = await tell(beside(tmp_path, server.url, **{"proxy-url": "http://127.0.0.1:1"}), *SOME)

    check(lines, "the proxy at 127.0.0.1:1 cannot be reached; check proxy-url in the kubeconfig")


async def test_a_proxy_of_the_environment_is_named_when_it_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "127.0.0.1:1")
    lines = await tell(beside(tmp_path, "https://api.test:6443"), *SOME)

    check(lines, "the proxy at 127.0.0.1:1 cannot be reached", "HTTPS_PROXY and NO_PROXY")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        pytest.param("no-such-plugin", "cannot be started: no such file", id="not installed"),
        pytest.param("false", "ended with 1; log in again", id="without a word"),
    ],
)
async def test_a_plugin_that_fails_is_told_as_one(
    tmp_path: Path, server: LyingServer, command: str, problem: str
) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command}
    user = {"exec": {**plugin, "interactiveMode": "Never"}}
    path = a_kubeconfig(tmp_path, cluster={"server": server.url}, user=user)

    check(
        await tell(path, *SOME),
        f"the plugin {command} that the kubeconfig names: {problem}",
        "or check the user's exec in it",
    )


async def test_a_name_that_is_not_found(tmp_path: Path) -> None:
    lines = await tell(beside(tmp_path, "https://nowhere.invalid:6443"), *SOME)

    check(lines, "the name nowhere.invalid cannot be found; check the server in the kubeconfig")


async def test_a_certificate_that_is_not_trusted(tmp_path: Path, server: LyingServer) -> None:
    data = encoded(an_authority().certificate)
    path = beside(tmp_path, server.url, **{"certificate-authority-data": data})

    check(
        await tell(path, *SOME),
        "the certificate is not trusted: ",
        "; put the cluster's CA into certificate-authority-data of the kubeconfig",
    )


async def test_a_certificate_of_another_name(tmp_path: Path, server: LyingServer) -> None:
    data = encoded(server.authority.certificate)
    fields = {"certificate-authority-data": data, "tls-server-name": "other"}

    check(
        await tell(beside(tmp_path, server.url, **fields), *SOME),
        "Hostname mismatch, certificate is not valid for 'other'; name the right one",
    )


async def test_a_port_without_tls(tmp_path: Path) -> None:
    async with plain_server() as address:
        lines = await tell(beside(tmp_path, f"https://{address}"), *SOME)

    check(lines, "it does not speak TLS; check the server in the kubeconfig: its port")


@pytest.mark.parametrize(
    ("body", "commands"),
    [
        pytest.param(b"<html>welcome</html>", COMMANDS, id="a page"),
        pytest.param(b"", (("doctor",), ("checkpoint", "export"), ("updater",)), id="nothing"),
        pytest.param(b"{}", (("doctor",), ("get",), ("updater",)), id="JSON of another API"),
    ],
)
async def test_a_port_of_another_program(
    tmp_path: Path, body: bytes, commands: tuple[tuple[str, ...], ...]
) -> None:
    async with plain_server(body) as address:
        lines = await tell(beside(tmp_path, f"http://{address}"), *commands)

    check(lines, "is no Kubernetes API server; check the server in the kubeconfig, its port")


async def test_a_port_that_speaks_another_protocol(tmp_path: Path, server: LyingServer) -> None:
    server.lie = Lie.NO_HTTP
    commands = [("get",), ("explain", "web")]

    check(
        await tell(server.write_kubeconfig(tmp_path / "config"), *commands),
        "is no Kubernetes API server; check the server in the kubeconfig, its port",
    )


async def test_crds_that_are_missing(tmp_path: Path, server: LyingServer) -> None:
    server.is_missing = lambda path: path.startswith("/apis/autoscaling.k8s.io/")
    commands = [("get",), ("explain", "web"), ("checkpoint", "inspect")]

    check(
        await tell(server.write_kubeconfig(tmp_path / "config"), *commands),
        "the CRDs are missing: trimtab crds | kubectl apply --server-side",
    )


async def test_a_right_that_is_missing(tmp_path: Path, server: LyingServer) -> None:
    server.lie = Lie.FORBIDDEN
    commands = [("get",), ("explain", "web"), ("checkpoint", "inspect")]

    check(
        await tell(server.write_kubeconfig(tmp_path / "config"), *commands),
        "missing right: list ",
        "; ask an administrator for it, and check: kubectl auth can-i list ",
    )


def test_whoever_has_no_credentials_sees_that_the_request_was_anonymous() -> None:
    message = (
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group ""'
        ' in the namespace "shop"'
    )
    refused = ForbiddenError("GET /x", Status(code=403, message=message))

    assert "missing right: list pods in shop (as system:anonymous); ask" in explain_problem(
        refused, "https://here"
    )


@pytest.mark.parametrize(
    ("more", "code"),
    [
        pytest.param((), 1, id="everything"),
        pytest.param(("--strict",), 3, id="strictly"),
    ],
)
async def test_a_doctor_that_may_see_nothing_does_not_call_that_well(
    tmp_path: Path, server: LyingServer, more: tuple[str, ...], code: int
) -> None:
    server.lie = Lie.FORBIDDEN
    done = await start(("doctor", *more), server.write_kubeconfig(tmp_path / "config"))

    assert done.code == code, done
    assert done.err.splitlines()[-1].startswith("trimtab: no check could run")
    assert "may not list version" not in done.out


async def test_a_cluster_that_is_silent_is_named_while_it_is_waited_for(
    tmp_path: Path, server: LyingServer
) -> None:
    server.lie = Lie.SILENT
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from trimtab.cli.main import main; raise SystemExit(main())",
        *("get", f"--kubeconfig={server.write_kubeconfig(tmp_path / 'config')}"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line = await asyncio.wait_for(process.stderr.readline(), 25)
    finally:
        process.kill()
        await process.communicate()

    assert line.decode() == f"trimtab: still waiting for the cluster at {server.url}\n"


async def test_a_prometheus_that_is_not_there_is_told_with_its_flag(tmp_path: Path) -> None:
    nowhere = beside(tmp_path, "https://127.0.0.1:1")
    words = ("backtest", "--namespace=shop", "--prometheus-address=http://nowhere.invalid")
    done = await start(words, nowhere)

    assert done.code == 1
    check(done.err.splitlines()[-1:], "http://nowhere.invalid: ", "; name Prometheus by --prom")


async def test_credentials_that_are_not_accepted(tmp_path: Path, server: LyingServer) -> None:
    server.lie = Lie.UNAUTHORIZED
    commands = [("get",), ("explain", "web"), ("checkpoint", "inspect")]

    check(
        await tell(server.write_kubeconfig(tmp_path / "config"), *commands),
        "does not accept our credentials; log in again",
    )


@contextmanager
def _file(folder: Path, text: str | None) -> Iterator[Path]:
    path = folder / "config"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    yield path


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(None, "cannot be read: no such file or directory", id="no file"),
        pytest.param("clusters: [", "no YAML: did not find expected node", id="no YAML"),
        pytest.param("clusters: 3", "clusters: expected a list, got a number", id="no list"),
        pytest.param(json.dumps({"current-context": "x"}), "there is no 'x'", id="no context"),
    ],
)
async def test_a_kubeconfig_that_is_broken(tmp_path: Path, text: str | None, problem: str) -> None:
    with _file(tmp_path, text) as path:
        lines = await tell(path, ("get",), ("updater",))

    check(lines, f"no way to a cluster: {path}: ", problem, "; name a kubeconfig by --kubeconfig")
