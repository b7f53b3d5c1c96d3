"""Logs that a test sets up for itself, and commands beside a small cluster."""

import asyncio
import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import structlog
from support.servers.read_only_cluster import Beside, Done, ReadOnlyCluster, served

from trimtab.cli.main import main


@pytest.fixture
def told() -> Iterator[StringIO]:
    """Where a test may let logs go; afterwards they go where they went before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def beside(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    told: StringIO,
) -> Beside:
    """Runs a command beside a cluster, without the time that a process of its own takes."""
    assert told is not None
    monkeypatch.setenv("COLUMNS", "80")

    async def run(cluster: ReadOnlyCluster, *words: str) -> Done:
        async with served(cluster, tmp_path) as kubeconfig:
            given = [*words, "--kubeconfig", str(kubeconfig)]
            code = await asyncio.to_thread(main, given)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run
