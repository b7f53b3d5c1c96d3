"""Long work says what it is at and for how long: ten silent minutes look like a hang."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

_EVERY_SECONDS: Final = 10
_MINUTE_SECONDS: Final = 60


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
    log: Path,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    describe: Callable[[Sequence[str]], str] = lambda _: "",
) -> None:
    """Run a program to its end, and say now and then what its log tells, as described."""
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        while _is_running(process):
            _say_how_far(title, time.monotonic() - started, describe(_lines(log)))
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise ProgressError(_last_words(log))
    say(f"{title}: done in {format_span(time.monotonic() - started)}")


def format_span(seconds: float) -> str:
    """A span as a person would say it."""
    minutes, rest = divmod(round(seconds), _MINUTE_SECONDS)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _say_how_far(title: str, seconds: float, told: str) -> None:
    say(": ".join(filter(None, (title, format_span(seconds), told))))


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=_EVERY_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _last_words(log: Path, count: int = 20) -> str:
    return "\n".join(_lines(log)[-count:])


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()
