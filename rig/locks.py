"""Files that say who lives: the kernel lets go of a lock when its holder dies, however that was.

So a pid read from a file that is still locked is the pid of its holder, and of nobody else.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class LockedError(RuntimeError):
    """A file that another process holds."""


@contextmanager
def held(path: Path) -> Iterator[Callable[[Mapping[str, str]], None]]:
    """Hold a file for as long as the block lasts; others read in it our pid and what we tell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(f"{path} is held by another process") from error

        def tell(facts: Mapping[str, str]) -> None:
            file.truncate(0)
            file.write(json.dumps({**facts, "pid": str(os.getpid())}))
            file.flush()

        tell({})
        yield tell
        file.truncate(0)


def read_holder(path: Path) -> Mapping[str, str] | None:
    """What the living holder of a file wrote into it; nothing if nobody holds it."""
    if not path.exists():
        return None
    with path.open("r", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            written: Mapping[str, str] = json.loads(file.read() or "{}")
            return written
    return None


def was_abandoned(path: Path) -> bool:
    """Whether a holder died without letting go."""
    return bool(path.read_text(encoding="utf-8")) and read_holder(path) is None
