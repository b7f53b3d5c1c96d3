"""Waiting for the world to be as wanted, for a bounded time."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE_SECONDS: Final = 30
POLL_SECONDS: Final = 0.05

Found = TypeVar("Found")


class WaitError(RuntimeError):
    """Something that is still not as wanted."""


def wait_for(
    read: Callable[[], Found],
    holds: Callable[[Found], object],
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> Found:
    """What is read, as soon as it is as wanted; else a WaitError that shows it."""
    deadline = time.monotonic() + patience_seconds
    while not holds(found := read()):
        if time.monotonic() > deadline:
            raise WaitError(f"not as wanted after {patience_seconds:g} s: {found}")
        time.sleep(poll_seconds)
    return found
