"""The first process of a node: it holds the mounts and the processes that all of the node share.

When it ends, the kernel ends every process of the node and takes away every mount that one of them
made, so nothing of that has to be looked for. What programs would write into folders and kernel
parameters of the machine stays in here too.

Started by path, without our packages: `python -I -S node_namespace.py DIRECTORY`. It is ready as
soon as the directory holds a file `pid`: the one by which others find it.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

PRIVATE_FOLDERS = ("/run", "/var/lib", "/var/log")
"""Where containerd, CNI and the kubelet write at places that nobody can choose."""
PRIVATE_PARAMETERS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""What a kubelet or a CNI plugin sets: they see copies, and the machine keeps its values."""

# Of the kernel's headers sched.h, mount.h and prctl.h.
_NEW_MOUNTS, _NEW_PROCESSES = 0x00020000, 0x20000000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_SET_DEATH_SIGNAL = 1

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Hold the namespaces until told to end."""
    directory = Path(sys.argv[1])
    _die_with_parent()
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_PROCESSES), "unshare")
    ready, tell = os.pipe()
    first = os.fork()
    if first == 0:
        _live(directory, tell)
    os.close(tell)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGKILL))
    if os.read(ready, 1):
        _write_whole(directory / "pid", str(first))
    _, status = os.waitpid(first, 0)
    # Its kill is how it ends in good order.
    return 0 if os.waitstatus_to_exitcode(status) == -signal.SIGKILL else 1


def _live(directory: Path, tell: int) -> None:
    """Be the parent of all who have lost theirs."""
    _die_with_parent()
    _mount("none", "/", flags=_RECURSIVE | _PRIVATE)
    _mount("proc", "/proc", "proc")
    for folder in PRIVATE_FOLDERS:
        _make_private(Path(folder))
    _offer_socket(directory / "containerd.sock")
    for name in PRIVATE_PARAMETERS:
        _copy_parameter(Path("/proc/sys") / name, directory / name.replace("/", "."))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    os.write(tell, b"!")
    while True:
        signal.sigwait({signal.SIGCHLD})
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def _make_private(folder: Path) -> None:
    """What is in the folder stays as it is, and what is added is seen in here alone."""
    entries = {
        entry: os.open(entry, os.O_PATH) for entry in folder.iterdir() if not entry.is_symlink()
    }
    links = {entry: entry.readlink() for entry in folder.iterdir() if entry.is_symlink()}
    folders = {entry for entry in entries if entry.is_dir()}
    _mount("tmpfs", str(folder), "tmpfs")
    for entry, target in links.items():
        entry.symlink_to(target)
    for entry, opened in entries.items():
        # What is opened is found even though the mount hides it now.
        entry.mkdir() if entry in folders else entry.touch()
        _mount(f"/proc/self/fd/{opened}", str(entry), flags=_BIND | _RECURSIVE)
        os.close(opened)


def _offer_socket(socket: Path) -> None:
    """Let containerd be found where kubelets look when they read usage, whatever they are told."""
    folder = Path("/run/containerd")
    folder.mkdir(exist_ok=True)
    # One that the machine uses itself stays as it is.
    _mount("tmpfs", str(folder), "tmpfs")
    (folder / socket.name).symlink_to(socket)


def _copy_parameter(parameter: Path, copy: Path) -> None:
    if parameter.exists():
        copy.write_text(parameter.read_text("ascii"), "ascii")
        _mount(str(copy), str(parameter), flags=_BIND)


def _mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    words = (os.fsencode(word) for word in (source, target, kind))
    _check(_libc.mount(*words, ctypes.c_ulong(flags), None), f"mount {target}")


def _die_with_parent() -> None:
    _check(_libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0), "prctl")


def _check(result: int, action: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def _write_whole(file: Path, text: str) -> None:
    unfinished = file.with_suffix(".new")
    unfinished.write_text(text, "ascii")
    unfinished.rename(file)


if __name__ == "__main__":
    sys.exit(main())
