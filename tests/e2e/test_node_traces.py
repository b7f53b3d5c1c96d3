"""What a real node leaves behind: nothing, whether it is stopped or its run is killed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig import node, node_cleaning, node_namespace, waiting

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(node.why_not()), reason=f"no real node: {node.why_not()}"),
]

ROOT = Path(__file__).parents[2]

# A run in a process of its own: a node with a pod on it, until its input closes or it is killed.
RUN = """\
import json, sys
from rig import controlplane, node, workers
with controlplane.running(controlplane.Part.CONTROLLERS) as plane, node.running(plane) as it:
    pods = "/api/v1/namespaces/default/pods"
    manifest = workers.pod("web", workers.container("-cpu=10", "-memory=5"))
    manifest["spec"]["nodeName"] = it.name
    plane.create(pods, manifest)
    plane.wait_for(f"{pods}/web", lambda pod: pod["status"].get("phase") == "Running")
    place = it.place
    told = {"directory": place.directory, "cgroup": place.cgroup, "bridge": place.bridge}
    print(json.dumps({key: str(value) for key, value in told.items()}), flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """What of a machine a node could change, without what other nodes have of their own."""

    mounts: frozenset[str]
    folders: frozenset[str]
    interfaces: frozenset[str]
    parameters: frozenset[str]

    def beyond(self, other: "Machine") -> list[str]:
        """What is here and was not there."""
        return sorted(
            (self.mounts - other.mounts)
            | (self.folders - other.folders)
            | (self.interfaces - other.interfaces)
            | (self.parameters - other.parameters)
        )


def read_machine() -> Machine:
    folders = [Path(folder).iterdir() for folder in node_namespace.PRIVATE_FOLDERS]
    parameters = [Path("/proc/sys", name) for name in node_namespace.PRIVATE_PARAMETERS]
    return Machine(
        mounts=frozenset(Path("/proc/mounts").read_text("utf-8").splitlines()),
        folders=frozenset(str(each) for folder in folders for each in folder),
        interfaces=frozenset(
            each.name for each in Path("/sys/class/net").iterdir() if not is_of_a_node(each)
        ),
        parameters=frozenset(f"{each}={each.read_text('ascii')}" for each in parameters),
    )


def is_of_a_node(interface: Path) -> bool:
    """Whether it is the bridge of a node, or on one."""
    return any(
        name.startswith("trimtab-")
        for name in (interface.name, (interface / "master").resolve().name)
    )


def read_own(place: dict[str, str]) -> dict[str, list[str]]:
    """What a node has of its own, by kind; of containers their cgroup tells."""
    cgroups = [each / place["cgroup"] for each in node_cleaning.hierarchies()]
    bridge, directory = Path("/sys/class/net", place["bridge"]), Path(place["directory"])
    found = {
        "cgroups": [str(each) for each in cgroups if each.exists()],
        "interfaces": [str(bridge)] * bridge.exists(),
        "folders": [str(directory)] * directory.exists(),
        "processes": list(filter(lambda it: place["directory"] in it, read_commands())),
    }
    return {kind: each for kind, each in found.items() if each}


def read_commands() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        # It may end while we look.
        with suppress(OSError):
            yield (process / "cmdline").read_text("utf-8").replace("\0", " ")


@contextmanager
def a_run() -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as run:
        assert run.stdout is not None
        try:
            yield run, json.loads(run.stdout.readline())
        finally:
            run.kill()


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped in order", "killed"])
def test_a_node_leaves_nothing_behind_however_its_run_ends(*, is_killed: bool) -> None:
    before = read_machine()
    with a_run() as (run, place):
        meanwhile, changed = read_own(place), read_machine().beyond(before)
        if is_killed:
            run.kill()
        run.communicate()
    left = waiting.wait_for(lambda: read_own(place), lambda own: not own)

    assert meanwhile.keys() == {"cgroups", "interfaces", "folders", "processes"}
    assert any("containerd-shim" in command for command in meanwhile["processes"])
    assert changed == []
    assert left == {}
    assert read_machine().beyond(before) == []
