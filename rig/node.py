"""A real node on this machine: a kubelet with containerd and runc, which joins a control plane.

Its mounts and processes are in namespaces of its own (`node_namespace.py`), its cgroups under one
folder, its pods on one bridge; all of that goes with the block, and with a run that is killed. What
its pods run is in `node_images.py`.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

from rig import (
    certificates,
    debian,
    fake_node,
    node_cleaning,
    node_images,
    node_namespace,
    node_settings,
    processes,
    programs,
    service_relay,
)
from rig.controlplane import ControlPlane, Part
from rig.fake_node import Json
from rig.flags import LOOPBACK
from rig.node_settings import Place, Programs
from rig.processes import Process, Surroundings

NAME: Final = "node-0"

_PACKAGES: Final = {"containerd": "containerd", "ctr": "containerd", "runc": "runc"}
_PLUGINS_PACKAGE: Final = "containernetworking-plugins"
_PLUGIN_FOLDERS: Final = ("/usr/lib/cni", "/opt/cni/bin")
_NEEDED_PLUGINS: Final = ("bridge", "host-local", "loopback")
_HIERARCHIES: Final = ("cpu", "cpuset", "memory")
_CPU_SHARES: Final = 8192
"""All pods count as one against any process outside: with more weight no compiler starves them."""
_STATUS: Final = Path("/proc/self/status")
_CAPABILITIES: Final = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
"""Their bits, of the kernel's header capability.h."""


class NodeError(RuntimeError):
    """A node that cannot be had on this machine."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is ready, and the means to see what it does."""

    plane: ControlPlane
    place: Place
    processes: dict[str, Process] = field(default_factory=dict)
    """What runs, by the name of the program."""

    @property
    def name(self) -> str:
        """What the API server knows it by."""
        return self.place.name

    def read_cgroup(self, pod: Json, file: str, container: str = "") -> str:
        """What the kernel says in a file of a pod's cgroup, or of one of its containers'.

        The file is named as the kernel names it, such as `cpu.shares` or `memory.limit_in_bytes`.
        """
        root = _hierarchy(file.partition(".")[0]) / self.place.cgroup
        name = f"pod{pod['metadata']['uid']}"
        # Unlike a glob it goes on where the cgroup of another pod vanishes on the way.
        (folder,) = (Path(parent) / name for parent, names, _ in os.walk(root) if name in names)
        if container:
            folder /= container_id(pod, container)
        return (folder / file).read_text("ascii").strip()

    def load_image(self, archive: Path) -> None:
        """Let pods use an image that is in an archive, as there is no registry to pull it from."""
        ctr = str(debian.find("ctr", _PACKAGES["ctr"]))
        place = ["--address", str(self.place.socket), "--namespace", "k8s.io"]
        unpacking = ["images", "import", "--snapshotter", node_settings.SNAPSHOTTER]
        _run([ctr, *place, *unpacking, str(archive)])

    @contextmanager
    def services(self) -> Iterator[dict[str, str]]:
        """Services that lead to pods, and a way of pods to the API server, while the block lasts.

        What is given are the variables by which pods find the API server.
        """
        directory, address = self.plane.directory, self.place.address
        certificates.issue(directory, "relay", "/CN=relay", f"IP:{address}")
        place = [address, self.place.bridge, str(self.plane.port), str(directory)]
        with processes.running(
            Path(sys.executable),
            ["-I", "-S", service_relay.__file__, *place],
            directory,
            logs=self.plane.logs,
            name=f"{self.name}-services",
        ) as process:
            process.wait_until(lambda: _is_listening(address, service_relay.API_PORT))
            yield {
                "KUBERNETES_SERVICE_HOST": address,
                "KUBERNETES_SERVICE_PORT": str(service_relay.API_PORT),
            }


def container_id(pod: Json, container: str) -> str:
    """The id of a container that has started."""
    statuses = {each["name"]: each for each in pod["status"]["containerStatuses"]}
    identity: str = statuses[container]["containerID"]
    return identity.rpartition("/")[2]


