"""Standard output that is full or closed is one line and code 1, in fresh processes."""

import asyncio
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.servers.read_only_cluster import ReadOnlyCluster, served

TRIMTAB = Path(sys.executable).parent / "trimtab"
FULL = "trimtab: cannot write: No space left on device\n"
CLOSED = "trimtab: cannot write: standard output is closed\n"
WRITING = ["crds", "version", "--version", "--help", "report --help", "completion bash"]
"""Commands that need no cluster to have something to write."""


def start(line: str, redirection: str) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.quote(str(TRIMTAB))} {line} {redirection}"
    return subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("line", WRITING)
@pytest.mark.parametrize(("redirection", "told"), [(">/dev/full", FULL), (">&-", CLOSED)])
def test_output_that_nothing_takes_is_one_line(line: str, redirection: str, told: str) -> None:
    done = start(line, redirection)

    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


@pytest.mark.parametrize(
    "words",
    ["get -A", "get -A -o json", "report -A --watch-for=0s --min-samples=1 -o html"],
)
async def test_commands_beside_a_cluster_say_the_same(tmp_path: Path, words: str) -> None:
    cluster = ReadOnlyCluster()
    cluster.deploy("web")
    cluster.use("500m", "300Mi")
    metadata = {"name": "web", "namespace": "shop"}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cluster.add_object(
        "verticalpodautoscalers", {"metadata": metadata, "spec": {"targetRef": target}}
    )
    async with served(cluster, tmp_path) as kubeconfig:
        line = f"{words} --kubeconfig={shlex.quote(str(kubeconfig))}"
        done = await _beside(line)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] + "\n" == FULL


async def _beside(line: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(start, line, ">/dev/full")


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_a_mistake_keeps_its_code_where_nothing_takes_the_message(redirection: str) -> None:
    assert start("bogus", redirection).returncode == 2
    assert start("version", redirection).returncode == 0


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    done = start("crds", "| head -n 1; exit ${PIPESTATUS:-0}")

    assert not re.search("Traceback|cannot write", done.stderr)
