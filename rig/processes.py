"""Processes of the rig: started with a log of their own, ended by those who started them.

Each has a supervisor for a parent (`supervisor.py`), so that none outlives a run that was killed.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rig import supervisor

_SUPERVISOR: Final = (sys.executable, "-I", "-S", supervisor.__file__)
_READY_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.05


class ProcessError(RuntimeError):
    """A process of the rig that ended by itself or never became ready."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a program needs around it; most need nothing."""

    inside: int | None = None
    """The process whose mounts and processes it shares."""
    afterwards: Sequence[str] = ()
    """The command that clears up when it has ended, also after a run that was killed."""
    held: Sequence[int] = ()
    """Files that stay open until all of that is done: locks, say."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside our own."""


NOTHING_SPECIAL: Final = Surroundings()


class Process:
    """A program that runs until this process ends it or dies; its log is `<name>.log`."""

    def __init__(
        self,
        program: Path,
        flags: Sequence[str],
        directory: Path,
        *,
        logs: Path | None = None,
        name: str = "",
        surroundings: Surroundings = NOTHING_SPECIAL,
    ) -> None:
        self.name = name or program.name
        self.log = (logs or directory) / f"{self.name}.log"
        wishes = {"inside": surroundings.inside, "afterwards": [*surroundings.afterwards]}
        self._command = [*_SUPERVISOR, json.dumps(wishes), str(program), *flags]
        self._directory = directory
        self._surroundings = surroundings
        self.log.write_bytes(b"")
        self.popen = self._start()

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

    def end(self) -> None:
        """End it, politely if it listens."""
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        try:
            self.popen.wait(timeout=2 * supervisor.GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()

    def restart(self) -> None:
        """End it and start it again with the same command; the log goes on."""
        self.end()
        self.popen = self._start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still for as long as the block lasts: it answers nobody, yet lives."""
        self.popen.send_signal(supervisor.PAUSE)
        try:
            yield
        finally:
            self.popen.send_signal(supervisor.RESUME)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start its supervisor, which lives exactly as long as the program."""
        with self.log.open("ab") as output:
            return subprocess.Popen(
                self._command,
                cwd=self._directory,
                env={**os.environ, **self._surroundings.environment},
                pass_fds=self._surroundings.held,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the one who started it; this one is ended by that one, and in order.
                start_new_session=True,
            )


@contextmanager
def running(
    program: Path,
    flags: Sequence[str],
    directory: Path,
    *,
    logs: Path | None = None,
    name: str = "",
    surroundings: Surroundings = NOTHING_SPECIAL,
) -> Iterator[Process]:
    """A process for as long as the block lasts."""
    process = Process(program, flags, directory, logs=logs, name=name, surroundings=surroundings)
    try:
        yield process
    finally:
        process.end()
