"""Locks: a pid in a locked file is the pid of a living holder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rig import locks
from rig.locks import LockedError

ROOT = Path(__file__).parents[2]

# Holds the lock until it is killed or its input ends.
HOLDER = """\
import pathlib, sys
from rig import locks
with locks.held(pathlib.Path(sys.argv[1])) as tell:
    tell({"kubeconfig": "there"})
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(lock: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_nobody_holds_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert locks.read_holder(tmp_path / "lock") is None


def test_a_holder_tells_its_pid_and_what_it_likes(tmp_path: Path) -> None:
    lock = tmp_path / "deep/lock"

    with locks.held(lock) as tell:
        at_first = locks.read_holder(lock)
        tell({"kubeconfig": "here"})
        told = locks.read_holder(lock)

    assert at_first == {"pid": str(os.getpid())}
    assert told == {"pid": str(os.getpid()), "kubeconfig": "here"}
    assert locks.read_holder(lock) is None
    assert not locks.was_abandoned(lock)


def test_a_file_has_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    with locks.held(lock), pytest.raises(LockedError, match="held by another"), locks.held(lock):
        pass

    with locks.held(lock):
        assert locks.read_holder(lock)


def test_a_holder_in_another_process_is_seen_and_its_death_too(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with start_holder(lock) as holder:
        seen, abandoned = locks.read_holder(lock), locks.was_abandoned(lock)
        holder.kill()

    assert seen == {"pid": str(holder.pid), "kubeconfig": "there"}
    assert not abandoned
    assert locks.read_holder(lock) is None
    assert locks.was_abandoned(lock)
