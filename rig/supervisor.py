"""The parent of one program: it ends the program as soon as nobody holds its own input any more.

Whoever starts a program holds the other end of that pipe. Closing it is how a program is ended; a
holder that was killed, by whatever signal, has closed it too. So nothing outlives a test run. What
a program leaves behind is cleared up by a command that the supervisor runs at the very end.

Started by path, without our packages: `python -I -S supervisor.py WISHES PROGRAM FLAG...`, where
the wishes are JSON: `inside` is a process whose namespaces the program shall share, `afterwards` is
the command for the end.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

GRACE_SECONDS = 5
PAUSE, RESUME = signal.SIGUSR1, signal.SIGUSR2
_PASSED_ON: dict[int, int] = {
    signal.SIGTERM: signal.SIGTERM,
    PAUSE: signal.SIGSTOP,
    RESUME: signal.SIGCONT,
}


def main() -> int:
    """Run the program of the command line; its exit code, or 128 and the signal that ended it."""
    wishes = json.loads(sys.argv[1])
    with _start(sys.argv[2:], wishes.get("inside")) as program:
        for received in _PASSED_ON:
            signal.signal(received, lambda it, _: program.send_signal(_PASSED_ON[it]))
        threading.Thread(target=_end_with_input, args=(program,), daemon=True).start()
        code = program.wait()
    if wishes.get("afterwards"):
        subprocess.run(wishes["afterwards"], stdin=subprocess.DEVNULL, check=False)
    return code if code >= 0 else 128 - code


def _start(command: list[str], inside: int | None) -> subprocess.Popen[bytes]:
    if inside is None:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL)
    directory, own = Path.cwd(), _open_namespaces(os.getpid())
    _enter(_open_namespaces(inside), directory)
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    # Only its children live elsewhere: a process in between can have no further threads.
    _enter(own, directory)
    return program


def _open_namespaces(pid: int) -> list[int]:
    return [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("pid", "mnt")]


def _enter(namespaces: list[int], directory: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace in namespaces:
        if libc.setns(namespace, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")
        os.close(namespace)
    # Who changes mounts stands at their root.
    os.chdir(directory)


def _end_with_input(program: subprocess.Popen[bytes]) -> None:
    # Not sys.stdin: a thread that waits inside its buffer would stop the interpreter from leaving.
    while os.read(0, 1):
        pass
    program.terminate()
    # One that stands still would not even hear it.
    program.send_signal(signal.SIGCONT)
    try:
        program.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()


if __name__ == "__main__":
    sys.exit(main())
