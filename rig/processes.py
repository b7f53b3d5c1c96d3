"""Processes of the rig: started with a log of their own, ended by those who started them.

Each has a supervisor for a parent (`supervisor.py`), so that none outlives a run that was killed.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig import supervisor

_SUPERVISOR: Final = (sys.executable, "-I", "-S", supervisor.__file__)
_READY_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.05


class ProcessError(RuntimeError):
    """A process of the rig that ended by itself or never became ready."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that this one started, and its log."""

    name: str
    popen: subprocess.Popen[bytes]
    """Its supervisor, which lives exactly as long."""
    log: Path

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Return as soon as it is ready; a ProcessError with its last words if that never comes."""
        deadline = time.monotonic() + _READY_SECONDS
        while not is_ready():
            if self.popen.poll() is not None:
                raise ProcessError(f"{self.name} ended by itself:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"{self.name} is not ready after {_READY_SECONDS} s:\n{self.last_words()}"
                )
            time.sleep(_POLL_SECONDS)

    def last_words(self, count: int = 15) -> str:
        """The end of its log, and where all of it is."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([*lines[-count:], f"(all of it: {self.log})"])


@contextmanager
def running(
    program: Path, flags: Sequence[str], directory: Path, *, logs: Path | None = None
) -> Iterator[Process]:
    """A process for as long as the block lasts; its log is `<name>.log` in the folder of logs."""
    log = (logs or directory) / f"{program.name}.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(
            [*_SUPERVISOR, program, *flags],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the one who started it; this one is ended below, and in order.
            start_new_session=True,
        )
    try:
        yield Process(program.name, popen, log)
    finally:
        _end(popen)


def _end(popen: subprocess.Popen[bytes]) -> None:
    assert popen.stdin is not None
    popen.stdin.close()
    try:
        popen.wait(timeout=2 * supervisor.GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()
