"""A command in a terminal of its own, as somebody who types sees it."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a command in a terminal."""

    code: int
    raw: str

    @property
    def lines(self) -> list[str]:
        """What is left on the screen, without colours; a line that was begun anew counts once."""
        text = _STYLE.sub("", self.raw.replace("\r\n", "\n"))
        return [line.rpartition("\r")[2] for line in text.splitlines()]


def in_terminal(
    command: Sequence[str | Path], *, columns: int = 80, more: Mapping[str, str] | None = None
) -> Seen:
    """Run a command whose input, output and errors are a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, "TERM": "xterm", **(more or {})}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    ) as running:
        os.close(theirs)
        told = _read(ours)
    os.close(ours)
    return Seen(running.returncode, told.decode())


def _read(descriptor: int) -> bytes:
    told = b""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            # That is how a terminal ends on Linux.
            return told
        if not piece:
            return told
        told += piece