def why_not() -> str | None:
    """Why this machine cannot run a real node, if so."""
    checks = (_why_no_rights, _why_no_cgroups, _why_no_programs)
    return next((reason for check in checks if (reason := check())), None)


@contextmanager
def running(plane: ControlPlane, name: str = NAME) -> Iterator[Node]:
    """A node of the control plane that is ready for pods; programs that are missing are fetched."""
    reason = why_not()
    if reason:
        raise NodeError(f"a real node cannot run here: {reason}")
    found = _find_programs()
    with ExitStack() as stack:
        node = Node(plane, stack.enter_context(_own_place(plane, name)))
        _make_cgroups(node.place)
        _make_bridge(node.place)
        _write_settings(node, found)

        def start(program: Path, flags: list[str], is_ready: Callable[[], bool]) -> None:
            process = stack.enter_context(_running_inside(node, program, flags))
            node.processes[program.name] = process
            process.wait_until(is_ready)

        _start_containerd(node, found, start)
        # Last of all, when no kubelet is left that would tell of the node again.
        stack.callback(_forget, node)
        _start_kubelet(node, found, start)
        yield node


_Start = Callable[[Path, list[str], Callable[[], bool]], None]


@contextmanager
def _own_place(plane: ControlPlane, name: str) -> Iterator[Place]:
    """Namespaces, and the promise that all a node leaves behind is cleared up."""
    directory = plane.directory / name
    (directory / "temporary").mkdir(parents=True)
    script = [sys.executable, "-I", "-S"]
    with _own_number() as (number, lock):
        place = Place(name, directory, number)
        node_cleaning.remove_cgroups(place.cgroup)
        node_cleaning.remove_bridge(place.bridge)
        cleaning = [*script, node_cleaning.__file__, place.cgroup, place.bridge, str(directory)]
        with processes.running(
            Path(sys.executable),
            [*script[1:], node_namespace.__file__, str(directory)],
            plane.directory,
            logs=plane.logs,
            name=f"{name}-namespace",
            surroundings=Surroundings(afterwards=cleaning, held=[lock.fileno()]),
        ) as process:
            process.wait_until((directory / "pid").exists)
            yield place


@contextmanager
def _own_number() -> Iterator[tuple[int, socket.socket]]:
    """A number that no other node of this machine has, and what holds it.

    The kernel gives the name of a socket free when the last process that holds it has ended: here
    the supervisor that clears up.
    """
    for number in range(node_settings.HIGHEST_NUMBER + 1):
        with socket.socket(socket.AF_UNIX) as lock:
            try:
                lock.bind(f"\0trimtab-node-{number}")
            except OSError:
                continue
            yield number, lock
            return
    raise NodeError("too many nodes run on this machine")


def _running_inside(node: Node, program: Path, flags: list[str]) -> AbstractContextManager[Process]:
    directory = node.place.directory
    surroundings = Surroundings(
        inside=int((directory / "pid").read_text("ascii")),
        environment={"TMPDIR": str(directory / "temporary")},
    )
    name = f"{node.name}-{program.name}"
    logs = node.plane.logs
    return processes.running(
        program, flags, directory, logs=logs, name=name, surroundings=surroundings
    )


def _make_cgroups(place: Place) -> None:
    for hierarchy in node_cleaning.hierarchies():
        (hierarchy / place.cgroup).mkdir()
    (_hierarchy("cpu") / place.cgroup / "cpu.shares").write_text(str(_CPU_SHARES), "ascii")
    # Nothing may run in a cgroup that has none of them, and a new one has none.
    for file in ("cpuset.cpus", "cpuset.mems"):
        root = _hierarchy("cpuset")
        (root / place.cgroup / file).write_text((root / file).read_text("ascii"), "ascii")


def _make_bridge(place: Place) -> None:
    _ip("link", "add", place.bridge, "address", place.bridge_mac, "type", "bridge")
    _ip("address", "add", f"{place.address}/24", "dev", place.bridge)
    _ip("link", "set", place.bridge, "up")


