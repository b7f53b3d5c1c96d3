"""The error that a command raises when it was called wrongly, and how it shows what was typed."""

from typing import Final

_MOST_SHOWN: Final = 64


class UsageError(Exception):
    """A command line that makes no sense; the message is one line for the person who typed it."""


def quote(text: str) -> str:
    """The text in quotation marks, cut if it is long."""
    return f'"{text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."}"'
