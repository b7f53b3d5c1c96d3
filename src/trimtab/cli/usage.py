"""The one error that a command raises when it was called wrongly."""


class UsageError(Exception):
    """A command line that makes no sense; the message is one line for the person who typed it."""
