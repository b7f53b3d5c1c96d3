"""F46 in fresh processes: an unknown flag or gate never keeps a component from its work."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.lying_api_server import LyingServer
from support.servers.waiting import until

GATES = "--feature-gates=InPlaceOrRecreate=true,NoSuchGate=true"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LyingServer]:
    async with LyingServer(tmp_path).serving() as server:
        yield server


@pytest.mark.parametrize("name", ["recommender", "updater", "roles"])
@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param(["--humanize-memory=true"], "--humanize-memory", id="a removed flag"),
        pytest.param(["--no-such-flag", "7"], "--no-such-flag", id="with a value of its own"),
        pytest.param([GATES], "NoSuchGate", id="an unknown gate"),
    ],
)
async def test_f46_an_unknown_flag_is_a_warning_and_the_component_works(
    server: LyingServer, tmp_path: Path, name: str, flags: list[str], named: str
) -> None:
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from trimtab.cli.main import main; raise SystemExit(main())",
        name,
        f"--kubeconfig={kubeconfig}",
        "--address=127.0.0.1:0",
        *flags,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    events: list[dict[str, object]] = []
    try:
        async with asyncio.timeout(30):
            while "acting begins" not in {event["event"] for event in events}:
                line = await process.stderr.readline()
                assert line, "the component has ended"
                events.append(json.loads(line))
            await until(lambda: any(asked.is_watch for asked in server.asked))
    finally:
        process.terminate()
        await process.communicate()

    warnings = [str(event["problem"]) for event in events if event["event"] == "command line"]
    assert [text for text in warnings if named in text]
    assert process.returncode == 0
