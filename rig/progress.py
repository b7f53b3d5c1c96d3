"""Long work says what it is at and for how long: ten silent minutes look like a hang."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rig import processes
from rig.processes import Process, Surroundings

_EVERY_SECONDS: Final = 10
_MINUTE_SECONDS: Final = 60
_LAST_WORDS: Final = 20


class ProgressError(RuntimeError):
    """A program that failed; says its last words."""


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stderr.write(f"build: {text}\n")
    sys.stderr.flush()


def run(
    command: Sequence[str],
    title: str,
    *,
    directory: Path,
    logs: Path,
    environment: Mapping[str, str] | None = None,
    describe: Callable[[Sequence[str]], str] = lambda _: "",
) -> None:
    """Run a program to its end, and say now and then what its log tells, as described.

    It ends with us, however we end.
    """
    started = time.monotonic()
    program, *flags = command
    around = Surroundings(environment=environment or {})
    with processes.running(
        Path(program), flags, directory, logs=logs, surroundings=around
    ) as process:
        while _is_running(process):
            _say_how_far(title, time.monotonic() - started, describe(_lines(process.log)))
    if process.popen.returncode != 0:
        raise ProgressError("\n".join(_lines(process.log)[-_LAST_WORDS:]))
    say(f"{title}: done in {format_span(time.monotonic() - started)}")


def format_span(seconds: float) -> str:
    """A span as a person would say it."""
    minutes, rest = divmod(round(seconds), _MINUTE_SECONDS)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _say_how_far(title: str, seconds: float, told: str) -> None:
    say(": ".join(filter(None, (title, format_span(seconds), told))))


def _is_running(process: Process) -> bool:
    try:
        process.popen.wait(timeout=_EVERY_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()
