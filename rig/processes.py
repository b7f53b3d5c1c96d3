"""Processes of the rig: started with a log of their own, ended by those who started them."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_READY_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.05
_GRACE_SECONDS: Final = 10


class ProcessError(RuntimeError):
    """A process of the rig that ended by itself or never became ready."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that this one started, and its log."""

    name: str
    popen: subprocess.Popen[bytes]
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
        """The end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-count:])


@contextmanager
def running(program: Path, flags: Sequence[str], directory: Path) -> Iterator[Process]:
    """A process for as long as the block lasts; its log is `<name>.log` in the directory."""
    log = directory / f"{program.name}.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(
            [program, *flags],
            cwd=directory,
            stdin=subprocess.DEVNULL,
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
    popen.terminate()
    try:
        popen.wait(timeout=_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()
