"""Clearing up after a node: what is there goes, what is not there is no matter."""

import subprocess
import sys
from pathlib import Path

import pytest

from rig import node_cleaning

MOUNTS = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup {old} cgroup rw,memory 0 0
cgroup2 {new} cgroup2 rw 0 0
proc /proc proc rw 0 0
"""


@pytest.fixture
def hierarchies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two that are mere folders: they are emptied in the same way."""
    old, new = tmp_path / "memory", tmp_path / "unified"
    for each in (old, new):
        (each / "ours/pods/burstable/pod1").mkdir(parents=True)
        (each / "others").mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.format(old=old, new=new), encoding="utf-8")
    monkeypatch.setattr(node_cleaning, "MOUNTS", mounts)
    return [old, new]


def test_cgroups_of_both_versions_are_found_where_they_are_mounted(hierarchies: list[Path]) -> None:
    assert list(node_cleaning.hierarchies()) == hierarchies


def test_the_cgroups_of_a_node_go_from_the_leaves_up_and_no_others(hierarchies: list[Path]) -> None:
    is_clean = node_cleaning.remove_cgroups("ours")

    assert is_clean
    for each in hierarchies:
        assert [entry.name for entry in each.iterdir()] == ["others"]


def test_a_cgroup_that_stays_busy_is_told(
    hierarchies: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_cleaning, "_PATIENCE_SECONDS", 0)
    (hierarchies[0] / "ours/pods/busy").touch()

    assert not node_cleaning.remove_cgroups("ours")
    assert not (hierarchies[1] / "ours").exists()


def test_a_node_that_left_nothing_but_its_folder_is_cleared_up_too(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    (folder / "containerd").mkdir(parents=True)
    command = [sys.executable, "-I", "-S", node_cleaning.__file__]
    done = subprocess.run(
        [*command, "no-such-cgroup", "no-such-bridge", str(folder)],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert not folder.exists()
