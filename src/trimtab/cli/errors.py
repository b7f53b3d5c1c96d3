"""The errors that a command raises when it was called rightly and cannot go on."""

from typing import Final


class FailedError(Exception):
    """Something outside is not as it has to be; the message is one line for whoever reads it."""


class NoClusterError(FailedError):
    """There is no cluster at hand, or none that answers."""


_MOST_SHOWN: Final = 64


class UsageError(Exception):
    """A command line that makes no sense; the message is one line for the person who typed it."""


def quote(text: str) -> str:
    """The text in quotation marks, cut if it is long."""
    return f'"{text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."}"'
