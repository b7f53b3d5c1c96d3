"""A real node before anything runs: whether there can be one, and what it would be called."""

import os
from pathlib import Path

import pytest

from rig import node, node_cleaning

ALL_RIGHTS = "CapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\n"
NO_NETWORK = ALL_RIGHTS.replace("1ffffffffff", "1ffffffefff")
HIERARCHIES = ("cpu,cpuacct", "cpuset", "memory", "pids")


def install(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / name).chmod(0o755)


class Machine:
    """A machine that can run a node, until something is taken from it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.patch = monkeypatch
        self.be_user(0)
        self.have_rights(ALL_RIGHTS)
        self.mount(*HIERARCHIES)
        install(directory / "path", "ip", "apt-get", "dpkg-deb")
        monkeypatch.setenv("PATH", str(directory / "path"))
        monkeypatch.setattr(node_cleaning, "SYSTEM_FOLDERS", "")

    def be_user(self, number: int) -> None:
        self.patch.setattr(os, "geteuid", lambda: number)

    def have_rights(self, text: str) -> None:
        status = self.directory / "status"
        status.write_text(text, encoding="ascii")
        self.patch.setattr(node, "_STATUS", status)

    def mount(self, *names: str) -> None:
        mounts = self.directory / "mounts"
        for name in names:
            (self.directory / name).mkdir(exist_ok=True)
        lines = [f"cgroup {self.directory / name} cgroup rw 0 0\n" for name in names]
        mounts.write_text("".join(lines), encoding="utf-8")
        self.patch.setattr(node_cleaning, "MOUNTS", mounts)

    def close(self, *names: str) -> None:
        closed = {self.directory / name for name in names}
        self.patch.setattr(os, "access", lambda path, _: path not in closed)

    def uninstall(self, name: str) -> None:
        (self.directory / "path" / name).unlink()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_nothing_stands_against_a_node_where_all_is_given(machine: Machine) -> None:
    assert machine.directory.exists()
    assert node.why_not() is None


def test_only_root_can_start_a_node(machine: Machine) -> None:
    machine.be_user(1000)

    assert node.why_not() == "only root may start one"


def test_a_root_without_rights_cannot_start_a_node(machine: Machine) -> None:
    machine.have_rights(NO_NETWORK)

    assert node.why_not() == "root lacks CAP_NET_ADMIN"


def test_a_node_needs_cgroups_of_the_version_that_was_tried(machine: Machine) -> None:
    machine.mount("cpu,cpuacct", "memory")

    assert node.why_not() == "no cgroup hierarchy of version 1 for cpuset"


def test_a_node_needs_cgroups_that_it_may_write(machine: Machine) -> None:
    machine.close("memory")

    assert node.why_not() == "the cgroups of memory are read-only"


def test_a_node_needs_a_program_to_make_its_bridge(machine: Machine) -> None:
    machine.uninstall("ip")

    assert node.why_not() == "no program ip (package iproute2)"


def test_programs_that_are_not_installed_must_be_fetchable(machine: Machine) -> None:
    machine.uninstall("apt-get")

    assert node.why_not() == (
        "containerd, runc or CNI plugins are not installed, and there is "
        "no apt-get to fetch packages of Debian with"
    )


def test_two_nodes_of_one_machine_have_different_numbers() -> None:
    with node._own_number() as (one, _), node._own_number() as (other, _):
        both = {one, other}

    assert len(both) == 2


def test_a_number_is_free_again_when_its_node_has_ended() -> None:
    with node._own_number() as (number, lock):
        name = lock.getsockname()

    with node._own_number() as (again, lock):
        assert lock.getsockname() == name
    assert again == number


def test_the_id_of_a_container_is_what_its_cgroup_is_called() -> None:
    statuses = [
        {"name": "app", "containerID": "containerd://abc"},
        {"name": "sidecar", "containerID": "containerd://def"},
    ]

    assert node.container_id({"status": {"containerStatuses": statuses}}, "sidecar") == "def"
