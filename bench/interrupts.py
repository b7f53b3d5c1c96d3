"""Whoever ends a measurement ends it in order: nothing is left behind, and what is known is kept.

A part of the whole has a process group of its own, so that Ctrl-C reaches it only once, through
the one that started it.
"""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

EXIT_CODE: Final = 130
"""Of a run that was interrupted, as shells have it."""
GRACE_SECONDS: Final = 60
"""A control plane needs some seconds to end."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def raised() -> Iterator[None]:
    """Let every polite signal to end be a KeyboardInterrupt for as long as the block lasts."""
    before = {each: signal.signal(each, signal.default_int_handler) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, known in before.items():
            signal.signal(each, known)


def run_apart(command: Sequence[str], most_seconds: float) -> int:
    """The exit code of a program, which is ended in order if it takes too long or we are ended."""
    with subprocess.Popen(command, process_group=0) as child:
        try:
            return child.wait(timeout=most_seconds)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            end(child)
            raise


def end(child: subprocess.Popen[bytes]) -> None:
    """End a program that clears up behind itself, and wait for that."""
    child.send_signal(signal.SIGINT)
    try:
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=GRACE_SECONDS)
    finally:
        # Whoever cannot wait that long interrupts us again.
        child.kill()
