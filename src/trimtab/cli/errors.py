"""Errors of commands: a wrong command line, or a cluster or file that prevents the work."""

from typing import Final


class FailedError(Exception):
    """The surroundings prevent a command from working; the message is one line for people."""


class NoClusterError(FailedError):
    """No cluster is configured, or the cluster does not answer."""


_MOST_SHOWN: Final = 64


class UsageError(Exception):
    """The command line is invalid; the message is one line for the person who typed it."""


def quote(text: str) -> str:
    """Return the text in quotation marks, cut if it is long."""
    return f'"{text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."}"'
