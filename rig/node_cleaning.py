"""What the kernel does not take away with a node's namespaces: its cgroups, its bridge, its folder.

Run by the supervisor of `node_namespace.py` when that has ended, and before a node starts, in case
a supervisor was killed. By path, without our packages:
`python -I -S node_cleaning.py CGROUP BRIDGE DIRECTORY`.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
SYSTEM_FOLDERS = "/usr/sbin:/sbin"

_PATIENCE_SECONDS = 5
_POLL_SECONDS = 0.02


def main() -> int:
    """Clear up after the node of the command line; 1 if a cgroup cannot be removed."""
    cgroup, bridge, directory = sys.argv[1:]
    is_clean = remove_cgroups(cgroup)
    remove_bridge(bridge)
    shutil.rmtree(directory, ignore_errors=True)
    return 0 if is_clean else 1


def hierarchies() -> Iterator[Path]:
    """Where cgroups are mounted, old ones and new ones."""
    for line in MOUNTS.read_text("utf-8").splitlines():
        _, place, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(place)


def remove_cgroups(name: str) -> bool:
    """Whether no hierarchy has a folder of that name any more; the folders go from the leaves up.

    A folder of processes that have just ended may stay busy for a moment.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while left := [each / name for each in hierarchies() if (each / name).is_dir()]:
        for root in left:
            for folder in sorted(root.glob("**/"), key=lambda it: len(it.parts), reverse=True):
                with suppress(OSError):
                    folder.rmdir()
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def remove_bridge(name: str) -> None:
    """The network interface is gone, if it was there at all."""
    program = find_ip()
    if program and Path("/sys/class/net", name).exists():
        subprocess.run([program, "link", "del", name], check=False)


def find_ip() -> str | None:
    """The program that makes and removes network interfaces; PATH may lack its folder."""
    return shutil.which("ip") or shutil.which("ip", path=SYSTEM_FOLDERS)


if __name__ == "__main__":
    sys.exit(main())
