"""Components that cannot start as their flags say, in fresh processes beside an API server."""

import asyncio
import re
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.makers.certificates import a_pair, an_authority
from support.servers.lying_api_server import LyingServer

LIBRARY_WORDS = re.compile(r"Errno|Traceback|_ssl|\[|attempting|codec|\('")
"""Words of Python and of OpenSSL's source, which no operator should have to read."""
UNUSABLE = "--metrics-tls-cert-file: {}: no usable certificate with its key"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LyingServer]:
    async with LyingServer(tmp_path).serving() as server:
        yield server


async def start(server: LyingServer, folder: Path, *words: str) -> tuple[int | None, str]:
    """Return the exit code of a component, and the last line that it writes."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from trimtab.cli.main import main; raise SystemExit(main())",
        *words,
        f"--kubeconfig={server.write_kubeconfig(folder / 'config')}",
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(30):
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return process.returncode, err.decode().splitlines()[-1]


@pytest.fixture
def taken() -> Iterator[str]:
    """An address on which another process listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield f"127.0.0.1:{other.getsockname()[1]}"


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("updater", "--address={}"), id="metrics"),
        pytest.param(("updater", "--address={}", "--metrics-secure"), id="metrics with TLS"),
        pytest.param(("updater", "--address=127.0.0.1:0", "--health-address={}"), id="probes"),
    ],
)
async def test_a_port_that_is_taken_is_named_in_words_for_people(
    server: LyingServer, tmp_path: Path, taken: str, flags: tuple[str, ...]
) -> None:
    code, told = await start(server, tmp_path, *(flag.format(taken) for flag in flags))

    assert (code, told) == (1, f"trimtab: cannot listen on {taken}: address already in use")


async def test_the_port_of_the_webhook_is_named_in_words_for_people_too(
    server: LyingServer, tmp_path: Path, taken: str
) -> None:
    host, _, port = taken.rpartition(":")
    words = ("admission-controller", f"--bind-address={host}", f"--port={port}")
    code, told = await start(server, tmp_path, *words)

    assert (code, told) == (1, f"trimtab: cannot listen on {taken}: address already in use")


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("no.such.host.invalid", id="unknown"),
        pytest.param("a" * 70, id="too long"),
        pytest.param("é" * 70, id="too long for other alphabets"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--metrics-secure",)], ids=["plain", "TLS"])
async def test_a_host_that_cannot_be_found_is_named(
    server: LyingServer, tmp_path: Path, host: str, more: tuple[str, ...]
) -> None:
    code, told = await start(server, tmp_path, "updater", f"--address={host}:80", *more)

    problem = "the name of the host cannot be found"
    assert (code, told) == (1, f"trimtab: cannot listen on {host}:80: {problem}")


def write_pair(folder: Path) -> dict[str, Path]:
    """Files of certificates and keys, good ones and others, by name."""
    pair, other = (a_pair(an_authority(), name) for name in ("one", "other"))
    texts = {"cert": pair.certificate, "key": pair.key, "other": other.key, "text": "no PEM"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "bytes").write_bytes(b"\xff\xfe")
    (folder / "folder").mkdir()
    return {name: folder / name for name in (*texts, "bytes", "folder", "none")}


@pytest.mark.parametrize(
    ("cert", "key", "told"),
    [
        ("none", "key", "--metrics-tls-cert-file: {none}: no such file or directory"),
        ("cert", "none", "--metrics-tls-private-key: {none}: no such file or directory"),
        ("folder", "key", "--metrics-tls-cert-file: {folder}: is a directory"),
        ("text", "key", f"{UNUSABLE.format('{text}')}: no PEM text"),
        ("cert", "other", f"{UNUSABLE.format('{cert}')}: key values mismatch"),
    ],
)
async def test_a_certificate_that_cannot_be_shown_is_named_with_its_flag(
    server: LyingServer, tmp_path: Path, cert: str, key: str, told: str
) -> None:
    files = write_pair(tmp_path)
    given = (f"--metrics-tls-cert-file={files[cert]}", f"--metrics-tls-private-key={files[key]}")
    words = ("updater", "--address=127.0.0.1:0", "--metrics-secure", *given)
    code, line = await start(server, tmp_path, *words)

    assert (code, line) == (1, f"trimtab: {told.format(**files)}")


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("none", "no such file or directory"),
        ("folder", "is a directory"),
        ("text", "no certificate or crl found"),
    ],
)
async def test_an_authority_of_clients_that_cannot_be_read_is_named(
    server: LyingServer, tmp_path: Path, file: str, problem: str
) -> None:
    path = write_pair(tmp_path)[file]
    words = ("admission-controller", "--port=0", f"--webhook-client-ca-file={path}")
    code, told = await start(server, tmp_path, *words)

    assert code == 2
    assert told.startswith(f"trimtab: --webhook-client-ca-file: {path}: {problem};")
    assert not LIBRARY_WORDS.search(told)
