"""Handling of a standard output that is full or closed."""

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Final

_UNWRITABLE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.ENXIO}
)
_CLOSED: Final = "standard output is closed"


class _Closed(io.TextIOBase):
    """Standard output of a process that was started without any."""

    def write(self, _: str, /) -> int:
        raise OSError(errno.EBADF, _CLOSED)


class _Nowhere(io.TextIOBase):
    """Standard error of a process that was started without any: messages are lost."""

    def write(self, text: str, /) -> int:
        return len(text)


def replace_closed() -> None:
    """Replace missing standard streams (`>&-`), which are None in Python."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = _Nowhere()


def is_unwritable(error: OSError) -> bool:
    """Return True if output cannot be written: the disk is full, or the stream is closed."""
    return error.errno in _UNWRITABLE


def discard() -> None:
    """Discard buffered output, since writing it at exit would fail once more."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """Write one line to standard error; ignore errors of writing."""
    with suppress(OSError):
        sys.stderr.write(f"trimtab: {text}\n")
        sys.stderr.flush()