def _ip(*words: str) -> None:
    _run([str(node_cleaning.find_ip()), *words])


def _write_settings(node: Node, found: Programs) -> None:
    plane, place = node.plane, node.place
    identity = certificates.issue(
        plane.directory,
        place.name,
        f"/O=system:nodes/CN=system:node:{place.name}",
        f"DNS:{place.name}, IP:{place.address}",
    )
    node_settings.write(place, found, plane.certificates, identity)
    node_settings.write_kubeconfig(
        place.directory / "kubeconfig",
        f"https://{LOOPBACK}:{plane.port}",
        plane.certificates,
        identity,
    )


def _start_containerd(node: Node, found: Programs, start: _Start) -> None:
    ctr = [str(found.ctr), "--address", str(node.place.socket), "--namespace", "k8s.io"]

    def answers() -> bool:
        return subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode == 0

    start(found.containerd, [f"--config={node.place.directory / 'containerd.toml'}"], answers)
    for archive in node_images.build(node.place.directory):
        node.load_image(archive)


def _is_listening(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def _start_kubelet(node: Node, found: Programs, start: _Start) -> None:
    path = f"/api/v1/nodes/{node.name}"
    is_freed = Part.CONTROLLERS in node.plane.parts

    def is_schedulable() -> bool:
        status, body = node.plane.request("GET", path)
        is_known = status == HTTPStatus.OK
        return is_known and fake_node.is_schedulable(json.loads(body), is_freed=is_freed)

    start(found.kubelet, node_settings.kubelet_flags(node.place), is_schedulable)


def _forget(node: Node) -> None:
    # A server that is gone has forgotten it too.
    with suppress(OSError):
        node.plane.request("DELETE", f"/api/v1/nodes/{node.name}")


def _find_programs() -> Programs:
    found = {name: debian.find(name, package) for name, package in _PACKAGES.items()}
    return Programs(kubelet=programs.find("kubelet"), plugins=_find_plugins(), **found)


def _find_plugins() -> Path:
    installed = [Path(folder) for folder in _PLUGIN_FOLDERS if _has_plugins(Path(folder))]
    return installed[0] if installed else debian.unpack(_PLUGINS_PACKAGE) / "usr/lib/cni"


def _has_plugins(folder: Path) -> bool:
    return all((folder / plugin).exists() for plugin in _NEEDED_PLUGINS)


def _why_no_rights() -> str | None:
    if os.geteuid() != 0:
        return "only root may start one"
    status = _STATUS.read_text("ascii")
    rights = int(status.partition("CapEff:")[2].split()[0], base=16)
    missing = [name for name, bit in _CAPABILITIES.items() if not rights >> bit & 1]
    return f"root lacks {' and '.join(missing)}" if missing else None


def _why_no_cgroups() -> str | None:
    places = {
        name: place for place in node_cleaning.hierarchies() for name in place.name.split(",")
    }
    missing = [name for name in _HIERARCHIES if name not in places]
    if missing:
        return f"no cgroup hierarchy of version 1 for {' and '.join(missing)}"
    closed = [name for name in _HIERARCHIES if not os.access(places[name], os.W_OK)]
    return f"the cgroups of {' and '.join(closed)} are read-only" if closed else None


def _why_no_programs() -> str | None:
    if not node_cleaning.find_ip():
        return "no program ip (package iproute2)"
    is_missing = not all(map(debian.find_installed, _PACKAGES)) or not any(
        _has_plugins(Path(folder)) for folder in _PLUGIN_FOLDERS
    )
    reason = debian.why_not() if is_missing else None
    return (
        f"containerd, runc or CNI plugins are not installed, and there is {reason}"
        if reason
        else None
    )


def _hierarchy(controller: str) -> Path:
    return next(
        place for place in node_cleaning.hierarchies() if controller in place.name.split(",")
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NodeError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
